"""The traces of a flow on its target, by which lost positions are found again: KIP-656's group, segments, records.

Under the identity policy, the positions of the flow in the other direction count too: they say up to where the source
has what the target has. So a flow fails back into topics that are not empty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from semel.mirror.adoption.origins import Origin, Standing, Trust
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.offsets.segment_topic import SegmentTopic
from semel.mirror.positions import SCOPE, Positions, flow_id
from semel.mirror.topics import find
from semel.read.ranges import id_text
from semel.transaction.progress.reader import committed_progress
from semel.wire.api.groups import all_committed
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["OwnTraces"]


@dataclass(frozen=True, slots=True)
class OwnTraces(Origin):
    """What the flow has left on the target, and what the flow in the other direction says of the source."""

    lists_all: ClassVar[bool] = True
    by_rows: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """The target."""
        return "the target"

    def positions(
        self, source: Client, target: Client, config: FlowConfig, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Standing]:
        """Return the highest position of each partition that a trace has."""
        traces = [
            *_of_segments(source, target, config),
            *_of_group(target, config, partitions),
            *_of_flow_back(source, target, config),
        ]
        highest: dict[TopicPartition, Standing] = {}
        for partition, one in traces:
            if partition in partitions and (partition not in highest or one.position >= highest[partition].position):
                highest[partition] = one
        return highest


def _of_group(
    target: Client, config: FlowConfig, partitions: Collection[TopicPartition]
) -> list[tuple[TopicPartition, Standing]]:
    """Return the positions of KIP-656's group: next source offsets under the target's topics."""
    id = flow_id(config.policy.source, config.policy.target)
    offsets = all_committed(target, id)
    targets = {partition: (config.policy.format_remote_topic(partition[0]), partition[1]) for partition in partitions}
    return [
        (partition, Standing(offsets[to].offset, f"group {id}", Trust.TRAILING, in_transaction=True))
        for partition, to in targets.items()
        if to in offsets
    ]


def _of_segments(source: Client, target: Client, config: FlowConfig) -> list[tuple[TopicPartition, Standing]]:
    """Return the position after the last run of each partition."""
    found = find(source, config)
    names = {name: config.policy.format_remote_topic(name) for name in found}
    there = target.existing(names.values())
    known = [name for name in found if names[name] in there]
    positions = replace(
        Positions.begin(source.cluster, config.policy),
        ids={name: id_text(found[name].id) for name in known},
        targets={name: (names[name], id_text(there[names[name]].id)) for name in known},
    )
    segments = SegmentTopic(target, flow_id(config.policy.source, config.policy.target)).read(positions, 0)
    return [
        (partition, Standing(int(runs.source[-1] + runs.count[-1]), "segments", Trust.TRAILING, in_transaction=True))
        for partition in segments.runs
        for runs in [segments.of(partition)]
        if len(runs.count)
    ]


def _of_flow_back(source: Client, target: Client, config: FlowConfig) -> list[tuple[TopicPartition, Standing]]:
    """Return where the flow in the other direction has written last, in topics that keep their names."""
    id = flow_id(config.policy.target, config.policy.source)
    progress = committed_progress(source, id, scope=SCOPE)
    if progress is None:
        return []
    positions = Positions.of(progress, id)
    names = {
        topic: name
        for topic, (name, _) in positions.targets.items()
        if config.policy.format_remote_topic(name) == topic
    }
    here, there = source.existing(names.values()), target.existing(names)
    same = {
        topic
        for topic, name in names.items()
        if name in here and topic in there
        if id_text(here[name].id) == positions.targets[topic][1] and id_text(there[topic].id) == positions.ids[topic]
    }
    return [
        ((names[topic], index), Standing(at.target, id, Trust.KNOWN))
        for (topic, index), at in positions.at.items()
        if topic in same and at.target >= 0
    ]
