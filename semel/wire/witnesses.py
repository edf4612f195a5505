"""What each broker says of the cluster, asked one by one: any of them may be behind, and does not know it.

One that was frozen or cut off goes on naming itself as a leader, and has not heard of a topic that is new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from semel.errors import Retriable
from semel.wire.deadline import Deadline
from semel.wire.metadata import Leaders, Metadata, TopicPartition, metadata_request

if TYPE_CHECKING:
    from semel.wire.client import Client

__all__ = ["known_to_any", "newest_leaders"]


def newest_leaders(client: Client, partitions: Iterable[TopicPartition], deadline: Deadline | None = None) -> Leaders:
    """Leader and leader epoch of each partition, by the highest epoch that any broker names (PROTOCOL 5.1).

    Raises :class:`Retriable` where no more than half of the brokers answer within the deadline: they may be those that
    are behind.
    """
    wanted = set(partitions)
    newest = dict.fromkeys(wanted, (-1, -1))
    for snapshot in _most(client, {topic for topic, _ in wanted}, deadline or client.deadline()):
        for topic, index in wanted:
            known = snapshot.topics[topic].partitions.get(index) if topic in snapshot.topics else None
            if known is not None and known.leader_epoch > newest[topic, index][1]:
                newest[topic, index] = (known.leader, known.leader_epoch)
    return newest


def _most(client: Client, topics: Collection[str], deadline: Deadline) -> list[Metadata]:
    while True:
        brokers = client.brokers(deadline)
        told = _told(client, brokers, topics, deadline)
        if 2 * len(told) > len(brokers):
            return told
        if deadline.passed:
            raise Retriable(
                f"only {len(told)} of {len(brokers)} brokers said who leads: whether that is still so, more of them"
                " must say."
            )
        deadline.pause()


def known_to_any(client: Client, topics: Collection[str], brokers: Collection[int], deadline: Deadline) -> bool:
    """Whether one of these brokers has heard of one of the topics."""
    return any(
        not topic.error for snapshot in _told(client, brokers, topics, deadline) for topic in snapshot.topics.values()
    )


def _told(client: Client, brokers: Collection[int], topics: Collection[str], deadline: Deadline) -> list[Metadata]:
    found = []
    for node in brokers:
        try:
            connection = client.connect(node, deadline)
            request = metadata_request(topics)
            found.append(Metadata.read(connection.call(request, connection.versions.pick(type(request), 12, 13))))
        except Retriable:  # it is down, and leads nothing: the epochs of the others say so
            continue
    return found
