"""Rows of one partition to record batches v2, ready for Produce requests, without a loop over records.

First the sizes: each record gets an upper bound by its lengths, and cumulative bounds give the cuts into batches. Then
the bytes, a few batches at a time: the fields between the values are packed into machine words, and :mod:`.assembly`
copies everything into one buffer. The batches are slices of it. With a codec each slice is compressed, but cuts are
made by uncompressed size. A batch that compression would enlarge is sent uncompressed. So only a row that is too large
by itself can need its compression to fit.

Base offset is 0 and leader epoch -1, which the broker overwrites. Not promised: the same cuts as in another client.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from semel.errors import ConfigError
from semel.records.assembly import Assembly
from semel.records.codecs import Codec, compress
from semel.records.columns import Column, absent, column
from semel.records.header import HEADER_SIZE, SMALLEST_RECORD, BatchHeader, pack
from semel.records.record_headers import pack_headers
from semel.records.row_label import RowLabel
from semel.records.timestamps import milliseconds
from semel.records.varint import Ints, longest_size, sizes, zigzag
from semel.records.varint import pack as pack_varints

__all__ = ["Batch", "check_rows", "encode"]

#: Uncompressed bytes that are assembled at once: small enough for 32-bit offsets and the processor's caches, large
#: enough to be worth it.
_GROUP = 2 * 1024 * 1024
#: The length of a batch is an int32; so are Arrow's offsets.
_LARGEST_BATCH = 2**31 - 4096
SEQUENCES = 2**31


@dataclass(frozen=True, slots=True)
class Batch:
    """An encoded record batch v2, ready for a Produce request."""

    #: The bytes for the socket, in this order.
    chunks: tuple[bytes | memoryview, ...]
    size: int
    count: int
    #: The sequence of its first record; -1 without a producer id.
    base_sequence: int


@dataclass(frozen=True, slots=True)
class _Limits:
    """The largest batch as it is sent, and the largest row as a batch of its own before compression."""

    batch: int
    record: int
    codec: Codec
    label: RowLabel

    @property
    def rows(self) -> int:
        """Bytes that the records of a batch may take."""
        return min(self.batch, self.record) - HEADER_SIZE

    def refuse_record(self, row: int, size: int) -> ConfigError:
        """Return the error for a row that is too large before compression."""
        return self._refuse(
            row,
            f"takes {size} bytes as a record batch before compression, and max.request.size allows {self.record}",
            "max.request.size (of a sink: kafka.max.request.size)",
        )

    def refuse_batch(self, row: int, size: int) -> ConfigError:
        """Return the error for a row that is too large as it would be sent."""
        how = "" if self.codec is Codec.NONE else f" with compression.type={self.codec.name.lower()}"
        return self._refuse(
            row,
            f"takes {size} bytes as a record batch{how}, and max.message.bytes of the topic allows {self.batch}",
            "max.message.bytes there",
        )

    def _refuse(self, row: int, what: str, limit: str) -> ConfigError:
        return ConfigError(
            f"{self.label(row)} {what}. Nothing of these rows was written. Make the row smaller, or raise {limit}.",
            tag="RECORD_TOO_LARGE",
        )


@dataclass(frozen=True, slots=True)
class _RowColumns:
    """The columns of all rows, and bounds of each record's size that hold for any cuts."""

    key: Column
    value: Column
    headers: Column | None
    timestamps: Ints
    #: Bytes at most of a timestamp delta and of an offset delta.
    longest_time: int
    longest_offset: int

    def slice(self, start: int, stop: int) -> _RowColumns:
        """Return the rows from ``start`` to before ``stop``."""
        headers = self.headers.slice(start, stop) if self.headers else None
        key, value, timestamps = self.key.slice(start, stop), self.value.slice(start, stop), self.timestamps[start:stop]
        return _RowColumns(key, value, headers, timestamps, self.longest_time, self.longest_offset)


@dataclass(frozen=True, slots=True)
class _Body:
    """The records of one batch, and the fields of its header that follow from them."""

    data: bytes | memoryview
    codec: Codec
    count: int
    base_timestamp: int
    max_timestamp: int


