"""Fetch: record batches from the leaders of partitions, as they came off the wire.

Requests and answers (versions 13 to 17, by topic id) are packed and read here, not by kafka-python: an answer has
megabytes, and kafka-python would copy its records again. Here the records stay slices of the received frame. That
saves a few per cent of the reading time for answers of 1 MiB, and a fifth for 32 MiB (measured).

One request at a time is under way to each leader. A :class:`Fetcher` leases a connection for it while it lives. So a
long wait delays no other request, and no caller reads another's answers.

Not promised: fetch sessions (each request names all its partitions) and fetching from followers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from kafka.protocol.consumer import FetchRequest

from semel.errors import Retriable
from semel.wire.client import Client
from semel.wire.connection import Connection, readable
from semel.wire.deadline import Deadline
from semel.wire.flexible import Cursor, varint
from semel.wire.metadata import TopicPartition

__all__ = ["VERSIONS", "Fetched", "Fetcher", "Position", "fetch", "pack_request", "read_answer"]

#: 13 is the first version with topic ids.
VERSIONS = (13, 17)
#: A quota shortened an answer that leaves a partition out: ask again.
_THROTTLED = 89


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


def fetch(
    client: Client,
    node: int,
    positions: Mapping[TopicPartition, Position],
    *,
    read_committed: bool,
    max_wait_ms: int | None = None,
    max_bytes: int | None = None,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, Fetched]:
    """Send one Fetch request to one leader, and return its answer.

    Codes of single partitions are returned, not raised: the reader knows their meaning. ``max_bytes`` bounds the answer
    of each partition; the default is ``max.partition.fetch.bytes``. The first batch always comes whole.
    """
    with Fetcher(client, deadline) as fetcher:
        fetcher.send(node, positions, read_committed=read_committed, max_wait_ms=max_wait_ms, max_bytes=max_bytes)
        return fetcher.receive(node)


class Fetcher:
    """The Fetch requests of one reader, at most one under way to each leader.

    Use it as a context manager, or call :meth:`close`.
    """

    def __init__(self, client: Client, deadline: Deadline | None = None) -> None:
        self._client = client
        self._deadline = deadline
        self._connections: dict[int, Connection] = {}
        self._asked: dict[int, dict[TopicPartition, Position]] = {}

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back. Connections with a request under way are closed instead."""
        for node, connection in self._connections.items():
            self._client.give_back(node, connection)
        self._connections.clear()
        self._asked.clear()

    @property
    def oldest(self) -> int | None:
        """The leader whose request has waited longest for an answer, or None."""
        return next(iter(self._asked), None)

    def answered(self) -> list[int]:
        """Wait until a leader has answered, for ``fetch.max.wait.ms``, and return all that have. If none has, return
        the :attr:`oldest` one.
        """
        if len(self._asked) < 2:
            return list(self._asked)
        asked = {self._connections[node]: node for node in self._asked}
        answered = readable(list(asked), self._client.config.fetch_max_wait_ms)
        return [asked[connection] for connection in answered] or list(self._asked)[:1]

    def asked(self, node: int) -> bool:
        """Return True if a request to ``node`` is under way."""
        return node in self._asked

    def muted(self, node: int) -> bool:
        """Return True if ``node`` reads no request now because of a quota: :meth:`send` would wait."""
        connection = self._connections.get(node)
        return connection is not None and not connection.closed and connection.muted > 0

    def send(
        self,
        node: int,
        positions: Mapping[TopicPartition, Position],
        *,
        read_committed: bool,
        max_wait_ms: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Ask one leader for partitions, in this order: if a size limit is reached, the first ones are served.

        Raise :class:`Retriable` if the connection fails.
        """
        connection = self._connect(node)
        config = self._client.config
        version = connection.versions.pick(FetchRequest, *VERSIONS)
        body = pack_request(
            positions,
            version,
            read_committed=read_committed,
            max_wait_ms=config.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            partition_max_bytes=config.max_partition_fetch_bytes if max_bytes is None else max_bytes,
        )
        try:
            connection.send_raw([body], FetchRequest, version, read_answer)
        except BaseException:  # half a request may be on its way
            self.forget(node)
            raise
        self._asked[node] = dict(positions)

    def receive(self, node: int) -> dict[TopicPartition, Fetched]:
        """Wait for the answer of ``node``. The result has each partition of the request.

        Raise :class:`Retriable` if the connection fails.
        """
        asked = self._asked.pop(node)
        try:
            code, by_partition = self._connections[node].receive()
        except BaseException:  # after any interruption, half an answer may be left on the connection
            self.forget(node)
            raise
        missing = Fetched(code or _THROTTLED, -1, -1, -1, (), memoryview(b""))
        return {
            (topic, index): missing if code else by_partition.get((position.topic_id, index), missing)
            for (topic, index), position in asked.items()
        }

    def forget(self, node: int) -> None:
        """Close the connection to ``node``, and look its address up again before the next one."""
        self._asked.pop(node, None)
        self._client.forget(node)
        connection = self._connections.pop(node, None)
        if connection is not None:
            connection.close()
            self._client.give_back(node, connection)

    def _connect(self, node: int) -> Connection:
        connection = self._connections.get(node)
        if connection is not None and not connection.closed:
            return connection
        try:
            self._connections[node] = self._client.lease(node, self._deadline or self._client.deadline())
        except Retriable:
            self.forget(node)
            raise
        return self._connections[node]


# ---- bytes


def pack_request(
    positions: Mapping[TopicPartition, Position],
    version: int,
    *,
    read_committed: bool,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partition_max_bytes: int,
) -> bytes:
    """Return the body of a Fetch request without a session."""
    grouped: dict[UUID, list[bytes]] = {}
    for (_, index), at in positions.items():
        row = struct.pack(">iiqiqiB", index, at.leader_epoch, at.offset, at.last_epoch, -1, partition_max_bytes, 0)
        grouped.setdefault(at.topic_id, []).append(row)
    pieces = [struct.pack(">i", -1)] if version < 15 else []
    pieces.append(struct.pack(">iiibii", max_wait_ms, min_bytes, max_bytes, int(read_committed), 0, -1))
    pieces.append(varint(len(grouped) + 1))
    for topic_id, rows in grouped.items():
        pieces += [topic_id.bytes, varint(len(rows) + 1), *rows, b"\0"]
    pieces.append(b"\1\1\0")  # no forgotten topics, no rack, no tagged fields
    return b"".join(pieces)


def read_answer(frame: memoryview, start: int = 0) -> tuple[int, dict[tuple[UUID, int], Fetched]]:
    """Return the code of a whole answer, and the answer for each (topic id, partition).

    Raise ``ValueError`` or ``struct.error`` for damage.
    """
    cursor = Cursor(frame, start)
    _, code, _ = cursor.take(_ANSWER)
    by_partition: dict[tuple[UUID, int], Fetched] = {}
    for _ in range(cursor.count()):
        topic_id = UUID(bytes=bytes(cursor.slice(16)))
        for _ in range(cursor.count()):
            index, fetched = _read_partition(cursor)
            by_partition[topic_id, index] = fetched
        cursor.skip_tags()
    if cursor.skip_tags().position != len(frame):
        raise ValueError(f"it has {len(frame) - cursor.position} bytes after its end")
    return code, by_partition


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
