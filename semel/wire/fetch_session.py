"""Fetch sessions (KIP-227): a broker remembers what a reader asks for, so that requests and answers have changes alone.

The first request names all partitions, and its answer has all of them. From then on a request names the partitions
whose position has changed, those that are new and those that are forgotten. An answer has the partitions with news:
records, an error, another high watermark or start of the log. A partition that is missing has none: what was last
known of it still holds.

The last stable offset is no news by itself. A broker may name a new high watermark before it moves the last stable
offset up to it. The records in between, markers too, then come with a later answer, and the offset with them.

Each broker has few places for sessions. It may forget one at any time, and says so at the next request. So may a
broker that was started again. A new session begins then, with all partitions. Where a broker gives no session, each
request is such a first one.

No requests here: :class:`semel.wire.api.fetch.Fetcher` sends them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from semel.wire.api.fetch_frames import Answer, Fetched, Position
from semel.wire.metadata import TopicPartition

__all__ = ["AskedPartitions", "FetchSession", "FormerSessions", "of_each", "without_session"]

_NONE = 0
#: The epochs of a request that begins a session, and of one that wants none.
_FIRST, _SESSIONLESS = 0, -1
_LAST_EPOCH = 2**31 - 1
_ID_NOT_FOUND = 70
#: The broker has no such session, has seen another request of it, or knows it without topic ids.
_OUTDATED = (_ID_NOT_FOUND, 71, 106)
#: A quota shortened an answer that leaves a partition out: ask again.
_THROTTLED = 89


@dataclass(frozen=True, slots=True)
class AskedPartitions:
    """The content of one request: (id, epoch) of its session, the partitions that it names, and by topic id and index
    those that it forgets.
    """

    session: tuple[int, int]
    positions: Mapping[TopicPartition, Position]
    forgotten: Sequence[tuple[UUID, int]] = ()


def without_session(positions: Mapping[TopicPartition, Position]) -> AskedPartitions:
    """Return the content of a request that stands alone."""
    return AskedPartitions((_NONE, _SESSIONLESS), positions)


def of_each(positions: Mapping[TopicPartition, Position], answer: Answer) -> dict[TopicPartition, Fetched]:
    """Return the answer for each partition of a request that named all of them."""
    missing = Fetched(answer.code or _THROTTLED, -1, -1, -1, (), memoryview(b""))
    return {
        (topic, index): missing if answer.code else answer.partitions.get((position.topic_id, index), missing)
        for (topic, index), position in positions.items()
    }


class FetchSession:
    """The session of one reader at one leader. At most one request is under way.

    Each :meth:`request` is followed by :meth:`answered`, or by :meth:`lost` if no answer has come.
    """

    def __init__(self, former: int = _NONE) -> None:
        """``former`` is the id of a session that ends when this one begins, or 0."""
        self._id, self._epoch = former, _FIRST
        #: What the broker knows, once it has answered, and the partition of each topic id and index in it.
        self._positions: dict[TopicPartition, Position] = {}
        self._names: dict[tuple[UUID, int], TopicPartition] = {}

    @property
    def id(self) -> int:
        """The id that a broker has given, or 0. It may have forgotten it."""
        return self._id

    def request(self, positions: Mapping[TopicPartition, Position] | None) -> AskedPartitions:
        """Return the request for these positions, or with None for those of the request before."""
        if self._epoch == _FIRST:
            if positions is not None:
                self._positions = dict(positions)
                self._names = {(at.topic_id, index): (topic, index) for (topic, index), at in positions.items()}
            return AskedPartitions((self._id, _FIRST), self._positions)
        if positions is None:
            return AskedPartitions((self._id, self._epoch), {})
        return self._changes(positions)

    def _changes(self, positions: Mapping[TopicPartition, Position]) -> AskedPartitions:
        before, names = self._positions, self._names
        changed = {
            partition: at
            for partition, at in positions.items()
            if (known := before.get(partition)) is not at and known != at
        }
        forgotten = [(at.topic_id, one[1]) for one, at in before.items() if one not in positions]
        for partition, at in changed.items():  # a topic that was made again: both of them have this partition
            known = before.get(partition)
            if known is not None and known.topic_id != at.topic_id:
                forgotten.append((known.topic_id, partition[1]))
        for gone in forgotten:
            names.pop(gone, None)
        names.update({(at.topic_id, partition[1]): partition for partition, at in changed.items()})
        self._positions = dict(positions)
        return AskedPartitions((self._id, self._epoch), changed, forgotten)

    def answered(self, answer: Answer) -> dict[TopicPartition, Fetched]:
        """Take an answer, and return the partitions with news. None has any if the broker does not know this session
        any more: the next request begins another one.
        """
        first = self._epoch == _FIRST
        if answer.code:
            self.lost()
            if answer.code == _ID_NOT_FOUND:
                self._id = _NONE
            return of_each(self._positions, answer) if first or answer.code not in _OUTDATED else {}
        if first:
            return self._begun(answer)
        found = {self._names[key]: fetched for key, fetched in answer.partitions.items() if key in self._names}
        if answer.session != self._id or len(found) < len(answer.partitions):
            self.lost()  # the broker's session is not this one
        else:
            self._epoch = self._epoch + 1 if self._epoch < _LAST_EPOCH else _FIRST + 1
        return found

    def _begun(self, answer: Answer) -> dict[TopicPartition, Fetched]:
        """Begin a session, if the broker has given one and its answer is complete."""
        self._id = answer.session
        if self._id != _NONE and answer.partitions.keys() >= self._names.keys():
            self._epoch = _FIRST + 1
        return of_each(self._positions, answer)

    def lost(self) -> None:
        """Begin another session with the next request. The broker ends this one then."""
        self._epoch = _FIRST


class FormerSessions:
    """The sessions that readers of one client have left, by node: the next ones there take their places.

    To close a session costs a request, and a reader usually leaves while its last one waits at the broker. Safe to
    share between threads.
    """

    def __init__(self) -> None:
        self._ids: dict[int, list[int]] = {}

    def leave(self, node: int, session: FetchSession) -> None:
        """Leave a session whose reader has ended."""
        if session.id != _NONE:
            self._ids.setdefault(node, []).append(session.id)

    def next(self, node: int) -> FetchSession:
        """Return the state of a new session, in the place of one that was left, if there is one."""
        try:
            return FetchSession(self._ids[node].pop())
        except (KeyError, IndexError):
            return FetchSession()
