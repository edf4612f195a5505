"""The losses that end a flow: rows of the source that are gone, and targets that are not what was written to.

MirrorMaker 2 continues silently in each of these cases.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.errors import ConfigError, DataLoss
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.policy import ReplicationPolicy
from semel.mirror.positions import SCOPE, OffsetAndEpoch, Positions
from semel.mirror.topics import MirroredTopic, find
from semel.read.data_loss import check_ranges
from semel.read.ranges import NO_END, Range, id_text
from semel.read.reader import Reader
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = [
    "advice",
    "check_no_rows_without_position",
    "check_not_lost",
    "check_targets_exist",
    "check_targets_unchanged",
    "positions_lost",
]


def advice(policy: ReplicationPolicy) -> str:
    """Return the ways out if rows of the source are gone."""
    return (
        "Nothing more is copied by this flow. (1) To resume without them: `semel mirror resolve FILE --source"
        f" {policy.source} --target {policy.target} --topic TOPIC --skip`. (2) To copy a topic again: delete its target"
        " topic, then give --restart. (3) To leave it out: topics.exclude"
    )


def _ways_out(policy: ReplicationPolicy, topic: str) -> str:
    command = f"`semel mirror resolve FILE --source {policy.source} --target {policy.target} --topic {topic}"
    return (
        f"Nothing more is copied. (1) To copy all of it again: {command} --restart`. (2) To resume with what is new:"
        f" {command} --skip`. (3) To leave it out: topics.exclude."
    )


def check_not_lost(
    source: Client,
    doubtful: Mapping[TopicPartition, OffsetAndEpoch],
    positions: Positions,
    policy: ReplicationPolicy,
) -> None:
    """Raise :class:`DataLoss` where the source really has not what was copied up to there, and not only a broker is
    behind.
    """
    ranges = [
        Range(topic, positions.ids[topic], index, at.offset, NO_END, at.epoch)
        for (topic, index), at in sorted(doubtful.items())
    ]
    if ranges:
        check_ranges(source, ranges, fail_on_data_loss=True, advice=advice(policy))


def check_targets_exist(target: Client, policy: ReplicationPolicy, known: Mapping[str, str]) -> None:
    """Check that target topics still exist. A deleted one is not created again: it would lack its earlier records.

    ``known`` are the target topics of source topics that are mirrored.
    """
    there = target.existing(known.values())
    gone = sorted(topic for topic, name in known.items() if name not in there)
    if gone:
        raise DataLoss(
            f"topic {known[gone[0]]} of {policy.target} is not there any more, and with it what was copied into it."
            f" {_ways_out(policy, gone[0])}",
            tag="TARGET_GONE",
        )


def check_targets_unchanged(
    policy: ReplicationPolicy, topics: Mapping[str, MirroredTopic], positions: Positions
) -> None:
    """Check that target topics were not created again: a new one lacks its earlier records."""
    for name, (target, id) in positions.targets.items():
        known = topics.get(name)
        if known is not None and id_text(known.ticket.id) != id:
            raise DataLoss(
                f"topic {target} of {policy.target} was created again: its id was {id}, and is"
                f" {id_text(known.ticket.id)}. What was copied from {name} until now is not in it."
                f" {_ways_out(policy, name)}",
                tag="TARGET_RECREATED",
            )


def positions_lost(source: Client, target: Client, config: FlowConfig, id: str) -> DataLoss:
    """Return the error of a flow whose progress is gone. It names where its target topics end."""
    found = [config.policy.remote_topic(name) for name in find(source, config)]
    there = [(name, index) for name, topic in target.existing(found).items() for index in topic.partitions]
    ends = list_offsets(target, dict.fromkeys(there, LATEST), read_committed=False) if there else {}
    rows = [f"{name}-{index} at {ends[name, index].offset}" for name, index in sorted(ends) if ends[name, index].offset]
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    has = f"Its target topics end: {', '.join(rows[:5])}{more}." if rows else "Its target topics are gone or empty."
    return DataLoss(
        f"the positions of {id} are gone from topic {DEFAULT_TOPIC} of {config.policy.target}. Nothing was copied,"
        f" since the last copied offsets are not known. {has} To copy everything again: delete its target topics, if"
        f" nobody else writes to them, run `semel progress reset {id} --scope {SCOPE} --bootstrap-server"
        f" {config.target['bootstrap.servers']}`, and start the mirror.",
        tag="PROGRESS_LOST",
    )


def check_no_rows_without_position(
    target: Client, alias: str, topics: Mapping[str, MirroredTopic], found: Mapping[TopicPartition, TopicPartition]
) -> None:
    """Check that target partitions without a position show no rows: it would be unknown which source rows they have.

    ``found`` has the source partition of each target partition without a position.
    """
    first = list_offsets(target, dict.fromkeys(found, EARLIEST), read_committed=True)
    last = list_offsets(target, dict.fromkeys(found, LATEST), read_committed=True)
    ids = {mirrored.target: id_text(mirrored.ticket.id) for mirrored in topics.values()}
    ranges = [Range(p[0], ids[p[0]], p[1], first[p].offset, last[p].offset) for p in sorted(found)]
    with Reader(target, [one for one in ranges if one.size > 0], max_rows=1) as reader:
        for row in reader:
            where = (row.column("topic")[0].as_py(), row.column("partition")[0].as_py())
            source = found[where]
            raise ConfigError(
                f"{where[0]}-{where[1]} of {alias} has rows, and nothing says up to which offset of"
                f" {source[0]}-{source[1]} they were copied: some would be there twice. Nothing was copied. If"
                " MirrorMaker 2 has written them, `semel mirror adopt` will take its offsets over, and is not there"
                " yet; else delete the topic, or leave its source out (topics.exclude).",
                tag="TARGET_HAS_ROWS",
            )
