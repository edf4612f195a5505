"""Adopt a flow: commit its first positions on the target, so that its first round begins there. Start reading here.

It is done as the owner of the flow, and after the program that has copied until now was fenced, where the cluster can.
The positions, KIP-656's group and the target offsets of the last records are one transaction: a crash before its commit
leaves the flow as it was (target topics may have been made already), one after it is of no account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from semel.errors import ConfigError
from semel.mirror.adoption.mirror_maker import wait_until_stable
from semel.mirror.adoption.origins import Origin
from semel.mirror.adoption.plan import Plan, PlannedPartition, make_plan
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.offsets.segment_topic import SEGMENTS, SegmentTopic
from semel.mirror.positions import SCOPE, OffsetAndEpoch, Positions, flow_id
from semel.mirror.rights import check_rights
from semel.mirror.topics import MirroredTopic, find, follow
from semel.read.ranges import id_text
from semel.steps import AdoptionStep, reached
from semel.transaction.producer import Producer
from semel.transaction.progress.reader import committed_progress
from semel.transaction.progress.record import Progress
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["adopt", "preview"]


def preview(source: Client, target: Client, config: FlowConfig, origin: Origin, *, replaces: bool = False) -> Plan:
    """Return what :func:`adopt` would do now. Fences no one, and writes nothing.

    Raises :class:`ConfigError` if the flow has positions already and they are not to be replaced, if the program that
    copies now is at work, and if the origin has no positions.
    """
    id = flow_id(config.policy.source, config.policy.target)
    check_rights(source, target, config, id)
    if not replaces:
        _check_no_positions(committed_progress(target, id, scope=SCOPE), config)
    origin.check_at_rest(source, target)
    return make_plan(source, target, config, origin)


def adopt(source: Client, target: Client, config: FlowConfig, origin: Origin, *, replaces: bool = False) -> Plan:
    """Do what :func:`preview` shows. Raises :class:`ConfigError` as it does, and where a partition is refused: then no
    position was changed.
    """
    id = flow_id(config.policy.source, config.policy.target)
    if not replaces:
        _check_no_positions(committed_progress(target, id, scope=SCOPE), config)
    origin.check_at_rest(source, target)
    origin.fence(target)
    reached(AdoptionStep.PREDECESSOR_FENCED, id)
    with Producer(target, id, scope=SCOPE, may_have_lost_progress=True) as producer:
        producer.take_over(group=id)
        if not replaces:
            _check_no_positions(producer.progress, config)
        origin.check_at_rest(source, target)
        plan, mirrored = _settled_plan(source, target, config, origin)
        reached(AdoptionStep.PLACED, id)
        positions = _positions(source, target, config, producer.progress, plan, mirrored)
        segments = SegmentTopic(target, id)
        known = {SEGMENTS: segments.ensure(config.replication_factor)}
        with producer.transaction() as txn:
            (ticket,) = txn.tickets([[segments.partition]], known)
            runs = {one.partition: one.runs for one in plan.partitions if len(one.runs.count)}
            txn.accept([segments.write(ticket, positions, runs)])
            reached(AdoptionStep.SEGMENTS_WRITTEN, id)
            txn.send_offsets({one.target: positions.at[one.partition].offset for one in _begun(plan)}, id)
            txn.commit(positions.progress())
        reached(AdoptionStep.COMMITTED, id)
        producer.wait_visible()
    return plan


def _settled_plan(
    source: Client, target: Client, config: FlowConfig, origin: Origin
) -> tuple[Plan, Mapping[str, MirroredTopic]]:
    """Return the plan after the last record of the predecessor is visible or aborted, and the target topics."""
    names = {config.policy.format_remote_topic(name) for name in find(source, config)}
    there = target.existing(names)
    wait_until_stable(target, [(name, index) for name, topic in there.items() for index in topic.partitions])
    plan = make_plan(source, target, config, origin)
    plan.check()
    begun = sorted({one.partition[0] for one in _begun(plan)})
    followed = follow(source, target, config, {topic: plan.topics[topic] for topic in begun}, {})
    for error in followed.refused.values():
        raise error
    return plan, followed.topics


def _begun(plan: Plan) -> list[PlannedPartition]:
    return [one for one in plan.partitions if one.position is not None]


def _positions(
    source: Client,
    target: Client,
    config: FlowConfig,
    before: Progress | None,
    plan: Plan,
    mirrored: Mapping[str, MirroredTopic],
) -> Positions:
    begun = _begun(plan)
    ends = list_offsets(target, {one.target: LATEST for one in begun}, read_committed=False)
    at: dict[TopicPartition, OffsetAndEpoch] = {
        one.partition: OffsetAndEpoch(one.position, target=ends[one.target].offset)
        for one in begun
        if one.position is not None
    }
    ids = {topic: mirrored[topic].id for topic, _ in at}
    targets = {topic: (mirrored[topic].target, id_text(mirrored[topic].ticket.id)) for topic, _ in at}
    positions = Positions.begin(source.cluster, config.policy)
    if before is not None:
        positions = replace(positions, round=Positions.of(before, config.title).round)
    return positions.begun(at, ids, targets)


def _check_no_positions(progress: Progress | None, config: FlowConfig) -> None:
    if progress is not None and progress.sources:
        raise ConfigError(
            f"{config.title} has positions already. Nothing was changed. `semel mirror status` shows them. To begin"
            " somewhere else, give --replace: records may then be copied again, or left out.",
            tag="HAS_PROGRESS",
        )
