"""Lags of queries and of readers. Nothing is changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from semel.read.ranges import id_text
from semel.read.remaining import remaining_records
from semel.transaction.progress.record import Progress
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition

__all__ = ["held_back", "lags"]


def lags(
    client: Client, progresses: Sequence[Progress | None], deadline: Deadline | None = None
) -> list[dict[TopicPartition, int]]:
    """Return the lag of each progress: how many records a read_committed reader has left, by partition. Only sources of
    this cluster that still exist are counted. Brokers are asked once for the offsets of all.

    Markers and aborted rows are not counted where few offsets are left, and are where many are
    (:func:`~semel.read.remaining.remaining_records`).

    Offsets that retention has removed are not counted. Only the start of the reader finds out whether they had been
    read.
    """
    topics = client.existing(
        {topic for one in progresses if one is not None for topic, _ in one.positions(client.cluster)}, deadline
    )
    ids = {name: id_text(topic.id) for name, topic in topics.items()}
    here = [one.positions(client.cluster, ids) if one is not None else {} for one in progresses]
    asked = {(topic, index) for read_to in here for topic, index in read_to if index in topics[topic].partitions}
    if not asked:
        return [{} for _ in here]
    first, latest = (
        list_offsets(client, dict.fromkeys(asked, at), read_committed=True, deadline=deadline)
        for at in (EARLIEST, LATEST)
    )
    ranges = [
        {p: (max(offset, first[p].offset), latest[p].offset) for p, offset in read_to.items() if p in latest}
        for read_to in here
    ]
    return [remaining_records(client, each, deadline or client.deadline()) for each in ranges]


def held_back(client: Client, topics: Collection[str], deadline: Deadline | None = None) -> dict[TopicPartition, int]:
    """Return how many offsets an open transaction hides from read_committed readers, for each partition of the topics
    that exist.
    """
    asked = dict.fromkeys(_there(client, topics, deadline), LATEST)
    if not asked:
        return {}
    # in this order, a commit between the two requests counts as visible
    ends, stable = (
        list_offsets(client, asked, read_committed=committed, deadline=deadline) for committed in (False, True)
    )
    return {partition: max(ends[partition].offset - stable[partition].offset, 0) for partition in asked}


def _there(client: Client, topics: Collection[str], deadline: Deadline | None) -> list[TopicPartition]:
    existing_topics = client.existing(topics, deadline)
    return [(name, index) for name, topic in existing_topics.items() for index in topic.partitions]
