"""The conversion of fetched batches for the target. No requests.

A batch is copied whole if possible: only its header is rewritten, by the owner of the identity of the
transaction, and its records stay compressed as they are. Its old checksum is checked here, since it gets a new one.
Brokers refuse, or silently misread, what these have in their headers (measured), so they are decoded and encoded again,
by the same codec:

- batches of which only a part is wanted: the copy begins in the middle of it;
- batches from which compaction has removed records;
- batches with log-append time, whose records have no time of their own;
- batches that are larger than the target topic allows.

Runs of small batches are encoded again as few large ones. A Produce request carries one batch of each partition, so
batches of one record would cost a request each. Where a run does not fit, its batches are copied whole.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa

from semel.errors import ConfigError
from semel.read.cursor import Taken
from semel.records.arrays import numbers
from semel.records.codecs import Codec
from semel.records.decode import decode, portions
from semel.records.encode import encode
from semel.records.header import BatchHeader, check_crc
from semel.records.timestamps import LATEST
from semel.records.varint import Ints
from semel.transaction.ticket import TicketTopic

__all__ = ["SMALL", "Piece", "Times", "batches", "wanted", "whole"]

_RECORD = ["key", "value", "timestamp", "headers"]
#: Of a record before compression: its producer was allowed to write it, and only the target topic counts.
_ANY_SIZE = 2**31
#: Batches below so many bytes are merged: decoding and encoding one costs well below what a request of its own does.
SMALL = 4096
#: The time of the first record in a batch's header, and the latest one.
_TIMES, _TIMES_AT = struct.Struct(">qq"), 27


@dataclass(frozen=True, slots=True)
class Piece:
    """A batch to write, without an identity, and the source offset of each of its records: its ``first``, and where
    they are not one after the other, all of them.
    """

    batch: memoryview
    first: int
    count: int
    offsets: Ints | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """The milliseconds of some records, by their batches: of the first record of each, and the latest.

    ``total`` adds up the middle between these two for each of the ``count`` records. Batches without a time are left
    out. The ages are those at the moment when the batches were read.
    """

    oldest: int = LATEST
    newest: int = -1
    total: int = 0
    count: int = 0
    least_age: int = field(default=LATEST, compare=False)
    most_age: int = field(default=-1, compare=False)
    total_age: int = field(default=0, compare=False)

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> Times:
        """Return the times of batches to write."""
        found = [(*_TIMES.unpack_from(piece.batch, _TIMES_AT), piece.count) for piece in pieces]
        known = [(first, last, count) for first, last, count in found if 0 <= first <= last]
        if not known:
            return cls()
        oldest, newest = min(first for first, _, _ in known), max(last for _, last, _ in known)
        total = sum((first + last) // 2 * count for first, last, count in known)
        count, now = sum(count for _, _, count in known), time.time_ns() // 1_000_000
        ages = (max(now - newest, 0), max(now - oldest, 0), max(now * count - total, 0))
        return cls(oldest, newest, total, count, *ages)

    def __add__(self, other: Times) -> Times:
        return Times(
            min(self.oldest, other.oldest),
            max(self.newest, other.newest),
            self.total + other.total,
            self.count + other.count,
            min(self.least_age, other.least_age),
            max(self.most_age, other.most_age),
            self.total_age + other.total_age,
        )


def batches(taken: Taken, target: TicketTopic, name: str) -> Iterator[Piece]:
    """Yield the batches to write for one partition of an answer, in order.

    Raises :class:`~semel.errors.DataLoss` for a damaged batch, :class:`ConfigError` for a record that ``target``, which
    is called ``name``, does not take.
    """
    for small, group in groupby(wanted(taken), lambda header: _is_small(taken, header, target.max_bytes)):
        run = list(group)
        if small and len(run) > 1:
            yield from _merged(taken, run, target.max_bytes, name)
        else:
            for header in run:
                yield from _one(taken, header, target.max_bytes, name)


def wanted(taken: Taken) -> list[BatchHeader]:
    """Return the batches with records to copy."""
    return [
        header
        for header in taken.batches
        if header.count and header.next_offset > taken.start and header.base_offset < taken.end
    ]


def _one(taken: Taken, header: BatchHeader, limit: int, name: str) -> Iterator[Piece]:
    if whole(header, taken.start, taken.end) and header.size <= limit:
        check_crc(taken.records, header, taken.part.range.name)
        text = taken.records[header.position : header.position + header.size]
        yield Piece(text, header.base_offset, header.count)
    else:
        yield from _encoded_again(taken, header, limit, name)


def whole(header: BatchHeader, start: int, end: int) -> bool:
    """Return whether a broker accepts a batch with only another header, and all of the batch is wanted."""
    inside = start <= header.base_offset and header.next_offset <= end
    return inside and header.count == header.last_offset_delta + 1 and not (header.control or header.log_append_time)


def _is_small(taken: Taken, header: BatchHeader, limit: int) -> bool:
    return (
        header.size < SMALL
        and header.size <= limit
        and header.max_timestamp <= LATEST
        and whole(header, taken.start, taken.end)
    )


def _merged(taken: Taken, run: Sequence[BatchHeader], limit: int, name: str) -> Iterator[Piece]:
    """Merge a run of small batches into few large ones, with the codec of most of its bytes."""
    sizes = {codec: sum(header.size for header in run if header.codec is codec) for codec in Codec}
    codec = max(sizes, key=lambda codec: sizes[codec])
    where = taken.part.range.name
    for rows, _ in portions(taken.records, run, start=taken.start, end=taken.end, headers=True, where=where):
        try:
            yield from _encoded(rows, codec, limit, name)
        except ConfigError:  # a record that fits by the codec that it has, and not by the common one
            inside = _between(rows)
            for header in run:
                if header.next_offset > inside.start and header.base_offset < inside.stop:
                    yield from _one(taken, header, limit, name)


def _between(rows: pa.RecordBatch) -> range:
    offsets = numbers(rows.column("offset"))
    return range(int(offsets[0]), int(offsets[-1]) + 1)


def _encoded_again(taken: Taken, header: BatchHeader, limit: int, name: str) -> Iterator[Piece]:
    where = taken.part.range.name
    rows = decode(taken.records, [header], start=taken.start, end=taken.end, headers=True, where=where)
    try:
        yield from _encoded(rows, header.codec, limit, name)
    except ConfigError as error:
        raise _refused(rows, header.codec, limit, where, name) or error from None


def _encoded(rows: pa.RecordBatch, codec: Codec, limit: int, name: str) -> list[Piece]:
    if not rows.num_rows:
        return []
    made = encode(rows.select(_RECORD), codec=codec, max_bytes=limit, max_record=_ANY_SIZE, where=name)
    offsets = numbers(rows.column("offset"))
    ends = np.cumsum([batch.count for batch in made])
    parts = np.split(offsets, ends[:-1])
    return [
        Piece(memoryview(b"".join(batch.chunks)), int(part[0]), batch.count, part)
        for batch, part in zip(made, parts, strict=True)
    ]


def _refused(rows: pa.RecordBatch, codec: Codec, limit: int, where: str, name: str) -> ConfigError | None:
    """Find the record that cannot be encoded, for the message: its partition stops, so it may take its time."""
    for row in range(rows.num_rows):
        try:
            _encoded(rows.slice(row, 1), codec, limit, name)
        except ConfigError as error:
            offset = rows.column("offset")[row].as_py()
            return ConfigError(
                f"the record at offset {offset} of {where} cannot be written to {name}: {error.message} The partition"
                f" stops before it. If it is too large, raise max.message.bytes of {name}: it resumes by itself.",
                tag=error.tag,
            )
    return None
