"""The bytes of Fetch, versions 13 to 17, by topic id: packed and read here, not by kafka-python.

An answer has megabytes, and kafka-python would copy its records again. Here the records stay slices of the received
frame. That saves a few per cent of the reading time for answers of 1 MiB, and a fifth for 32 MiB (measured).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from semel.wire.flexible import Cursor, varint
from semel.wire.metadata import TopicPartition

__all__ = ["VERSIONS", "Answer", "Fetched", "Position", "pack_request", "read_answer"]

#: 13 is the first version with topic ids.
VERSIONS = (13, 17)
#: No session, and the epoch that asks for none (KIP-227).
_NO_SESSION = (0, -1)


@dataclass(frozen=True, slots=True)
class Position:
    """The position to fetch one partition from. The topic's id makes sure that it is still the same topic.

    ``leader_epoch`` makes a leader of another epoch refuse. ``last_epoch`` is the epoch of the last batch before
    ``offset``. With it the leader reports whether its log below ``offset`` differs from the one that was read.
    """

    topic_id: UUID
    offset: int
    leader_epoch: int = -1
    last_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer for one partition. ``aborted`` holds (producer id, first offset) of the aborted transactions in this
    range.

    ``diverging`` is (epoch, end offset): where the log left the history that :attr:`Position.last_epoch` stands for.
    """

    code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    records: memoryview
    diverging: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: its code, the id of the session that it belongs to (0 for none), and its partitions by topic id
    and index.
    """

    code: int
    session: int
    partitions: Mapping[tuple[UUID, int], Fetched]


def pack_request(
    positions: Mapping[TopicPartition, Position],
    version: int,
    *,
    read_committed: bool,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partition_max_bytes: int,
    session: tuple[int, int] = _NO_SESSION,
    forgotten: Iterable[tuple[UUID, int]] = (),
) -> bytes:
    """Return the body of a Fetch request. ``session`` is (id, epoch); ``forgotten`` leave that session."""
    grouped: dict[UUID, list[bytes]] = {}
    for (_, index), at in positions.items():
        row = struct.pack(">iiqiqiB", index, at.leader_epoch, at.offset, at.last_epoch, -1, partition_max_bytes, 0)
        grouped.setdefault(at.topic_id, []).append(row)
    pieces = [struct.pack(">i", -1)] if version < 15 else []
    pieces.append(struct.pack(">iiibii", max_wait_ms, min_bytes, max_bytes, int(read_committed), *session))
    pieces.append(varint(len(grouped) + 1))
    for topic_id, rows in grouped.items():
        pieces += [topic_id.bytes, varint(len(rows) + 1), *rows, b"\0"]
    left: dict[UUID, list[int]] = {}
    for topic_id, index in forgotten:
        left.setdefault(topic_id, []).append(index)
    pieces.append(varint(len(left) + 1))
    for topic_id, indexes in left.items():
        pieces += [topic_id.bytes, varint(len(indexes) + 1), struct.pack(f">{len(indexes)}i", *indexes), b"\0"]
    pieces.append(b"\1\0")  # no rack, no tagged fields
    return b"".join(pieces)


def read_answer(frame: memoryview, start: int = 0) -> Answer:
    """Read a whole answer.

    Raise ``ValueError`` or ``struct.error`` for damage.
    """
    cursor = Cursor(frame, start)
    _, code, session = cursor.take(_ANSWER)
    by_partition: dict[tuple[UUID, int], Fetched] = {}
    for _ in range(cursor.count()):
        topic_id = UUID(bytes=bytes(cursor.slice(16)))
        for _ in range(cursor.count()):
            index, fetched = _read_partition(cursor)
            by_partition[topic_id, index] = fetched
        cursor.skip_tags()
    if cursor.skip_tags().position != len(frame):
        raise ValueError(f"it has {len(frame) - cursor.position} bytes after its end")
    return Answer(code, session, by_partition)


_ANSWER = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qqB")
_REPLICA = struct.Struct(">i")
_DIVERGING = struct.Struct(">iq")
_DIVERGING_TAG = 0


def _read_partition(cursor: Cursor) -> tuple[int, Fetched]:
    index, code, high_watermark, last_stable_offset, log_start_offset = cursor.take(_PARTITION)
    aborted = tuple(cursor.take(_ABORTED)[:2] for _ in range(cursor.count()))
    cursor.take(_REPLICA)
    records = cursor.slice(max(cursor.varint() - 1, 0))
    tags = cursor.tags()
    diverging = _DIVERGING.unpack_from(tags[_DIVERGING_TAG]) if _DIVERGING_TAG in tags else None
    return index, Fetched(code, high_watermark, last_stable_offset, log_start_offset, aborted, records, diverging)
