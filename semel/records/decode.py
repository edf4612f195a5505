"""Record batches v2 to Arrow columns, without a loop over records.

:mod:`.bodies` lays out the bytes of many batches, and :mod:`.starts` finds the records in them. This module reads one
field of all records at a time. Keys and values are copied once, from the fetched (or decompressed) bytes into their
columns.

Everything in a record is checked before it is used: lengths against the record, records against the batch, counts and
offsets against the header. A mismatch raises :class:`~semel.errors.DataLoss` with the tag ``CORRUPT_RECORDS``.

Rows are returned in portions, bounded by their decompressed size: a few megabytes on the wire may be gigabytes of
values, which no Arrow array can hold. Batches that wait are not decompressed yet. Offsets come from the records
themselves, so batches after compaction are right. Not promised: with ``check_crcs`` off, that a value is the one that
the producer wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.errors import ConfigError, Unsupported
from semel.records.arrays import LARGEST, array, validity
from semel.records.bodies import AREA, DECOMPRESSED_LIMIT, Area, areas
from semel.records.codecs import Damaged
from semel.records.columns import VIEW, Views
from semel.records.gather import binary, views_at
from semel.records.header import BatchHeader, corrupt
from semel.records.record_headers import HEADERS, read_headers
from semel.records.starts import WINDOW, record_bounds
from semel.records.timestamps import LATEST, TimestampOverflow
from semel.records.varint import Ints, read

__all__ = ["PORTION", "decode", "portions"]

#: Bytes of one portion, and of a row beside its values. A usual fetch is one portion, or a few.
PORTION = 64 * 1024 * 1024
_ROW = 64
#: A timestamp that microseconds cannot hold; it becomes null.
_NO_TIME = np.iinfo(np.int64).min

_Number = TypeVar("_Number", np.int32, np.int64)

_FIELDS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("timestampType", pa.int32()),
]


@dataclass(frozen=True, slots=True)
class _Records:
    """The fields of some records, and the index of each one's batch."""

    batch: Ints
    time_delta: Ints
    offset_delta: Ints
    key: Ints
    key_length: Ints
    value: Ints
    value_length: Ints
    header: Ints
    header_count: Ints
    end: Ints

    def filter(self, keep: NDArray[np.bool_]) -> _Records:
        """Return the records for which ``keep`` is true."""
        return _Records(*(getattr(self, name)[keep] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Finished columns of some records; keys and values as views into the buffer with the chunk's number."""

    key: Views
    value: Views
    offset: Ints
    milliseconds: Ints
    log_append: NDArray[np.int32]
    headers: Any


@dataclass(slots=True)
class _Held:
    """The chunks of the next portion, the areas that their views point into, and how many bytes they take."""

    chunks: list[_Chunk]
    buffers: list[NDArray[np.uint8]]
    size: int

    def number(self, area: Area) -> int:
        """Return the number of the area's buffer."""
        if not self.buffers or self.buffers[-1] is not area.data:
            self.buffers.append(area.data)
        return len(self.buffers) - 1


def decode(
    buffer: memoryview,
    batches: Sequence[BatchHeader],
    *,
    start: int = 0,
    end: int | None = None,
    headers: bool = False,
    check_crcs: bool = True,
    limit: int = DECOMPRESSED_LIMIT,
    where: str = "",
    timestamp_overflow: TimestampOverflow = "fail",
) -> pa.RecordBatch:
    """Return the records of ``batches`` (of :func:`scan` on the same buffer) with offsets from ``start`` to before
    ``end``.

    Columns: key and value (binary), offset, timestamp (microseconds, UTC), timestampType (0 create, 1 log append). With
    ``headers`` also the headers: list<struct<key: string, value: binary>>, empty for a record that has none. The caller
    must leave out control batches (ValueError). A batch that decompresses to more than ``limit`` bytes raises
    :class:`~semel.errors.Unsupported`, and so do 2 GiB of values and more: :func:`portions` reads those. ``where``
    names the partition in messages, as in ``orders-0``. A timestamp that microseconds cannot hold raises
    :class:`~semel.errors.ConfigError`, or becomes null, by ``timestamp_overflow``.
    """
    iterator = portions(
        buffer,
        batches,
        start=start,
        end=end,
        headers=headers,
        check_crcs=check_crcs,
        limit=limit,
        where=where,
        timestamp_overflow=timestamp_overflow,
        portion=LARGEST,
        row=0,
    )
    first = next(iterator, None)
    if first is None:
        return _assembled([], [], headers)
    if next(iterator, None) is not None:
        raise Unsupported(
            f"what {where or 'a partition'} holds is above 2 GiB. Nothing of it was read. Read it by portions.",
            tag="ARROW_LIMIT",
        )
    return first[0]


def portions(
    buffer: memoryview,
    batches: Sequence[BatchHeader],
    *,
    start: int = 0,
    end: int | None = None,
    headers: bool = False,
    check_crcs: bool = True,
    limit: int = DECOMPRESSED_LIMIT,
    where: str = "",
    timestamp_overflow: TimestampOverflow = "fail",
    portion: int = PORTION,
    row: int = _ROW,
) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Yield the rows of :func:`decode` in order, in record batches of about ``portion`` bytes at most, none empty. Each
    comes with a flag: True for the last one.

    A row takes ``row`` bytes beside its values. A row that is larger than a portion comes with few others. Batches are
    decompressed on demand, so damage in one is found after the rows before it were returned. The flag may be missing:
    the iterator's end is always right.
    """
    if any(batch.control for batch in batches):
        raise ValueError("control batches have no rows: leave them out, marker() reads them")
    wanted = [b for b in batches if b.count and b.next_offset > start and (end is None or b.base_offset < end)]
    held = _Held([], [], 0)
    for area in areas(buffer, wanted, check_crcs=check_crcs, limit=limit, where=where, most=min(AREA, portion)):
        for records, offset in _records(area, start, end, min(WINDOW, portion), where):
            size = int((records.end - records.key).sum()) + row * len(offset)
            if held.chunks and held.size + size > portion:
                yield _assembled(held.chunks, held.buffers, headers), False
                held = _Held([], [], 0)
            held.chunks.append(_chunk(area, held.number(area), records, offset, headers, where, timestamp_overflow))
            held.size += size
        if held.chunks and len(area.data) > portion:  # free it before the next one is made
            yield _assembled(held.chunks, held.buffers, headers), area.headers[-1] is wanted[-1]
            held = _Held([], [], 0)
    if held.chunks:
        yield _assembled(held.chunks, held.buffers, headers), True


def _assembled(chunks: list[_Chunk], areas_of_chunks: list[NDArray[np.uint8]], headers: bool) -> pa.RecordBatch:
    buffers = [pa.py_buffer(data) for data in areas_of_chunks]
    no_views, no_numbers = np.zeros((0, VIEW), np.int32), np.zeros(0, np.int64)
    columns = [
        binary(_joined([chunk.key for chunk in chunks], no_views), buffers),
        binary(_joined([chunk.value for chunk in chunks], no_views), buffers),
        array(_joined([chunk.offset for chunk in chunks], no_numbers), pa.int64()),
        _microseconds(_joined([chunk.milliseconds for chunk in chunks], no_numbers)),
        array(_joined([chunk.log_append for chunk in chunks], np.zeros(0, np.int32)), pa.int32()),
    ]
    if not headers:
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(_FIELDS))
    columns.append(pa.concat_arrays([pa.nulls(0, HEADERS), *(chunk.headers for chunk in chunks)]))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([*_FIELDS, pa.field("headers", HEADERS)]))


def _microseconds(milliseconds: Ints) -> Any:
    """Return the timestamp column, with null for timestamps that it cannot hold."""
    if milliseconds.min(initial=0) > _NO_TIME:
        return array(milliseconds * 1000, _FIELDS[3].type)
    null = milliseconds == _NO_TIME
    held = np.where(null, 0, milliseconds) * 1000
    return pa.Array.from_buffers(_FIELDS[3].type, len(held), [validity(null), pa.py_buffer(held)])


def _joined(parts: list[NDArray[_Number]], nothing: NDArray[_Number]) -> NDArray[_Number]:
    """Return all parts in one array. A fetch of the usual size is a single part, which is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate([nothing, *parts])


def _records(area: Area, start: int, end: int | None, window: int, where: str) -> Iterator[tuple[_Records, Ints]]:
    """Yield the wanted records of one area and their offsets, in stretches small enough for the processor's caches."""
    base_offsets = np.array([header.base_offset for header in area.headers], np.int64)
    for records in _checked(area, window, where):
        offset = base_offsets[records.batch] + records.offset_delta
        if offset.min() < start or (end is not None and offset.max() >= end):
            keep = offset >= start if end is None else (offset >= start) & (offset < end)
            records, offset = records.filter(keep), offset[keep]
        if len(offset):
            yield records, offset


def _chunk(
    area: Area, number: int, records: _Records, offset: Ints, headers: bool, where: str, overflow: TimestampOverflow
) -> _Chunk:
    milliseconds, log_append = _times(area, records, offset, where, overflow)
    column = None
    if headers:
        try:
            column = read_headers(area.data, records.header, records.header_count, records.end)
        except Damaged as error:
            raise corrupt(where, area.headers[int(records.batch[0])].base_offset, str(error)) from None
    return _Chunk(
        views_at(area.data, records.key, records.key_length, number),
        views_at(area.data, records.value, records.value_length, number),
        offset,
        milliseconds,
        log_append,
        column,
    )


def _times(
    area: Area, records: _Records, offset: Ints, where: str, overflow: TimestampOverflow
) -> tuple[Ints, NDArray[np.int32]]:
    """Return the timestamp of each record, and 1 where the broker has set it."""
    base = np.array([header.base_timestamp for header in area.headers], np.int64)
    milliseconds = base[records.batch] + records.time_delta
    log_append = np.zeros(len(milliseconds), np.int32)
    if any(header.log_append_time for header in area.headers):
        log_append = np.array([header.log_append_time for header in area.headers], np.int32)[records.batch]
        latest = np.array([header.max_timestamp for header in area.headers], np.int64)
        milliseconds = np.where(log_append, latest[records.batch], milliseconds)
    # check each of them: a sum that wraps would pass for a time
    if any(
        times.max(initial=0) > LATEST or times.min(initial=0) < -LATEST
        for times in (milliseconds, records.time_delta, base)
    ):
        total = base[records.batch] + records.time_delta
        wrapped = ((base[records.batch] ^ total) & (records.time_delta ^ total)) < 0
        created = _beyond(total) | wrapped
        wrong = np.where(log_append, _beyond(milliseconds), created)
        if overflow == "fail" and wrong.any():
            index = int(np.argmax(wrong))
            stated = (
                int(milliseconds[index])
                if log_append[index]
                else int(base[records.batch[index]]) + int(records.time_delta[index])
            )
            raise _too_late(where, int(offset[index]), stated)
        milliseconds = np.where(wrong, _NO_TIME, milliseconds)
    return milliseconds, log_append


def _too_late(where: str, offset: int, stated: int) -> ConfigError:
    """Return the error for a sound record whose timestamp Arrow and Spark cannot hold. Usually its producer gave
    nanoseconds.
    """
    return ConfigError(
        f"the timestamp of the record at offset {offset}{' of ' + where if where else ''} is {stated} ms since the"
        " epoch, which is beyond what a timestamp in microseconds can hold. The record is sound; it was not read."
        " Give the option timestampOverflow=null"
        ' (Cluster.read: timestamp_overflow="null") to have such timestamps as null, or correct the producer, which'
        " may write nanoseconds.",
        tag="TIMESTAMP_OVERFLOW",
    )


def _beyond(times: Ints) -> NDArray[np.bool_]:
    return (times > LATEST) | (times < -LATEST)


def _checked(area: Area, window: int, where: str) -> Iterator[_Records]:
    """Yield all records of an area in stretches. After the last one, every count has been checked."""
    counts = np.zeros(len(area.headers), np.int64)
    before, batch = (-1, -1), 0
    try:
        count = sum(header.count for header in area.headers)
        for attributes, ends in record_bounds(area.data, area.begins, area.ends, count, window=window):
            per_batch = np.diff(np.searchsorted(attributes, [*area.begins.tolist(), len(area.data)]))
            counts += per_batch
            indices = np.repeat(np.arange(len(counts)), per_batch)
            batch = int(indices[0])
            records = _fields(area, attributes, ends, indices, where)
            _check_order(area, records, per_batch, before, where)
            before = int(indices[-1]), int(records.offset_delta[-1])
            yield records
    except Damaged as error:
        raise corrupt(where, area.headers[batch].base_offset, str(error)) from None
    for header, count in zip(area.headers, counts.tolist(), strict=True):
        if header.count != count:
            raise corrupt(where, header.base_offset, f"its header says {header.count} records, and it holds {count}")


def _check_order(area: Area, records: _Records, per_batch: Ints, before: tuple[int, int], where: str) -> None:
    """Check that offset deltas rise from record to record of a batch. Then only its first and last record need to be
    compared with their bounds.

    ``before`` is the batch and the offset delta of the record before these.
    """
    delta = records.offset_delta
    present = np.flatnonzero(per_batch)
    after = np.cumsum(per_batch[present])
    first = after - per_batch[present]
    rising = delta[1:] > delta[:-1]
    rising[first[1:] - 1] = True
    least = np.zeros(len(present), np.int64)
    least[0] = before[1] + 1 if before[0] == present[0] else 0
    most = np.array([area.headers[index].last_offset_delta for index in present.tolist()], np.int64)
    if rising.all() and (delta[first] >= least).all() and (delta[after - 1] <= most).all():
        return
    wrong = (delta < np.repeat(least, per_batch[present])) | (delta > np.repeat(most, per_batch[present]))
    wrong[1:] |= ~rising
    _check(wrong, records, area, where, "its offset delta is out of order")


def _fields(area: Area, attributes: Ints, ends: Ints, batch: Ints, where: str) -> _Records:
    data = area.data
    time_delta, at = read(data, attributes + 1, 10)
    offset_delta, at = read(data, at, 5)
    key_length, key = read(data, at, 5)
    value_length, value = read(data, key + np.maximum(key_length, 0), 5)
    header_count, header = read(data, value + np.maximum(value_length, 0), 5)
    records = _Records(
        batch, time_delta, offset_delta, key, key_length, value, value_length, header, header_count, ends
    )
    # Each header takes two bytes at least, so this bounds the allocation for their count.
    room = ends - header
    if not room.any() and not header_count.any() and min(key_length.min(), value_length.min()) >= -1:
        return records  # the usual case, checked in a fraction of the time
    wrong = (
        (key_length < -1)
        | (value_length < -1)
        | (header_count < 0)
        | (room < 2 * header_count)
        | ((header_count == 0) & (room != 0))
    )
    _check(wrong, records, area, where, "its fields do not fill it")
    return records


def _check(wrong: NDArray[np.bool_], records: _Records, area: Area, where: str, what: str) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        header = area.headers[int(records.batch[index])]
        raise corrupt(
            where, header.base_offset, f"the record with offset delta {int(records.offset_delta[index])}: {what}"
        )
