"""Metadata of a cluster: brokers, topics, the leader of each partition, and its leader epoch.

A snapshot comes from one broker, which may lag: :mod:`semel.wire.metadata_cache` asks all brokers.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.protocol.metadata import MetadataRequest

__all__ = [
    "Broker",
    "Leaders",
    "Metadata",
    "Partition",
    "Topic",
    "TopicPartition",
    "by_node",
    "by_topic",
    "metadata_request",
    "named",
]

TopicPartition = tuple[str, int]
#: Node and leader epoch of the leader of each partition; -1 if there is none.
Leaders = Mapping[TopicPartition, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Broker:
    """The address of a broker."""

    node: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition. ``leader`` is -1 while it has none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, or the error code that the cluster gave in its place. ``taken`` is in monotonic seconds."""

    name: str
    id: uuid.UUID
    partitions: Mapping[int, Partition]
    internal: bool = False
    error: int = 0
    taken: float = field(default_factory=time.monotonic, compare=False)

    @property
    def age_ms(self) -> float:
        """The milliseconds since a broker said so."""
        return (time.monotonic() - self.taken) * 1000


@dataclass(frozen=True, slots=True)
class Metadata:
    """An answer to a Metadata request. ``taken`` is in monotonic seconds."""

    cluster: str
    controller: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]
    taken: float

    @classmethod
    def read(cls, answer: Any) -> Metadata:
        """Build it from a Metadata response."""
        brokers = {row.node_id: Broker(row.node_id, row.host, row.port) for row in answer.brokers}
        topics = {row.name: _topic(row) for row in answer.topics if row.name is not None}
        return cls(answer.cluster_id or "", answer.controller_id, brokers, topics, time.monotonic())

    def merged(self, newer: Metadata) -> Metadata:
        """Return this snapshot, updated by a newer one."""
        return Metadata(newer.cluster, newer.controller, newer.brokers, {**self.topics, **newer.topics}, newer.taken)

    def without(self, names: Collection[str]) -> Metadata:
        """Return this snapshot without some topics."""
        return (
            replace(self, topics={name: topic for name, topic in self.topics.items() if name not in names})
            if names
            else self
        )

    @property
    def age(self) -> float:
        """The seconds since it was taken."""
        return time.monotonic() - self.taken


def _topic(row: Any) -> Topic:
    partitions = {
        p.partition_index: Partition(
            p.partition_index, p.leader_id, p.leader_epoch, tuple(p.replica_nodes), tuple(p.isr_nodes)
        )
        for p in sorted(row.partitions or (), key=lambda p: p.partition_index)
    }
    topic_id = row.topic_id or uuid.UUID(int=0)  # a topic that does not exist has none
    return Topic(row.name, topic_id, partitions, row.is_internal, row.error_code)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partitions grouped by topic, as Kafka's requests need them."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped


def by_node(leaders: Leaders, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """Return partitions grouped by the broker that leads them."""
    grouped: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        grouped.setdefault(leaders[partition][0], []).append(partition)
    return grouped


def named(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions for a message: the first five, and the number of the others."""
    names = [f"{topic}-{index}" for topic, index in sorted(partitions)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def metadata_request(names: Collection[str] | None, *, rights: bool = False) -> Any:
    """Return a request for the metadata of these topics, or of all (None). With ``rights``, it asks for the caller's
    operations on them too.
    """
    topics = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(names)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=rights)
