"""A member of a sink's consumer group: what it reads, from where, and the commit of its offsets.

All positions that count are those that the task has put. When the group rebalances, the task closes its partitions
first, and the next reader begins at the group's offsets, or where the task says.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from semel.connect.settings.sink_config import SinkSettings
from semel.errors import AbortAndRetry
from semel.read.data_loss import check_ranges
from semel.read.matching import find_topics
from semel.read.ranges import NO_END, Range, id_text
from semel.transaction.session.inputs import RowOrder
from semel.transaction.session.reader import RESETS, SessionReader, read_positions
from semel.wire.api import groups
from semel.wire.client import Client
from semel.wire.consumer_protocol import ConsumerProtocol
from semel.wire.group_member import Generation, GroupMember
from semel.wire.metadata import TopicPartition

__all__ = ["Assignment", "GroupReader", "ReadBatch"]

log = logging.getLogger("semel.connect")

_ADVICE = "Set the connector's offsets where reading is to go on, on purpose: stop it, then PATCH its offsets."
_SPARE_S = 0.1
#: The commit of a member that the group no longer knows: its partitions are another member's now.
_NOT_A_MEMBER = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS")


class ReadBatch(NamedTuple):
    """Records of one partition as they were read, from ``start`` to ``end``."""

    partition: TopicPartition
    rows: Any
    start: int
    end: int


class Assignment(Protocol):
    """The task, as far as its partitions change. All is called in the thread that polls."""

    def open(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Open new partitions, which the group has read so far. Return where they begin, if that is elsewhere."""

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Commit what was put, and close partitions, before others get them."""


class GroupReader:
    """Reads the partitions that the group assigns."""

    def __init__(self, client: Client, sink: SinkSettings, task: Assignment) -> None:
        self._client, self._sink, self._task = client, sink, task
        self._protocol = ConsumerProtocol(sink.topics, sink.assignors)
        self._member: GroupMember[frozenset[TopicPartition]] = GroupMember(
            client.config,
            sink.group,
            self._protocol,
            session_timeout_ms=sink.session_timeout_ms,
            rebalance_timeout_ms=sink.max_poll_interval_ms,
            heartbeat_ms=sink.heartbeat_ms,
            polled=True,
            on_revoked=self._revoke,
        )
        self._assigned: Generation[frozenset[TopicPartition]] | None = None
        self._reader: SessionReader | None = None
        #: Where each partition is read from next.
        self._positions: dict[TopicPartition, int] = {}
        #: The end of the last batch of each partition. The position may be after it, over records that were aborted.
        self._ends: dict[TopicPartition, int] = {}
        self._paused: frozenset[TopicPartition] = frozenset()
        self._looked_at = 0.0

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions of this member."""
        return self._assigned.assignment if self._assigned is not None else frozenset()

    # ---- reading

    def follow(self) -> bool:
        """Take part in the group. Return True if the assignment has changed."""
        self._follow_topics()
        now = self._member.poll()
        if now == self._assigned:
            return False
        self._forget()
        if now is not None:
            self._begin(now)
        return True

    def next(self) -> ReadBatch | None:
        """Return the next records, or None if there are none now."""
        if self._reader is None:
            self._start_reader()
        if self._reader is None:
            time.sleep(_SPARE_S)
            return None
        rows = self._reader.next()
        positions = self._reader.positions
        if rows is None:
            self._positions.update(positions)  # over markers and aborted records
            return None
        partition = (rows["topic"][0].as_py(), rows["partition"][0].as_py())
        start, end = self._ends[partition], positions[partition]
        self._positions[partition] = self._ends[partition] = end
        return ReadBatch(partition, rows, start, end)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of each partition after what was handed out."""
        return self._positions

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from here on. Others' are passed over."""
        moved = {one: at for one, at in offsets.items() if one in self.assignment and self._positions.get(one) != at}
        if moved:
            self._positions.update(moved)
            self._ends.update(moved)
            self._restart()

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Read all assigned partitions but these."""
        if frozenset(partitions) != self._paused:
            self._paused = frozenset(partitions)
            self._restart()

    def _start_reader(self) -> None:
        read = {one: at for one, at in self._positions.items() if one not in self._paused}
        if not read:
            return
        topics = self._client.topics({topic for topic, _ in read})
        ranges = [Range(topic, id_text(topics[topic].id), index, at, NO_END) for (topic, index), at in read.items()]
        check_ranges(self._client, ranges, fail_on_data_loss=True, advice=_ADVICE)
        order = RowOrder(lambda _: self._sink.max_poll_records)
        self._reader = SessionReader(self._client, ranges, headers=True, order=order)

    def _restart(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # ---- the group

    def _follow_topics(self) -> None:
        """Find the topics of a pattern. Where they have changed, the member joins again. Warn of named topics that are
        missing.
        """
        age_ms = (time.monotonic() - self._looked_at) * 1000
        if self._looked_at and age_ms < self._client.config.metadata_max_age_ms:
            return
        first, self._looked_at = not self._looked_at, time.monotonic()
        if self._sink.pattern is None:
            missing = set(self._sink.topics) - self._client.existing(self._sink.topics).keys()
            if missing:
                log.warning(
                    "group %s: topic %s does not exist. Nothing of it is read until it does. Create it, or correct"
                    " topics.",
                    self._sink.group,
                    ", ".join(sorted(missing)),
                )
            return
        names = find_topics(self._client, lambda name: self._sink.takes(name) and not name.startswith("__"))
        if self._protocol.subscribe(names) and not first:
            log.info("group %s: the topics of its pattern are now %s", self._sink.group, ", ".join(sorted(names)))
            self._member.join_again()

    def _begin(self, assigned: Generation[frozenset[TopicPartition]]) -> None:
        stands, positions = read_positions(
            self._client, self._sink.group, assigned.assignment, RESETS[self._sink.reset]
        )
        self._assigned = assigned
        self._positions, self._ends = dict(positions), dict(positions)
        self._paused = frozenset()
        if self._sink.reset == "latest" and stands.keys() != positions.keys():
            self.commit(positions)  # a later start would begin at a later end, and skip the records between
        self.seek(self._task.open(positions))

    def _revoke(self) -> None:
        if self._assigned is not None:
            self._restart()
            self._task.close(self._assigned.assignment)
            self._forget()

    def _forget(self) -> None:
        self._restart()
        self._assigned, self._positions, self._ends = None, {}, {}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit offsets as the member in its generation. False means that the group has gone on without it.

        Raises :class:`Retriable` if the brokers do not answer.
        """
        assigned = self._assigned
        if assigned is None or self._member.current() != assigned:
            return False
        try:
            groups.commit(self._client, self._sink.group, offsets, generation=assigned.number, member=assigned.member)
        except AbortAndRetry as error:
            if error.tag not in _NOT_A_MEMBER:
                raise
            log.warning("group %s did not take the offsets of this member: %s", self._sink.group, error.message)
            return False
        return True

    def close(self) -> None:
        """Close the partitions, and leave the group."""
        try:
            self._revoke()
        finally:
            self._restart()
            self._member.close()

    def leave(self) -> None:
        """Leave the group after an error: nothing more is committed."""
        self._forget()
        self._member.close()
