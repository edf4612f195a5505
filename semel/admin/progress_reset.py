"""Reset of progress by an operator: forgotten, or set to other offsets (PROTOCOL 6, ``semel progress reset``).

The command becomes the owner: it takes the id over with all of PROTOCOL 2. So the former owner is fenced, no
transaction is open, and the progress that is shown does not change. The record goes into a transaction of the id, and
is settled as any other progress:

- a crash before the commit, or another owner that has come since, leaves the progress as it was;
- a crash later than the commit leaves the progress forgotten or set: the next owner waits for the markers, as always.

A takeover of a moved prefix is refused: its mark keeps rows from being written under both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from semel.admin.progress import list_progress
from semel.errors import ConfigError
from semel.read.ranges import id_text
from semel.read.start_offsets import AtOffsets, resolve
from semel.transaction.producer import Producer
from semel.transaction.progress.record import KafkaSource, Progress, Source, TopicEnd
from semel.transaction.progress.topic import Presence, ProgressTopic
from semel.transaction.takeover import progress_presence
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition, named

__all__ = ["at_offsets", "at_positions", "forget", "is_lost", "scope_of", "set_to"]


def scope_of(client: Client, prefix: str, progress_topic: str, chosen: str | None = None) -> str | None:
    """Return the scope of a prefix's progress: a query, batch jobs (``batch``), a producer. None if it has none, or
    none of the ``chosen`` scope.

    No owner is fenced. Raise :class:`ConfigError` if it has several and none was ``chosen``.
    """
    if progress_topic not in client.existing({progress_topic}):
        return None
    scopes = [
        one.scope
        for one in list_progress(client, progress_topic=progress_topic)
        if one.prefix == prefix and chosen in (None, one.scope)
    ]
    if len(scopes) > 1:
        raise ConfigError(
            f"{prefix!r} has progress of a {' and of a '.join(scopes)}. Nothing was changed. Say which one by --scope.",
            tag="SEVERAL_SCOPES",
        )
    return scopes[0] if scopes else None


def is_lost(client: Client, prefix: str, scope: str, progress_topic: str) -> bool:
    """Return True if a prefix was used before and its progress is gone. Then a new start is refused until the progress
    is set, or forgotten on purpose.
    """
    return (
        progress_presence(client, prefix, ProgressTopic(client, prefix, scope, progress_topic), client.deadline())
        is Presence.LOST
    )


def forget(owner: Producer) -> None:
    """Forget the progress of an id that was taken over. Return when that is committed and its markers are seen.

    Raise :class:`~semel.errors.Fenced` if another owner has come since: then nothing was forgotten.
    """
    _commit(owner, Progress(forgotten=True))


def set_to(owner: Producer, progress: Progress) -> None:
    """Replace the progress of an id that was taken over by ``progress``. As :func:`forget`."""
    _commit(owner, progress)


def _commit(owner: Producer, progress: Progress) -> None:
    with owner.transaction() as txn:
        txn.commit(progress)
    owner.wait_visible()


def at_offsets(client: Client, before: Progress | None, offsets: Mapping[str, Mapping[int, int]]) -> Progress:
    """Return the progress with these next offsets to read, without a query and a batch. A query that starts exactly
    there may continue from it.

    Each topic is named with all its partitions; -2 stands for the earliest offset, -1 for the last stable one. Other
    topics of ``before``, and sources that are not semel's, keep their positions. Raise :class:`ConfigError` for topics
    that ``before`` does not read, and for offsets that do not exist.
    """
    existing_topics = client.topics(offsets.keys())
    partitions = [(name, index) for name, topic in existing_topics.items() for index in topic.partitions]
    next_offsets = resolve(client, partitions, AtOffsets(offsets), read_committed=True)
    _check_in_log(client, next_offsets)
    ends = {
        name: TopicEnd(id_text(topic.id), {index: next_offsets[name, index] for index in topic.partitions})
        for name, topic in existing_topics.items()
    }
    if before is None or not before.sources:
        return Progress(sources=(KafkaSource(client.cluster, ends),))
    read = {
        name
        for source in before.sources
        if isinstance(source, KafkaSource) and source.cluster == client.cluster
        for name in source.topics
    }
    if offsets.keys() - read:
        raise ConfigError(
            f"the progress is not of {', '.join(sorted(offsets.keys() - read))}: it is of"
            f" {', '.join(sorted(read)) or 'no topic of this cluster'}. Nothing was changed. Name topics that the"
            " query reads, or forget the progress first.",
            tag="UNKNOWN_TOPIC",
        )
    return Progress(sources=tuple(_at(source, client.cluster, ends) for source in before.sources))


def at_positions(client: Client, sources: Sequence[tuple[str | None, Mapping[str, Mapping[int, int]]]]) -> Progress:
    """Return the progress of sources that another program read, without a query and a batch. A source is a name or
    None, and the next offset to read of each partition.

    Partitions that are not named are left out: the query reads them from their beginning. Raise :class:`ConfigError`
    for topics, partitions and offsets that do not exist.
    """
    existing_topics = client.topics({topic for _, offsets in sources for topic in offsets})
    at = {
        (topic, index): offset
        for _, offsets in sources
        for topic, row in offsets.items()
        for index, offset in row.items()
    }
    missing = {(topic, index) for topic, index in at if index not in existing_topics[topic].partitions}
    if missing:
        raise ConfigError(
            f"{named(missing)} are not there: the topic has fewer partitions, so it was created again. Nothing was"
            " changed. Offsets of a topic that is gone mean nothing for the new one: begin by startingOffsets.",
            tag="UNKNOWN_PARTITION",
        )
    _check_in_log(client, at)
    ends = [
        {topic: TopicEnd(id_text(existing_topics[topic].id), dict(row)) for topic, row in offsets.items()}
        for _, offsets in sources
    ]
    return Progress(
        sources=tuple(
            KafkaSource(client.cluster, topics, name) for topics, (name, _) in zip(ends, sources, strict=True)
        )
    )


def _at(source: Source, cluster: str, ends: Mapping[str, TopicEnd]) -> Source:
    if not isinstance(source, KafkaSource) or source.cluster != cluster:
        return source
    return replace(source, topics={name: ends.get(name, at) for name, at in source.topics.items()})


def _check_in_log(client: Client, next_offsets: Mapping[TopicPartition, int]) -> None:
    first, last = (
        list_offsets(client, dict.fromkeys(next_offsets, which), read_committed=False) for which in (EARLIEST, LATEST)
    )
    outside = {
        partition
        for partition, offset in next_offsets.items()
        if not first[partition].offset <= offset <= last[partition].offset
    }
    if outside:
        one = min(outside)
        raise ConfigError(
            f"{named(outside)} have no such offset: {one[0]}-{one[1]} has {first[one].offset} to {last[one].offset},"
            f" and {next_offsets[one]} was given. Nothing was changed. Give offsets that are there; -2 is the"
            " earliest.",
            tag="NO_SUCH_OFFSET",
        )
