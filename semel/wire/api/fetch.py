"""Fetch: record batches from the leaders of partitions, as they came off the wire.

One request at a time is under way to each leader. A :class:`Fetcher` leases a connection for it while it lives. So a
long wait delays no other request, and no caller reads another's answers.

Each request names all its partitions, and stands alone. A reader that stays may have sessions instead
(:mod:`semel.wire.fetch_session`). Not promised: to fetch from followers.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka.protocol.consumer import FetchRequest

from semel.errors import Retriable
from semel.wire.api.fetch_frames import VERSIONS, Fetched, Position, pack_request, read_answer
from semel.wire.client import Client
from semel.wire.connection import Connection, readable
from semel.wire.deadline import Deadline
from semel.wire.fetch_session import AskedPartitions, FetchSession, of_each, without_session
from semel.wire.metadata import TopicPartition

__all__ = ["Fetcher", "fetch"]


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

    With ``sessions`` an answer may leave out the partitions without news. Use it as a context manager, or call
    :meth:`close`.
    """

    def __init__(self, client: Client, deadline: Deadline | None = None, *, sessions: bool = False) -> None:
        self._client = client
        self._deadline = deadline
        self._connections: dict[int, Connection] = {}
        self._asked: dict[int, AskedPartitions] = {}
        self._sessions: dict[int, FetchSession] | None = {} if sessions else None

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back. Connections with a request under way are closed instead."""
        for node, connection in self._connections.items():
            self._client.give_back(node, connection)
        for node, session in (self._sessions or {}).items():
            self._client.former_sessions.leave(node, session)
        if self._sessions:
            self._sessions.clear()
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
        positions: Mapping[TopicPartition, Position] | None,
        *,
        read_committed: bool,
        max_wait_ms: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Ask one leader for partitions, in this order: if a size limit is reached, the first ones are served. In a
        session, None asks for the same as before, and those that were served longest ago are served first.

        Raise :class:`Retriable` if the connection fails.
        """
        connection = self._connect(node)
        config = self._client.config
        version = connection.versions.pick(FetchRequest, *VERSIONS)
        asked = self._ask(node, positions)
        body = pack_request(
            asked.positions,
            version,
            read_committed=read_committed,
            max_wait_ms=config.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            partition_max_bytes=config.max_partition_fetch_bytes if max_bytes is None else max_bytes,
            session=asked.session,
            forgotten=asked.forgotten,
        )
        try:
            connection.send_raw([body], FetchRequest, version, read_answer)
        except BaseException:  # half a request may be on its way
            self.forget(node)
            raise
        self._asked[node] = asked

    def _ask(self, node: int, positions: Mapping[TopicPartition, Position] | None) -> AskedPartitions:
        if self._sessions is None:
            return without_session(dict(positions or {}))
        if node not in self._sessions:
            self._sessions[node] = self._client.former_sessions.next(node)
        return self._sessions[node].request(positions)

    def receive(self, node: int) -> dict[TopicPartition, Fetched]:
        """Wait for the answer of ``node``. The result has each partition of the request; in a session, those with news.

        Raise :class:`Retriable` if the connection fails.
        """
        asked = self._asked.pop(node)
        try:
            answer = self._connections[node].receive()
        except BaseException:  # after any interruption, half an answer may be left on the connection
            self.forget(node)
            raise
        return of_each(asked.positions, answer) if self._sessions is None else self._sessions[node].answered(answer)

    def forget(self, node: int) -> None:
        """Close the connection to ``node``, and look its address up again before the next one."""
        self._asked.pop(node, None)
        if self._sessions is not None and node in self._sessions:
            self._sessions[node].lost()
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