def encode(
    rows: Any,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
    max_bytes: int = 1_048_576,
    max_record: int | None = None,
    now_ms: int | None = None,
    where: str = "",
) -> list[Batch]:
    """Return the record batches of ``rows``, a pyarrow RecordBatch or Table. Its rows belong to one partition and are
    in order. No rows give no batches.

    Columns: ``value`` and optionally ``key`` (binary or string of any layout), ``timestamp`` (a timestamp, or
    milliseconds as int64), ``headers`` (list<struct<key: string, value: binary>>). Each may hold nulls; a null
    timestamp is ``now_ms``, or now. Other columns are ignored.

    As in Kafka's producer, ``max_bytes`` (the topic's max.message.bytes) bounds each batch as it is sent, and
    ``max_record`` (max.request.size) each row before compression. A row beyond either raises :class:`ConfigError`
    (``RECORD_TOO_LARGE``). Sequences follow each other and wrap at 2**31, or stay -1. ``where`` names the partition in
    messages, as in ``orders-0``.
    """
    if not rows.num_rows:
        return []
    limits = _limits(max_bytes, max_record, codec, RowLabel(rows, where))
    columns = _columns(rows, limits, int(time.time() * 1000) if now_ms is None else now_ms)
    bounds = _bounds(columns)
    cuts = _cuts(columns, bounds, limits)
    batches: list[Batch] = []
    sequence, row = base_sequence, 0
    for group in _groups(cuts, bounds):
        for body in _bodies(columns, group, codec):
            if HEADER_SIZE + len(body.data) > max_bytes:
                raise limits.refuse_batch(row, HEADER_SIZE + len(body.data))
            row += body.count
            header = BatchHeader(
                position=0,
                size=HEADER_SIZE + len(body.data),
                base_offset=0,
                last_offset_delta=body.count - 1,
                count=body.count,
                codec=body.codec,
                transactional=transactional,
                control=False,
                log_append_time=False,
                delete_horizon=False,
                base_timestamp=body.base_timestamp,
                max_timestamp=body.max_timestamp,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=sequence,
                leader_epoch=-1,
            )
            batches.append(Batch((pack(header, (body.data,)), body.data), header.size, body.count, sequence))
            if sequence >= 0:
                sequence = (sequence + body.count) % SEQUENCES
    return batches


def check_rows(rows: Any, *, codec: Codec, max_bytes: int, max_record: int, where: str = "") -> None:
    """Raise what :func:`encode` would raise. Bytes are made only of rows that may be too large by themselves."""
    if not rows.num_rows:
        return
    limits = _limits(max_bytes, max_record, codec, RowLabel(rows, where))
    columns = _columns(rows, limits, 0)
    bounds = _bounds(columns)
    for first, after in pairwise(_cuts(columns, bounds, limits)):
        if bounds[after] - bounds[first] > limits.rows:  # a row alone, which may fit once it is compressed
            (body,) = _bodies(columns, np.array([first, after], np.int64), codec)
            if HEADER_SIZE + len(body.data) > max_bytes:
                raise limits.refuse_batch(first, HEADER_SIZE + len(body.data))


def _limits(max_bytes: int, max_record: int | None, codec: Codec, label: RowLabel) -> _Limits:
    return _Limits(max_bytes, _LARGEST_BATCH if max_record is None else min(max_record, _LARGEST_BATCH), codec, label)


