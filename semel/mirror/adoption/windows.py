"""The last records of both sides of partitions, read in windows that grow until the place of the target's end is known.

Fingerprints are made of key, value, headers and timestamp: what a copier may not change.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from semel.mirror.adoption.placing import Place, Unsure, Window, place, place_by_rows
from semel.read.ranges import Range
from semel.read.reader import Reader
from semel.wire.api.offsets import EARLIEST, LATEST, Listed, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Log", "Sought", "find_places"]

#: Offsets of the first window, and of the largest one.
_FIRST, _LARGEST = 4_096, 1 << 20
_GROWTH = 8
#: Partitions that are read at a time with the first window, so that their records fit into the memory.
_AT_A_TIME = 64
_NONE = b"\xff\xff\xff\xff\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True)
class Log:
    """A partition with its first offset, its last stable offset, and its end. ``id`` is its topic's."""

    partition: TopicPartition
    id: str
    first: int
    stable: int
    end: int

    @classmethod
    def of(cls, client: Client, ids: Mapping[TopicPartition, str]) -> dict[TopicPartition, Log]:
        """Return the logs of these partitions, each with its topic's id."""
        if not ids:
            return {}

        def listed(at: int, *, read_committed: bool) -> Mapping[TopicPartition, Listed]:
            return list_offsets(client, dict.fromkeys(ids, at), read_committed=read_committed)

        first, stable, end = (
            listed(EARLIEST, read_committed=False),
            listed(LATEST, read_committed=True),
            listed(LATEST, read_committed=False),
        )
        return {p: cls(p, id, first[p].offset, stable[p].offset, end[p].offset) for p, id in ids.items()}


@dataclass(frozen=True, slots=True)
class Sought:
    """A target log whose end is sought in a source log.

    ``copied`` is the highest source offset that is known to be copied; with ``in_transaction`` it was committed with
    the records, where they were transactional. ``by_rows``: where nothing is known, the records are searched by their
    time. Runs of the records from ``since`` on are wanted too, for groups.
    """

    source: Log
    target: Log
    copied: int | None
    in_transaction: bool
    by_rows: bool
    since: int


