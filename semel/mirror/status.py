"""The position of a flow, partition by partition, and what stops it. Fences no owner, and writes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from semel.admin.progress import list_progress
from semel.errors import ConfigError, DataLoss
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.operation.wanted import FlowState, Wanted, shown_wanted
from semel.mirror.positions import SCOPE, Positions, flow_id
from semel.mirror.stops import WHOLE_TOPIC, Stop
from semel.mirror.topics import find, wants
from semel.read.data_loss import compare_ranges
from semel.read.ranges import NO_END, Range, id_text
from semel.read.reader import Reader
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["FlowStatus", "GroupStatus", "PartitionStatus", "shown_positions", "status"]


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One source partition. ``position`` is the next offset to copy, None before it has begun.

    ``lag`` counts what is readable and not copied, ``seconds`` is the age of the first of it, and ``held_back`` counts
    what an open transaction keeps from being read. ``problem`` says what stops it, ``way_out`` what to do. ``paused``:
    an operator has paused its topic, or paused or stopped the flow.
    """

    topic: str
    partition: int
    target: str
    position: int | None
    lag: int | None
    seconds: float | None
    held_back: int
    problem: str = ""
    way_out: str = ""
    paused: bool = False


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group that does not follow, and the reason."""

    group: str
    problem: str


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """The partitions of a flow, its groups that do not follow, and what an operator wants of it."""

    partitions: list[PartitionStatus]
    groups: list[GroupStatus]
    wanted: Wanted

    @property
    def rows(self) -> list[PartitionStatus | GroupStatus]:
        """Both, partitions first."""
        return [*self.partitions, *self.groups]


def status(source: Client, target: Client, config: FlowConfig) -> FlowStatus:
    """Return the state of the partitions that the file asks for, and of those that have a position."""
    positions = shown_positions(source, target, config)
    found = find(source, config)
    there = source.existing(positions.ids.keys() | found.keys())
    partitions = [(name, index) for name, topic in there.items() for index in topic.partitions]
    stable = list_offsets(source, dict.fromkeys(partitions, LATEST), read_committed=config.read_committed)
    ends = list_offsets(source, dict.fromkeys(partitions, LATEST), read_committed=False)
    lost = _problems(source, target, config, positions)
    problems = _known_stops(config, positions, {*partitions, *positions.at}) | lost
    lag = {p: stable[p].offset - at.offset for p, at in positions.at.items() if p in stable and p not in lost}
    ages = _ages(source, config, positions, {p for p, count in lag.items() if count > 0})
    rows = []
    wanted = shown_wanted(target, config)
    left = positions.left - there.keys()
    for partition in sorted({*partitions, *(p for p in positions.at if p[0] not in left)}):
        name, index = partition
        at = positions.at.get(partition)
        to = positions.targets[name][0] if name in positions.targets else config.policy.format_remote_topic(name)
        held = ends[partition].offset - stable[partition].offset if partition in ends else 0
        count = lag.get(partition)
        rows.append(
            PartitionStatus(
                name,
                index,
                to,
                None if at is None else at.offset,
                None if count is None else max(count, 0),
                ages.get(partition),
                held,
                *problems.get(partition, ("", "")),
                wanted.state is not FlowState.RUNNING or name in wanted.paused_topics,
            )
        )
    groups = [GroupStatus(group, _text(stop)) for group, stop in sorted(positions.stopped_groups.items())]
    return FlowStatus(rows, groups, wanted)


def shown_positions(source: Client, target: Client, config: FlowConfig) -> Positions:
    """Return the positions of a flow as brokers show them, none before it has any. Writes nothing."""
    id = flow_id(config.policy.source, config.policy.target)
    try:
        newest = [one for one in list_progress(target) if (one.prefix, one.scope) == (id, SCOPE)]
    except ConfigError as error:
        if error.tag != "UNKNOWN_TOPIC":
            raise
        newest = []
    progress = newest[0].progress if newest else None
    if progress is None:
        return Positions.begin(source.cluster, config.policy)
    positions = Positions.of(progress, id)
    positions.check_same_flow(source.cluster, config.policy)
    return positions


def _problems(
    source: Client, target: Client, config: FlowConfig, positions: Positions
) -> dict[TopicPartition, tuple[str, str]]:
    """Return what the next round would stop at, with the way out."""
    policy = config.policy
    found: dict[TopicPartition, tuple[str, str]] = {}

    def way_out(topic: str) -> str:
        command = f"semel mirror resolve FILE --source {policy.source} --target {policy.target} --topic {topic}"
        return f"`{command}` with --skip or --restart, or topics.exclude"

    ranges = [
        Range(t, positions.ids[t], i, one.offset, NO_END, one.epoch) for (t, i), one in sorted(positions.at.items())
    ]
    found |= {
        (loss.topic, loss.partition): (loss.reason, way_out(loss.topic)) for loss in compare_ranges(source, ranges).lost
    }
    known = target.existing([name for name, _ in positions.targets.values()])
    for topic, (name, id) in positions.targets.items():
        now = known.get(name)
        if now is None or id_text(now.id) != id:
            reason = f"the target topic {name} {'is gone' if now is None else 'was created again'}"
            found |= {p: (reason, way_out(topic)) for p in positions.at if p[0] == topic}
    return found


def _known_stops(
    config: FlowConfig, positions: Positions, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[str, str]]:
    """Return what the mirror has stopped, by the reasons that it has committed."""
    found: dict[TopicPartition, tuple[str, str]] = {}
    for topic, index in partitions:
        stop = positions.stopped.get((topic, WHOLE_TOPIC)) or positions.stopped.get((topic, index))
        if stop is not None and wants(config, topic):
            found[topic, index] = (_text(stop), "")
    return found


def _text(stop: Stop) -> str:
    return f"[SEMEL_{stop.tag}] {stop.message or 'the log of the mirror has the reason'}"


def _ages(
    source: Client, config: FlowConfig, positions: Positions, behind: set[TopicPartition]
) -> dict[TopicPartition, float]:
    """Return the age of the next record of each partition in seconds, by its own timestamp."""
    committed = config.read_committed
    ends = list_offsets(source, dict.fromkeys(behind, LATEST), read_committed=committed) if behind else {}
    ranges = [
        Range(p[0], positions.ids[p[0]], p[1], positions.at[p].offset, row.offset) for p, row in sorted(ends.items())
    ]
    now, left = time.time(), set(behind)
    ages: dict[TopicPartition, float] = {}
    try:
        with Reader(source, ranges, read_committed=committed) as reader:
            for answer in reader.answers():
                for taken in answer:
                    partition = taken.part.range.topic_partition
                    rows = [header for header in taken.batches if header.count]
                    if partition in left and rows:
                        ages[partition] = max(now - rows[0].base_timestamp / 1000, 0.0)
                        left.discard(partition)
                if not left:
                    break
    except DataLoss:  # it is a problem that is shown
        return ages
    return ages