def _columns(rows: Any, limits: _Limits, now_ms: int) -> _RowColumns:
    names = rows.schema.names
    if "value" not in names:
        raise ConfigError(
            f"there is no column value among {', '.join(names)}. Nothing was written. Give one that name.",
            tag="VALUE_MISSING",
        )
    value = column(rows.column("value"), "value")
    key = column(rows.column("key"), "key") if "key" in names else absent(rows.num_rows)
    headers = pack_headers(rows.column("headers"), limits.label) if "headers" in names else None
    times = rows.column("timestamp") if "timestamp" in names else None
    timestamps = milliseconds(times, rows.num_rows, now_ms, limits.label)
    span = int(timestamps.max()) - int(timestamps.min())
    most = min(rows.num_rows, max(limits.rows, 0) // SMALLEST_RECORD)
    return _RowColumns(key, value, headers, timestamps, longest_size(span), longest_size(most))


def _bounds(rows: _RowColumns) -> Ints:
    """Return, for each row, how many bytes the records before it take at most. There is one number more than rows."""
    size = rows.longest_time + rows.longest_offset + _fixed_sizes(rows)
    size += sizes(zigzag(size))
    bounds = np.zeros(len(size) + 1, np.int64)
    np.cumsum(size, out=bounds[1:])
    return bounds


def _fixed_sizes(rows: _RowColumns) -> Ints:
    """Return the size of each record without its own length and the two deltas, which depend on the cuts."""
    size: Ints = np.maximum(rows.value.lengths, 0) + 1
    size += sizes(zigzag(rows.value.lengths))
    size += 1 if rows.headers is None else rows.headers.lengths
    if rows.key.all_null:
        size += 1
    else:
        size += sizes(zigzag(rows.key.lengths)) + np.maximum(rows.key.lengths, 0)
    return size


def _cuts(rows: _RowColumns, bounds: Ints, limits: _Limits) -> list[int]:
    """Return the rows at which batches begin, and the end. Each batch has as many rows as surely fit."""
    cuts = [0]
    while cuts[-1] < len(bounds) - 1:
        row = cuts[-1]
        after = int(np.searchsorted(bounds, bounds[row] + limits.rows, side="right")) - 1
        if after <= row:
            _check_alone(rows, row, limits)
            after = row + 1
        cuts.append(after)
    return cuts


def _check_alone(rows: _RowColumns, row: int, limits: _Limits) -> None:
    """Check a row that is too large by its bound. It may fit alone, where both deltas are 0 and take a byte each."""
    size = 2 + int(_fixed_sizes(rows.slice(row, row + 1))[0])
    size += longest_size(size) + HEADER_SIZE
    if size > limits.record:
        raise limits.refuse_record(row, size)
    if limits.codec is Codec.NONE and size > limits.batch:
        raise limits.refuse_batch(row, size)


def _groups(cuts: list[int], bounds: Ints) -> Iterator[Ints]:
    """Yield the cuts in runs of batches that are assembled at once."""
    first = 0
    while first < len(cuts) - 1:
        last = first + 1
        while last < len(cuts) - 1 and bounds[cuts[last + 1]] - bounds[cuts[first]] <= _GROUP:
            last += 1
        yield np.array(cuts[first : last + 1], np.int64)
        first = last


def _bodies(rows: _RowColumns, cuts: Ints, codec: Codec) -> Iterator[_Body]:
    """Yield the records of the batches between ``cuts``."""
    firsts, counts = cuts[:-1] - cuts[0], np.diff(cuts)
    rows = rows.slice(int(cuts[0]), int(cuts[-1]))
    timestamps = rows.timestamps
    data, starts = _records(rows, timestamps - np.repeat(timestamps[firsts], counts), np.repeat(firsts, counts))
    latest = np.maximum.reduceat(timestamps, firsts)
    for first, count, most in zip(firsts.tolist(), counts.tolist(), latest.tolist(), strict=True):
        raw = data[starts[first] : starts[first + count]]
        packed = compress(codec, raw)
        if len(packed) < len(raw):
            yield _Body(packed, codec, count, int(timestamps[first]), most)
        else:
            yield _Body(raw, Codec.NONE, count, int(timestamps[first]), most)


def _records(rows: _RowColumns, time_deltas: Ints, firsts: Ints) -> tuple[memoryview, Ints]:
    """Return all records of a group one after the other, and the position where each begins.

    Without headers each record ends in a zero byte, their count. It is written as one field with the next record's
    length, and the last one by itself. That saves a field in each row.
    """
    key, value, headers = rows.key, rows.value, rows.headers
    time, time_size = pack_varints(zigzag(time_deltas))
    offset, offset_size = pack_varints(zigzag(np.arange(len(firsts)) - firsts))
    value_length, value_size = pack_varints(zigzag(value.lengths))
    key_length, key_size = pack_varints(zigzag(key.lengths))
    length = np.maximum(value.lengths, 0) + (1 + time_size + offset_size + key_size + value_size)
    length += headers.lengths if headers else 1
    if not key.all_null:
        length += np.maximum(key.lengths, 0)
    packed, size = pack_varints(zigzag(length))
    before = 0 if headers else 1
    records = Assembly(len(firsts))
    records.field(packed * np.uint64(256**before), size + np.uint8(before + 1))
    records.field(time, time_size)
    records.field(offset, offset_size)
    records.field(key_length, key_size)
    if not key.all_null:
        records.values(key)
    records.field(value_length, value_size)
    records.values(value)
    if headers:
        records.values(headers)
    data, starts = records.join(bytes(before))
    return data, starts + before
