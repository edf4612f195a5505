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
from semel.mirror.adoption.plan import Plan, make_plan
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.offsets.segment_topic import SEGMENTS, SegmentTopic
from semel.mirror.positions import SCOPE, OffsetAndEpoch, Positions, flow_id, last_known
from semel.mirror.rights import check_rights
from semel.mirror.topics import MirroredTopic, find, follow
from semel.read.ranges import id_text
from semel.steps import AdoptionStep, reached
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["adopt", "preview"]


def preview(
    source: Client, target: Client, config: FlowConfig, origin: Origin, *, replaces: bool = False
) -> tuple[Plan, bool]:
    """Return what :func:`adopt` would do now, and whether it was done already. Fences no one, and writes nothing.

    Raises :class:`ConfigError` if the flow has other positions and they are not to be replaced, if the program that
    copies now is at work, and if the origin has no positions.
    """
    id = flow_id(config.policy.source, config.policy.target)
    check_rights(source, target, config, id)
    origin.check_at_rest(source, target)
    plan, before = make_plan(source, target, config, origin), last_known(target, id)
    if before is not None and not replaces and not plan.is_done(before):
        raise _has_positions(config)
    return plan, before is not None and plan.is_done(before)


def adopt(source: Client, target: Client, config: FlowConfig, origin: Origin, *, replaces: bool = False) -> Plan:
    """Do what :func:`preview` shows. Raises :class:`ConfigError` as it does, and where a partition is refused: then no
    position was changed.
    """
    id = flow_id(config.policy.source, config.policy.target)
    before = last_known(target, id)
    if before is not None:
        before.check_same_flow(source.cluster, config.policy)
    origin.check_at_rest(source, target)
    origin.fence(target)
    reached(AdoptionStep.PREDECESSOR_FENCED, id)
    with Producer(target, id, scope=SCOPE, may_have_lost_progress=True) as producer:
        producer.take_over(group=id)
        plan = _settled_plan(source, target, config, origin)
        reached(AdoptionStep.PLACED, id)
        before = _positions_of(producer.progress, id)
        if before is not None and plan.is_done(before):
            return plan
        if before is not None and not replaces:
            raise _has_positions(config)
        _commit(source, target, config, producer, plan)
        reached(AdoptionStep.COMMITTED, id)
        producer.wait_visible()
    return plan


def _commit(source: Client, target: Client, config: FlowConfig, producer: Producer, plan: Plan) -> None:
    id = producer.transactional_id
    followed = follow(source, target, config, {topic: plan.topics[topic] for topic in _topics(plan)}, {})
    for error in followed.refused.values():
        raise error
    positions = _positions(source, target, config, producer, plan, followed.topics)
    segments = SegmentTopic(target, id)
    known = {SEGMENTS: segments.ensure(config.replication_factor)}
    with producer.transaction() as txn:
        (ticket,) = txn.tickets([[segments.partition]], known)
        runs = {one.partition: one.runs for one in plan.begun}
        txn.accept([segments.write(ticket, positions, runs, adopted=True)])
        reached(AdoptionStep.SEGMENTS_WRITTEN, id)
        txn.send_offsets({one.target: positions.at[one.partition].offset for one in plan.begun}, id)
        txn.commit(replace(positions, set_by="adopt").progress())


def _settled_plan(source: Client, target: Client, config: FlowConfig, origin: Origin) -> Plan:
    """Return the plan after the predecessor's last records are visible or aborted."""
    names = {config.policy.format_remote_topic(name) for name in find(source, config)}
    there = target.existing(names)
    wait_until_stable(target, [(name, index) for name, topic in there.items() for index in topic.partitions])
    origin.check_at_rest(source, target)
    plan = make_plan(source, target, config, origin)
    plan.check()
    return plan


def _topics(plan: Plan) -> list[str]:
    return sorted({one.partition[0] for one in plan.begun})


def _positions(
    source: Client,
    target: Client,
    config: FlowConfig,
    producer: Producer,
    plan: Plan,
    mirrored: Mapping[str, MirroredTopic],
) -> Positions:
    ends = list_offsets(target, {one.target: LATEST for one in plan.begun}, read_committed=False)
    _check_still(plan, {partition: row.offset for partition, row in ends.items()})
    at = {
        one.partition: OffsetAndEpoch(one.position, target=ends[one.target].offset)
        for one in plan.begun
        if one.position is not None
    }
    ids = {topic: mirrored[topic].id for topic in _topics(plan)}
    targets = {topic: (mirrored[topic].target, id_text(mirrored[topic].ticket.id)) for topic in _topics(plan)}
    positions = _positions_of(producer.progress, producer.transactional_id)
    if positions is None:
        return Positions.begin(source.cluster, config.policy).begun(at, ids, targets)
    for topic in plan.topics:
        positions = positions.without(topic)
    return positions.begun(at, ids, targets)


def _check_still(plan: Plan, ends: Mapping[TopicPartition, int]) -> None:
    """Refuse targets that were written to since the plan was made: by a program that has not ended."""
    for one in plan.begun:
        if ends[one.target] != (one.target_end or 0):
            topic, index = one.target
            raise ConfigError(
                f"{topic}-{index} is written to: it has grown to offset {ends[one.target]} meanwhile. Nothing was"
                " changed. Stop the program that writes to it, then adopt again.",
                tag="NOT_ADOPTED",
            )


def _positions_of(progress: Progress | None, id: str) -> Positions | None:
    return None if progress is None or not progress.sources else Positions.of(progress, id)


def _has_positions(config: FlowConfig) -> ConfigError:
    return ConfigError(
        f"{config.title} has positions already. Nothing was changed. `semel mirror status` shows them. To begin"
        " somewhere else, give --replace: records may then be copied again, or left out.",
        tag="HAS_PROGRESS",
    )
