"""The known metadata of a cluster: brokers, topics, leaders, and each broker's answer if one may lag.

A broker that was frozen or cut off still names itself as a leader, and does not know a new topic. So
:func:`newest_leaders` asks all of them.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from semel.config import ClientConfig
from semel.errors import ConfigError, Retriable
from semel.wire import error_codes
from semel.wire.connection import Connection
from semel.wire.deadline import Deadline
from semel.wire.metadata import Broker, Leaders, Metadata, Topic, TopicPartition, metadata_request
from semel.wire.target import ANY, Target

__all__ = ["JUST_NOW_MS", "MetadataCache", "newest_leaders"]

_UNKNOWN_TOPIC = 3
#: Who asks several things one after the other asks for the same once.
JUST_NOW_MS = 1_000


class MetadataCache(ABC):
    """The newest metadata of a cluster. Subclasses can ask brokers. Safe to share between threads."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._metadata: Metadata | None = None
        self._metadata_lock = threading.RLock()

    @abstractmethod
    def ask(
        self,
        target: Target,
        request: Any,
        versions: tuple[int, int],
        *,
        code: Callable[[Any], int] = ...,
        deadline: Deadline | None = None,
    ) -> Any:
        """Send a request until the answer has a code that is not temporary."""

    @abstractmethod
    def connect(self, target: Target, deadline: Deadline | None = None) -> Connection:
        """Return an open connection to ``target``."""

    def deadline(self, timeout_ms: float | None = None) -> Deadline:
        """Return a deadline with this client's back-off. The default is ``default.api.timeout.ms``."""
        config = self.config
        timeout = config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return Deadline(timeout, backoff_ms=config.retry_backoff_ms, backoff_max_ms=config.retry_backoff_max_ms)

    @property
    def cluster(self) -> str:
        """The cluster's id."""
        return (self._metadata or self.refresh(())).cluster

    def brokers(self, deadline: Deadline | None = None) -> Collection[int]:
        """Return the node ids of the brokers that are in the cluster: as a broker said within the last second, and
        since then none could not be reached.
        """
        metadata = self._metadata
        if metadata is None or metadata.age * 1000 > JUST_NOW_MS:
            metadata = self.refresh((), deadline)
        return metadata.brokers.keys()

    def topics(
        self, names: Collection[str], deadline: Deadline | None = None, *, max_age_ms: float | None = None
    ) -> dict[str, Topic]:
        """Return the metadata of these topics, each at most ``metadata.max.age.ms`` old, or as old as said.

        Raise :class:`ConfigError` for a topic that does not exist.
        """
        oldest = self.config.metadata_max_age_ms if max_age_ms is None else max_age_ms
        known = self.known_topics(names)
        if any(name not in known or known[name].age_ms >= oldest for name in names):
            known = self.refresh(names, deadline).topics
        return {name: known[name] for name in names}

    def known_topics(self, names: Collection[str]) -> Mapping[str, Topic]:
        """Return those of these topics that an answer has named. No broker is asked."""
        topics = self._metadata.topics if self._metadata is not None else {}
        return {name: topics[name] for name in names if name in topics}

    def leaders(
        self, partitions: Collection[TopicPartition], deadline: Deadline | None = None
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return node and leader epoch of each partition's leader, by :meth:`topics`. Partitions that do not exist are
        left out.
        """
        topics = self.topics({topic for topic, _ in partitions}, deadline)
        there = ((topic, index, topics[topic].partitions.get(index)) for topic, index in partitions)
        return {(topic, index): (row.leader, row.leader_epoch) for topic, index, row in there if row is not None}

    def existing(
        self, names: Collection[str], deadline: Deadline | None = None, *, max_age_ms: float = 0
    ) -> dict[str, Topic]:
        """Return the topics of these names that exist now, or did ``max_age_ms`` ago."""
        known = self.known_topics(names)
        if any(name not in known or known[name].age_ms >= max_age_ms for name in names):
            known = self.refresh(names, deadline, may_miss=True).topics
        return {name: known[name] for name in names if name in known}

    def refresh(
        self, names: Collection[str] | None, deadline: Deadline | None = None, *, may_miss: bool = False
    ) -> Metadata:
        """Ask for metadata of these topics now (None: of all topics), and keep it.

        Raise :class:`ConfigError` for a topic that does not exist, unless it ``may_miss``.
        """
        deadline = deadline or self.deadline()
        while True:
            newer = Metadata.read(self.ask(ANY, metadata_request(names), (12, 13), code=lambda _: 0, deadline=deadline))
            absent = {topic.name for topic in newer.topics.values() if topic.error == _UNKNOWN_TOPIC}
            if absent and not deadline.passed and _known_to_any(self, absent, newer.brokers.keys(), deadline):
                deadline.pause()  # the broker that was asked does not know it yet
                continue
            problems = {
                t.name: t.error
                for t in newer.topics.values()
                if t.error and names and not (may_miss and t.name in absent)
            }
            if not problems:
                with self._metadata_lock:
                    # an answer about all topics is complete: a topic that is not in it was deleted
                    merged = self._metadata.merged(newer) if self._metadata and names is not None else newer
                    self._metadata = merged.without(absent)
                    return self._metadata
            missing, code = next(iter(problems.items()))
            if code == _UNKNOWN_TOPIC:
                raise ConfigError(
                    f"topic {missing} does not exist. Nothing was read or written. Create it, or correct its name.",
                    tag="UNKNOWN_TOPIC",
                ).at((missing, -1))
            if not error_codes.of("Metadata", code).temporary:
                raise error_codes.error(
                    "Metadata", code, f"metadata of topic {missing}", "Nothing was read or written."
                ).at((missing, -1))
            if deadline.passed:
                subject = f"metadata of topic {missing} was not settled within {deadline.timeout_ms:.0f} ms"
                raise error_codes.given_up(
                    subject, error_codes.name(code), "Nothing was read or written by this request."
                )
            deadline.pause()

    def broker(self, node: int, deadline: Deadline) -> Broker:
        """Return the address of a broker, looked up if it is not known. Raise :class:`Retriable` if it is not in the
        cluster.
        """
        metadata = self._metadata
        if metadata is None or node not in metadata.brokers:
            metadata = self.refresh((), deadline)
        if node not in metadata.brokers:
            raise Retriable(f"broker {node} is not in the cluster at the moment.", tag="CONNECTION")
        return metadata.brokers[node]

    @property
    def known_brokers(self) -> Collection[Broker]:
        """The brokers of the last answer. No broker is asked."""
        return self._metadata.brokers.values() if self._metadata is not None else ()

    def forget_broker(self, node: int) -> None:
        """Forget a broker's address: it is looked up again before the next request."""
        with self._metadata_lock:
            if self._metadata is not None:
                brokers = {other: broker for other, broker in self._metadata.brokers.items() if other != node}
                # the list lacks one now: whoever wants all of them asks again
                self._metadata = replace(self._metadata, brokers=brokers, taken=-math.inf)

    def forget_parent(self) -> None:
        """Replace the lock in a forked child: another thread of the parent may have held it."""
        self._metadata_lock = threading.RLock()


def newest_leaders(
    cache: MetadataCache, partitions: Iterable[TopicPartition], deadline: Deadline | None = None
) -> Leaders:
    """Return leader and leader epoch of each partition, by the highest epoch that any broker names (PROTOCOL 5.1).

    Raise :class:`Retriable` if no more than half of the brokers answer within the deadline: those may be the ones that
    lag.
    """
    wanted = set(partitions)
    newest = dict.fromkeys(wanted, (-1, -1))
    for snapshot in _most(cache, {topic for topic, _ in wanted}, deadline or cache.deadline()):
        for topic, index in wanted:
            partition = snapshot.topics[topic].partitions.get(index) if topic in snapshot.topics else None
            if partition is not None and partition.leader_epoch > newest[topic, index][1]:
                newest[topic, index] = (partition.leader, partition.leader_epoch)
    return newest


def _most(cache: MetadataCache, topics: Collection[str], deadline: Deadline) -> list[Metadata]:
    nodes = {broker.node for broker in cache.known_brokers}
    answers = _snapshots(cache, nodes, topics, deadline)
    if answers and 2 * len(answers) > max(len(snapshot.brokers) for snapshot in answers):
        return answers
    for _ in deadline.attempts():
        brokers = cache.brokers(deadline)
        answers = _snapshots(cache, brokers, topics, deadline)
        if 2 * len(answers) > len(brokers):
            return answers
    raise Retriable(
        f"only {len(answers)} of {len(brokers)} brokers said who leads: whether that is still so, more of them must"
        " say."
    )


def _known_to_any(cache: MetadataCache, topics: Collection[str], brokers: Collection[int], deadline: Deadline) -> bool:
    """Return True if one of these brokers knows one of the topics."""
    return any(
        not topic.error
        for snapshot in _snapshots(cache, brokers, topics, deadline)
        for topic in snapshot.topics.values()
    )


def _snapshots(
    cache: MetadataCache, brokers: Collection[int], topics: Collection[str], deadline: Deadline
) -> list[Metadata]:
    snapshots = []
    for node in brokers:
        try:
            connection = cache.connect(node, deadline)
            request = metadata_request(topics)
            snapshots.append(Metadata.read(connection.call(request, connection.versions.pick(type(request), 12, 13))))
        except Retriable:  # it is down, and leads nothing: the epochs of the others show that
            continue
    return snapshots
