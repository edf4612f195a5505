"""Who is how far behind: a query behind its sources, and readers behind what was written.

Both are counted in offsets, as brokers give them: markers and aborted rows are among them. Looking changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from semel.read.ranges import id_text
from semel.transaction.progress.record import Progress
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition

__all__ = ["held_back", "lags"]


def lags(
    client: Client, found: Sequence[Progress | None], deadline: Deadline | None = None
) -> list[dict[TopicPartition, int]]:
    """For each, how many offsets a read_committed reader has before it, where the source is of this cluster and still
    there. Asked once for all.

    What the log has no more (retention) is before nobody. Whether that was read before it went is told by the start of
    the reader, not by this.
    """
    known = client.existing(
        {topic for one in found if one is not None for topic, _ in one.positions(client.cluster)}, deadline
    )
    ids = {name: id_text(topic.id) for name, topic in known.items()}
    here = [one.positions(client.cluster, ids) if one is not None else {} for one in found]
    asked = {(topic, index) for read_to in here for topic, index in read_to if index in known[topic].partitions}
    if not asked:
        return [{} for _ in here]
    first, latest = (
        list_offsets(client, dict.fromkeys(asked, at), read_committed=True, deadline=deadline)
        for at in (EARLIEST, LATEST)
    )
    return [
        {p: max(latest[p].offset - max(offset, first[p].offset), 0) for p, offset in read_to.items() if p in latest}
        for read_to in here
    ]


def held_back(client: Client, topics: Collection[str], deadline: Deadline | None = None) -> dict[TopicPartition, int]:
    """How many offsets read_committed readers cannot reach yet, since a transaction is open before them, for topics
    that are there.
    """
    asked = dict.fromkeys(_there(client, topics, deadline), LATEST)
    if not asked:
        return {}
    # in this order, what is committed between the two requests holds nobody back
    ends, stable = (
        list_offsets(client, asked, read_committed=committed, deadline=deadline) for committed in (False, True)
    )
    return {partition: max(ends[partition].offset - stable[partition].offset, 0) for partition in asked}


def _there(client: Client, topics: Collection[str], deadline: Deadline | None) -> list[TopicPartition]:
    known = client.existing(topics, deadline)
    return [(name, index) for name, topic in known.items() for index in topic.partitions]
