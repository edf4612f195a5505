"""Decide how a flow resumes after a loss, as an operator has chosen with ``semel mirror resolve``.

It is done as the owner of the flow: a mirror that runs is fenced first, so that the positions stay as they are seen.
The new ones are one transaction. A crash before its commit leaves the flow as it was (a target topic may have been made
already), one after it is of no account.

- *skip*: the flow goes on with what there is. What is gone from the source stays missing on the target; what was in a
  target topic that is gone is not copied again.
- *restart*: the topic is copied again from its earliest offset, into a target topic that shows no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from semel.errors import ConfigError
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.losses import rows_without_position
from semel.mirror.positions import SCOPE, OffsetAndEpoch, Positions, flow_id
from semel.mirror.topics import follow
from semel.read.data_loss import Loss, compare_ranges
from semel.read.ranges import NO_END, Range, id_text
from semel.transaction.producer import Producer
from semel.transaction.progress.reader import committed_progress
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import Topic, TopicPartition

__all__ = ["Resolution", "preview", "resolve", "skip_deleted"]


@dataclass(frozen=True, slots=True)
class Resolution:
    """The change to one topic. ``lines`` describes it for people; ``at`` has the new position of each partition.

    ``topic`` is the source's, and None where it is gone: then its positions are forgotten.
    """

    lines: tuple[str, ...]
    topic: Topic | None
    at: Mapping[int, OffsetAndEpoch]


def preview(source: Client, target: Client, config: FlowConfig, topic: str, *, restart: bool) -> Resolution:
    """Return what :func:`resolve` would do now. Fences no owner, and changes nothing."""
    id = flow_id(config.policy.source, config.policy.target)
    progress = committed_progress(target, id, scope=SCOPE)
    known = Positions.of(progress, id) if progress is not None else None
    return _decide(source, target, config, _checked(known, config, topic), topic, restart=restart)


def resolve(source: Client, target: Client, config: FlowConfig, topic: str, *, restart: bool) -> Resolution:
    """Do it. Raises :class:`ConfigError` where the topic was not mirrored, or may not be copied again as it is."""
    id = flow_id(config.policy.source, config.policy.target)
    with Producer(target, id, scope=SCOPE) as producer:
        producer.take_over(group=id)
        known = Positions.of(producer.progress, id) if producer.progress is not None else None
        positions = _checked(known, config, topic)
        positions.check_same_flow(source.cluster, config.policy)
        found = _decide(source, target, config, positions, topic, restart=restart)
        offsets: dict[TopicPartition, int] = {}
        if found.topic is None:
            positions = replace(positions.without(topic), round=positions.round + 1)
        else:
            followed = follow(source, target, config, {topic: found.topic}, {})
            for error in followed.refused.values():
                raise error
            mirrored = followed.topics[topic]
            partitions = {(mirrored.target, index): (topic, index) for index in found.at}
            if restart:
                filled = rows_without_position(target, config.policy.target, {topic: mirrored}, partitions)
                for error in filled.values():
                    raise error
            ends = list_offsets(target, dict.fromkeys(partitions, LATEST), read_committed=False)
            at = {
                (topic, index): replace(one, target=ends[mirrored.target, index].offset)
                for index, one in found.at.items()
            }
            positions = positions.without(topic).begun(
                at, {topic: mirrored.id}, {topic: (mirrored.target, id_text(mirrored.ticket.id))}
            )
            offsets = {(mirrored.target, index): one.offset for index, one in found.at.items()}
        with producer.transaction() as txn:
            if offsets:
                txn.send_offsets(offsets, id)
            txn.commit(replace(positions, set_by="resolve").progress())
        producer.wait_visible()
    return found


def _checked(positions: Positions | None, config: FlowConfig, topic: str) -> Positions:
    if positions is None or topic not in positions.ids:
        raise ConfigError(
            f"{config.title} has no position of topic {topic!r}. Nothing was changed. Name a topic of"
            f" {config.policy.source} that it mirrors: `semel mirror status` shows them.",
            tag="NOT_MIRRORED",
        )
    return positions


def _decide(
    source: Client, target: Client, config: FlowConfig, positions: Positions, topic: str, *, restart: bool
) -> Resolution:
    now = source.existing({topic}).get(topic)
    if now is None:
        if restart:
            raise ConfigError(
                f"topic {topic!r} is not there on {config.policy.source}, so it cannot be copied again. Nothing was"
                " changed. Make it, or go on without it: --skip",
                tag="SOURCE_GONE",
            )
        return Resolution((f"{topic} is gone from {config.policy.source}: its positions are forgotten",), None, {})
    lines = list(_target_lines(target, positions, topic))
    if restart or id_text(now.id) != positions.ids[topic]:
        listed = list_offsets(
            source, dict.fromkeys([(topic, i) for i in now.partitions], EARLIEST), read_committed=True
        )
        at = {index: OffsetAndEpoch(row.offset) for (_, index), row in sorted(listed.items())}
        lines += [f"{topic}-{index} is copied from its earliest offset, {one.offset}" for index, one in at.items()]
        return Resolution(tuple(lines), now, at)
    at = {index: one for (name, index), one in sorted(positions.at.items()) if name == topic}
    for loss, start in _losses(source, positions, {(topic, index): one for index, one in at.items()}):
        at[loss.partition] = OffsetAndEpoch(start)
        lines.append(f"{topic}-{loss.partition} resumes at offset {start}; {loss}")
    return Resolution(tuple(lines or [f"nothing is lost of {topic}: it resumes where it is"]), now, at)


def _target_lines(target: Client, positions: Positions, topic: str) -> list[str]:
    name, id = positions.targets[topic]
    there = target.existing({name}).get(name)
    if there is None:
        return [f"{name} is not there any more: it is made again"]
    return [f"{name} was created again: it is written to from now on"] if id_text(there.id) != id else []


def _losses(
    source: Client, positions: Positions, at: Mapping[TopicPartition, OffsetAndEpoch]
) -> list[tuple[Loss, int]]:
    """Return the losses of the source, each with the offset where the partition resumes."""
    ranges = [Range(t, positions.ids[t], i, one.offset, NO_END, one.epoch) for (t, i), one in sorted(at.items())]
    checked = compare_ranges(source, ranges)
    starts = {one.topic_partition: one.start for one in checked.ranges}
    return [(loss, starts[loss.topic, loss.partition]) for loss in checked.lost]


def skip_deleted(source: Client, positions: Positions, topics: Mapping[str, object]) -> tuple[Positions, list[Loss]]:
    """Return the positions after rows that retention has deleted, and the skipped rows (``on.data.loss=skip``).

    A partition that has lost anything else is not passed over: its log was cut, or its topic is another one.
    """
    at = {partition: one for partition, one in positions.at.items() if partition[0] in topics}
    found = _losses(source, positions, at)
    otherwise = {
        (loss.topic, loss.partition)
        for loss, _ in found
        if loss.start != at[loss.topic, loss.partition].offset or loss.end == NO_END or loss.anew
    }
    deleted = [(loss, start) for loss, start in found if (loss.topic, loss.partition) not in otherwise]
    moved = {(loss.topic, loss.partition): OffsetAndEpoch(start) for loss, start in deleted}
    return (positions.moved(moved) if moved else positions), [loss for loss, _ in deleted]
