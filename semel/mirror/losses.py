"""The losses that stop topics: rows of the source that are gone, and targets that are not what was written to.

Lost positions end the whole flow.

MirrorMaker 2 continues silently in each of these cases.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.errors import ConfigError, DataLoss
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.copy import wanted
from semel.mirror.policy import ReplicationPolicy
from semel.mirror.positions import SCOPE, OffsetAndEpoch, Positions
from semel.mirror.topics import MirroredTopic, find
from semel.read.data_loss import Loss, compare_ranges
from semel.read.ranges import NO_END, Range, id_text
from semel.read.reader import Reader
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = [
    "advice",
    "losses_of",
    "positions_lost",
    "recreated_targets",
    "rows_without_position",
    "targets_gone",
]


def advice(policy: ReplicationPolicy) -> str:
    """Return the ways out if rows of the source are gone."""
    return (
        "Nothing more of it is copied by this flow. (1) To resume without them: `semel mirror resolve FILE --source"
        f" {policy.source} --target {policy.target} --topic TOPIC --skip`. (2) To copy a topic again: delete its target"
        " topic, then give --restart. (3) To leave it out: topics.exclude"
    )


def _ways_out(policy: ReplicationPolicy, topic: str) -> str:
    command = f"`semel mirror resolve FILE --source {policy.source} --target {policy.target} --topic {topic}"
    return (
        f"Nothing more of it is copied. (1) To copy all of it again: {command} --restart`. (2) To resume with what is"
        f" new: {command} --skip`. (3) To leave it out: topics.exclude."
    )


def losses_of(
    source: Client, doubtful: Mapping[TopicPartition, OffsetAndEpoch], positions: Positions
) -> dict[TopicPartition, list[Loss]]:
    """Return the losses of each partition whose source really has not what was copied up to there. A broker that is
    only behind makes none.
    """
    ranges = [
        Range(topic, positions.ids[topic], index, at.offset, NO_END, at.epoch)
        for (topic, index), at in sorted(doubtful.items())
    ]
    lost: dict[TopicPartition, list[Loss]] = {}
    for loss in compare_ranges(source, ranges).lost if ranges else ():
        lost.setdefault((loss.topic, loss.partition), []).append(loss)
    return lost


def targets_gone(target: Client, policy: ReplicationPolicy, known: Mapping[str, str]) -> dict[str, DataLoss]:
    """Return an error for each topic whose target topic is gone. It is not created again: it would lack its earlier
    records.

    ``known`` are the target topics of source topics that are mirrored.
    """
    there = target.existing(known.values())
    return {
        topic: DataLoss(
            f"topic {name} of {policy.target} is not there any more, and with it what was copied into it."
            f" {_ways_out(policy, topic)}",
            tag="TARGET_GONE",
        )
        for topic, name in known.items()
        if name not in there
    }


def recreated_targets(
    policy: ReplicationPolicy, topics: Mapping[str, MirroredTopic], positions: Positions
) -> dict[str, DataLoss]:
    """Return an error for each topic whose target topic was created again: a new one lacks its earlier records."""
    return {
        name: DataLoss(
            f"topic {target} of {policy.target} was created again: its id was {id}, and is"
            f" {id_text(topics[name].ticket.id)}. What was copied from {name} until now is not in it."
            f" {_ways_out(policy, name)}",
            tag="TARGET_RECREATED",
        )
        for name, (target, id) in positions.targets.items()
        if name in topics and id_text(topics[name].ticket.id) != id
    }


def positions_lost(source: Client, target: Client, config: FlowConfig, id: str) -> DataLoss:
    """Return the error of a flow whose progress is gone. It names where its target topics end."""
    found = [config.policy.format_remote_topic(name) for name in find(source, config)]
    there = [(name, index) for name, topic in target.existing(found).items() for index in topic.partitions]
    ends = list_offsets(target, dict.fromkeys(there, LATEST), read_committed=False) if there else {}
    rows = [f"{name}-{index} at {ends[name, index].offset}" for name, index in sorted(ends) if ends[name, index].offset]
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    has = f"Its target topics end: {', '.join(rows[:5])}{more}." if rows else "Its target topics are gone or empty."
    return DataLoss(
        f"the positions of {id} are gone from topic {DEFAULT_TOPIC} of {config.policy.target}. Nothing was copied."
        f" {has} (1) To find them again: `semel mirror adopt` with --from target. (2) To copy everything again: delete"
        f" its target topics, if nobody else writes to them, run `semel progress reset {id} --scope {SCOPE}"
        f" --bootstrap-server {config.target['bootstrap.servers']}`, and start the mirror.",
        tag="PROGRESS_LOST",
    )


def rows_without_position(
    target: Client, alias: str, topics: Mapping[str, MirroredTopic], found: Mapping[TopicPartition, TopicPartition]
) -> dict[TopicPartition, ConfigError]:
    """Return an error for each source partition without a position whose target partition shows rows: it would be
    unknown which source rows they are.

    ``found`` has the source partition of each target partition without a position.
    """
    first = list_offsets(target, dict.fromkeys(found, EARLIEST), read_committed=True)
    last = list_offsets(target, dict.fromkeys(found, LATEST), read_committed=True)
    ids = {mirrored.target: id_text(mirrored.ticket.id) for mirrored in topics.values()}
    ranges = [Range(p[0], ids[p[0]], p[1], first[p].offset, last[p].offset) for p in sorted(found)]
    return {
        found[one.topic_partition]: _has_rows(one.topic_partition, alias, found[one.topic_partition])
        for one in ranges
        if one.size > 0 and _shows_rows(target, one)
    }


def _shows_rows(target: Client, one: Range) -> bool:
    """Read up to the first row alone."""
    with Reader(target, [one]) as reader:
        return any(wanted(taken) for answer in reader.answers() for taken in answer)


def _has_rows(where: TopicPartition, alias: str, source: TopicPartition) -> ConfigError:
    return ConfigError(
        f"{where[0]}-{where[1]} of {alias} has rows. No position says up to which offset of {source[0]}-{source[1]}"
        " they were copied. Nothing of it was copied. (1) If another program has copied them: `semel mirror adopt`."
        " (2) Delete the target topic. (3) Leave the source out: topics.exclude.",
        tag="TARGET_HAS_ROWS",
    )
