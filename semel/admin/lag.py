"""Who is how far behind: a query behind its sources, and readers behind what was written.

Both are counted in offsets, as brokers give them: markers and aborted rows are among them. Looking changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from semel.read.ranges import id_text
from semel.transaction.progress.record import KafkaSource, Progress
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import Topic, TopicPartition

__all__ = ["held_back", "lags", "paused", "positions"]


def positions(progress: Progress | None) -> dict[TopicPartition, int]:
    """The next offset to read of each partition of semel's own sources, in whatever cluster; of sources that read the
    same one, the lowest.
    """
    return paused(progress) | _lowest(_own(progress))


def paused(progress: Progress | None) -> dict[TopicPartition, int]:
    """The next offset of each partition that the query's options leave out: nobody reads it, so it has no lag."""
    read = _lowest(_own(progress))
    return {
        partition: offset for partition, offset in _lowest(_own(progress), paused=True).items() if partition not in read
    }


def lags(
    client: Client, found: Sequence[Progress | None], deadline: Deadline | None = None
) -> list[dict[TopicPartition, int]]:
    """For each, how many offsets a read_committed reader has before it, where the source is of this cluster and still
    there. Asked once for all.

    What the log has no more (retention) is before nobody. Whether that was read before it went is told by the start of
    the reader, not by this.
    """
    read = [[source for source in _own(progress) if source.cluster == client.cluster] for progress in found]
    # topics that are left out are not asked for: the right to describe them may be gone
    known = client.existing(
        {topic for sources in read for source in sources for topic, at in source.topics.items() if at.reading}, deadline
    )
    here = [_comparable(sources, known) for sources in read]
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


def _comparable(sources: Sequence[KafkaSource], known: Mapping[str, Topic]) -> dict[TopicPartition, int]:
    """Of topics that are those that were read: offsets of one that was created again mean nothing."""
    same = {
        name
        for source in sources
        for name, end in source.topics.items()
        if name in known and id_text(known[name].id) == end.id
    }
    return {(topic, index): offset for (topic, index), offset in _lowest(sources).items() if topic in same}


def _own(progress: Progress | None) -> list[KafkaSource]:
    return [source for source in (progress.sources if progress is not None else ()) if isinstance(source, KafkaSource)]


def _lowest(sources: Iterable[KafkaSource], *, paused: bool = False) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for name, topic in (row for source in sources for row in source.topics.items()):
        for index, offset in (topic.end if paused else topic.reading).items():
            found[name, index] = min(offset, found.get((name, index), offset))
    return found