def find_places(
    source: Client, target: Client, sought: Collection[Sought]
) -> dict[TopicPartition, Place | Unsure | None]:
    """Return the place of each target's end, by source partition. None if the target shows no records."""
    found: dict[TopicPartition, Place | Unsure | None] = {}
    left, size = list(sought), _FIRST
    while left:
        at_a_time = max(_AT_A_TIME * _FIRST // size, 1)
        for first in range(0, len(left), at_a_time):
            part = left[first : first + at_a_time]
            found |= {one.source.partition: placed for one, placed in _look(source, target, part, size)}
        left = [one for one in left if size < _LARGEST and _wants_more(one, found[one.source.partition], size)]
        size *= _GROWTH
    return found


def _wants_more(one: Sought, placed: Place | Unsure | None, size: int) -> bool:
    if placed is None:
        return one.target.stable - size > one.target.first
    if isinstance(placed, Unsure):
        return placed.more
    return placed.more and one.since < placed.runs.source[0]


def _look(
    source: Client, target: Client, sought: Collection[Sought], size: int
) -> Iterator[tuple[Sought, Place | Unsure | None]]:
    ends = {one.target.partition: _last(one.target, size) for one in sought}
    targets = _read(target, ends.values(), read_committed=True)
    left = []
    for one in sought:
        if len(targets[one.target.partition]):
            left.append(one)
        else:
            yield one, None
    times = {
        one.source.partition: targets[one.target.partition].last_ms
        for one in left
        if one.by_rows and one.copied is None
    }
    at_time = list_offsets(source, times, read_committed=False) if times else {}
    # a copier at least once reads aborted records too, unless its file says otherwise
    for read_committed in (True, False):
        around = {
            one.source.partition: _around(one, at_time.get(one.source.partition), size, read_committed=read_committed)
            for one in left
        }
        sources = _read(source, around.values(), read_committed=read_committed)
        unplaced = []
        for one in left:
            placed = _place(one, sources[one.source.partition], targets[one.target.partition])
            if isinstance(placed, Unsure) and read_committed:
                unplaced.append(one)
            else:
                yield one, placed
        left = unplaced


def _place(one: Sought, source: Window, target: Window) -> Place | Unsure:
    if one.by_rows and one.copied is None:
        return place_by_rows(source, target)
    return place(source, target, one.copied, trusted=one.in_transaction and target.transactional)


@dataclass(frozen=True, slots=True)
class _Part:
    range: Range
    from_start: bool
    to_end: bool


def _last(log: Log, size: int) -> _Part:
    start = max(log.first, log.stable - size)
    return _part(log, start, log.stable, log.stable)


def _around(one: Sought, at_time: Listed | None, size: int, *, read_committed: bool) -> _Part:
    """Return the part of the source around the record that was copied last, or its beginning."""
    log = one.source
    middle = one.copied + 1 if one.copied is not None else at_time.offset if at_time is not None else log.first
    last = log.stable if read_committed else log.end
    start = min(max(log.first, middle - size), last)
    return _part(log, start, max(min(last, middle + size), start), last)


def _part(log: Log, start: int, end: int, last: int) -> _Part:
    topic, index = log.partition
    return _Part(Range(topic, log.id, index, start, end), start <= log.first, end >= last)


def _read(client: Client, parts: Collection[_Part], *, read_committed: bool) -> dict[TopicPartition, Window]:
    offsets: dict[TopicPartition, list[np.ndarray]] = defaultdict(list)
    prints: dict[TopicPartition, list[int]] = defaultdict(list)
    transactional: dict[TopicPartition, bool] = {}
    last_ms: dict[TopicPartition, int] = {}
    with Reader(client, [part.range for part in parts], read_committed=read_committed, headers=True) as reader:
        for answer in reader.answers():
            for taken in answer:
                partition = taken.part.range.topic_partition
                for rows, _ in taken.decode(headers=True, max_rows=1 << 30, timestamp_overflow="null"):
                    offsets[partition].append(rows.column("offset").to_numpy())
                    prints[partition] += _fingerprints(rows)
                    last_ms[partition] = _last_ms(rows, last_ms.get(partition, -1))
                for header in taken.batches:
                    if header.count and header.base_offset < taken.end:
                        transactional[partition] = header.transactional
    return {
        one: Window(
            np.concatenate(offsets[one]) if offsets[one] else np.zeros(0, np.int64),
            np.array(prints[one], np.int64),
            part.from_start,
            part.to_end,
            transactional.get(one, False),
            last_ms.get(one, -1),
        )
        for part in parts
        for one in [part.range.topic_partition]
    }


def _last_ms(rows: pa.RecordBatch, before: int) -> int:
    micros = rows.column("timestamp").cast(pa.int64())
    last = micros[-1].as_py() if len(micros) else None
    return before if last is None else int(last) // 1000


def _fingerprints(rows: pa.RecordBatch) -> list[int]:
    columns = [rows.column(name).to_pylist() for name in ("key", "value", "headers")]
    times = rows.column("timestamp").cast(pa.int64()).to_pylist()
    return [_fingerprint(key, value, headers, time) for key, value, headers, time in zip(*columns, times, strict=True)]


def _fingerprint(key: bytes | None, value: bytes | None, headers: list[dict[str, Any]] | None, time: int | None) -> int:
    """Return 8 bytes of a hash over the parts, each after its length."""
    pieces: list[bytes | None] = [key, value, str(time).encode()]
    for header in headers or ():
        pieces += [str(header["key"]).encode(), header["value"]]
    hashed = hashlib.blake2b(digest_size=8)
    for piece in pieces:
        hashed.update(_NONE if piece is None else len(piece).to_bytes(8, "big") + piece)
    return int.from_bytes(hashed.digest(), "big", signed=True)
