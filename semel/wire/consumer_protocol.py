"""The protocol of consumer groups: subscriptions, assignments, and the assignors that every client has.

All assignors are eager, so version 0 of the messages has all that they need. Members of other clients may send newer
versions.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple, Protocol

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from semel.errors import ConfigError, Retriable
from semel.wire.api.membership import Joined
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["ASSIGNORS", "Assignor", "ConsumerProtocol", "Range", "RoundRobin", "Subscription"]

_VERSION = 0


class Subscription(NamedTuple):
    """The topics of a member, and what its assignor has it say."""

    topics: Collection[str]
    user_data: bytes = b""


class Assignor(Protocol):
    """Shares out partitions."""

    #: Its name in the group.
    name: str

    def user_data(self) -> bytes:
        """Return what this member says to the assignor of the group's leader."""

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Collection[TopicPartition]]:
        """Return the partitions of each member.

        ``partitions`` are the counts of the topics that exist. ``members`` has the static ones first, by their
        instance ids, and then the others.
        """

    def assignment_data(self, member: str) -> bytes:
        """Return what the last :meth:`assign` says to a member, beside its partitions."""

    def on_assignment(self, data: bytes) -> None:
        """Take what the leader's assignor says to this member."""

    def is_due(self) -> bool:
        """Return True if the leader should share out again."""


class _Stateless:
    """An assignor without data of its own."""

    def user_data(self) -> bytes:
        """Return nothing."""
        return b""

    def assignment_data(self, member: str) -> bytes:
        """Return nothing."""
        return b""

    def on_assignment(self, data: bytes) -> None:
        """Do nothing."""

    def is_due(self) -> bool:
        """Return False."""
        return False


class Range(_Stateless):
    """Gives each member neighbouring partitions of each topic, as Kafka's assignor ``range`` does."""

    name = "range"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Collection[TopicPartition]]:
        """Return the partitions of each member. The first members get one more if they do not divide evenly."""
        shares: dict[str, list[TopicPartition]] = defaultdict(list)
        for topic, count in partitions.items():
            readers = [member for member, subscription in members.items() if topic in subscription.topics]
            least, extra = divmod(count, len(readers))
            first = 0
            for number, member in enumerate(readers):
                end = first + least + (number < extra)
                shares[member] += [(topic, index) for index in range(first, end)]
                first = end
        return shares


class RoundRobin(_Stateless):
    """Deals out the partitions of all topics one by one, as Kafka's assignor ``roundrobin`` does."""

    name = "roundrobin"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Collection[TopicPartition]]:
        """Return the partitions of each member. Members that do not read a topic are passed over."""
        shares: dict[str, list[TopicPartition]] = defaultdict(list)
        turns = cycle(members)
        for topic, count in sorted(partitions.items()):
            for index in range(count):
                shares[next(member for member in turns if topic in members[member].topics)].append((topic, index))
        return shares


ASSIGNORS: Mapping[str, Assignor] = {one.name: one for one in (Range(), RoundRobin())}


class ConsumerProtocol:
    """The words of a consumer group's members, with these assignors, the preferred one first."""

    kind = "consumer"

    def __init__(self, topics: Collection[str], assignors: Sequence[Assignor]) -> None:
        self._topics = sorted(topics)
        self._assignors = {one.name: one for one in assignors}
        #: The counts by which this member has shared out, and when they were looked up.
        self._counts: dict[str, int] = {}
        self._looked_at = 0.0

    def subscribe(self, topics: Collection[str]) -> bool:
        """Have other topics from the next join on. Return True if they are others."""
        before, self._topics = self._topics, sorted(topics)
        return before != self._topics

    def metadata(self) -> Mapping[str, bytes]:
        """Return the subscription for each assignor."""
        return {
            name: bytes(ConsumerProtocolSubscription(_VERSION, self._topics, one.user_data()).encode())
            for name, one in self._assignors.items()
        }

    def assign(self, client: Client, joined: Joined) -> Mapping[str, bytes]:
        """Share out the partitions of all topics that members subscribe to and that exist."""
        members = subscriptions(joined)
        self._counts = _counts(client, {topic for one in members.values() for topic in one.topics})
        self._looked_at = time.monotonic()
        assignor = self._assignors[joined.protocol]
        shares = assignor.assign({topic: count for topic, count in self._counts.items() if count}, members)
        return {member: _encoded(shares.get(member, ()), assignor.assignment_data(member)) for member in members}

    def accept(self, joined: Joined, assignment: bytes) -> frozenset[TopicPartition]:
        """Return the partitions of this member."""
        message = ConsumerProtocolAssignment.decode(assignment) if assignment else None
        if joined.protocol in self._assignors:
            self._assignors[joined.protocol].on_assignment(bytes(message.user_data or b"") if message else b"")
        rows = message.assigned_partitions if message else ()
        return frozenset((row.topic, index) for row in rows for index in row.partitions)

    def outdated(self, client: Client) -> bool:
        """Return True if an assignor wants it, or if a topic has other partitions than at the sharing out, by metadata
        that may be ``metadata.max.age.ms`` old.
        """
        if any(one.is_due() for one in self._assignors.values()):
            return True
        now = time.monotonic()
        if (now - self._looked_at) * 1000 < client.config.metadata_max_age_ms:
            return False
        self._looked_at = now
        try:
            return _counts(client, self._counts.keys()) != self._counts
        except (ConfigError, Retriable):  # who reads them says what is wrong
            return False


def subscriptions(joined: Joined) -> dict[str, Subscription]:
    """Return the members of a group, the static ones first."""
    by_member = {}
    for member, (metadata, _) in sorted(
        joined.members.items(), key=lambda row: (row[1].instance is None, row[1].instance or "", row[0])
    ):
        message = ConsumerProtocolSubscription.decode(metadata)
        by_member[member] = Subscription(frozenset(message.topics), bytes(message.user_data or b""))
    return by_member


def _counts(client: Client, topics: Collection[str]) -> dict[str, int]:
    there = client.existing(topics)
    return {topic: len(there[topic].partitions) if topic in there else 0 for topic in topics}


def _encoded(share: Collection[TopicPartition], data: bytes) -> bytes:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(share):
        by_topic[topic].append(index)
    return bytes(ConsumerProtocolAssignment(_VERSION, list(by_topic.items()), data).encode())
