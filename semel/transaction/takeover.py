"""Taking over a transactional id: fence, then read, then see markers (PROTOCOL 2).

The order is the point. InitProducerId first: nobody else can commit after it. Then a claim and a read up to it: so no committed progress is missed,
whichever broker answers. Then markers: no transaction of ours begins before everything that a predecessor left open is settled as it was decided.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import suppress

from semel.errors import AbortAndRetry, ConfigError, Fenced, Retriable
from semel.read.plan import id_text
from semel.steps import OwnerStep, reached
from semel.transaction.markers import OFFSETS_TOPIC, hanging, wait_seen
from semel.transaction.ownership import Ownership
from semel.transaction.progress import KafkaSource, Progress, Settled, refuse_moved
from semel.transaction.states import Event
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import Topic, TopicPartition
from semel.wire.offsets import committed, live_members
from semel.wire.outcome import briefly
from semel.wire.transactions import describe, init_producer_id

__all__ = ["group_view", "read_progress", "see_group", "take_over"]

log = logging.getLogger("semel")


def take_over(own: Ownership, outputs: Collection[str], group: str | None) -> None:
    """Make ``own`` the only owner of its id, and learn what was committed under it: ``own.newest``.

    ``outputs`` are the topics that will be written, as far as they are known. Raises :class:`Fenced` if another owner is at work,
    :class:`~semel.errors.Unsupported` for a broker that cannot share transactions, :class:`ConfigError` for a group with live members.
    """
    own.states.move(Event.TAKING_OVER)  # asked first: a second InitProducerId of a fenced owner would fence its successor
    try:
        _take_over(own, outputs, group)
    except Fenced:
        own.states.move(Event.FENCED)
        raise
    own.states.move(Event.TAKEN_OVER)


def _take_over(own: Ownership, outputs: Collection[str], group: str | None) -> None:
    deadline = own.deadline()
    client = own.client
    _check_brokers(own, deadline)
    own.settle_timeout(deadline)
    own.progress.prepare(deadline)
    _refuse_live_group(own, group, deadline)
    told = describe(client, own.transactional_id, deadline)
    hinted = set(told.partitions) if told else set()
    own.identity = init_producer_id(client, own.transactional_id, own.timeout_ms, deadline)
    reached(OwnerStep.INITIALISED, own.transactional_id)
    own.checked = set()
    own.checked_groups = set()
    settled = read_progress(own, deadline)
    while True:
        _see_markers(own, settled, hinted, outputs)
        if not settled.open:
            break
        # the newest committed record may be one that was open a moment ago: read it again, now that nothing is
        settled = read_progress(own, own.deadline())
    own.newest = settled.newest


def _check_brokers(own: Ownership, deadline: Deadline) -> None:
    """Refuse a cluster that cannot share transactions: each broker is asked, since in a rolling upgrade some are older than others.

    One that cannot be reached leads nothing now; in an upgrade it comes back newer, not older.
    """
    own.client.versions(deadline)  # repeated until any of them answers
    for node in own.client.brokers(deadline):
        with suppress(Retriable):
            own.client.connect(node, deadline).versions.check_shared_transactions(accept_late_markers=own.accept_late_markers)


def read_progress(own: Ownership, deadline: Deadline) -> Settled:
    """Claim, read everything below the claim, and refuse to go on where another owner shows."""
    claim = own.progress.claim()
    reached(OwnerStep.CLAIMED, own.transactional_id)
    settled = own.progress.read(claim, deadline)
    reached(OwnerStep.PROGRESS_READ, own.transactional_id)
    for record in settled.records:
        if record.producer_id == own.identity.producer_id and record.epoch >= own.identity.epoch:
            raise Fenced(
                f"progress of {own.transactional_id!r} was written at epoch {record.epoch}, and this owner has epoch {own.identity.epoch}:"
                " another owner is alive. This one has written nothing. Run one query with this prefix, not two."
            )
    refuse_moved(settled, own.transactional_id)
    return settled


def _see_markers(own: Ownership, settled: Settled, hinted: Collection[TopicPartition], outputs: Collection[str]) -> None:
    records = [*settled.open, *([settled.newest] if settled.newest else [])]
    named = {(topic, index) for record in records for topic, parts in record.progress.wrote.items() for index in parts}
    wanted = {own.progress.partition, *hinted, *named}
    names = ({topic for topic, _ in wanted} | set(outputs)) - {OFFSETS_TOPIC}
    partitions = {(name, index) for name, topic in own.client.existing(names, own.deadline()).items() for index in topic.partitions}
    if own.progress.name in names:
        # the other prefixes' partitions of the progress topic are no business of ours
        partitions = {p for p in partitions if p[0] != own.progress.name or p == own.progress.partition}
    former = {record.producer_id for record in records}
    others = wait_seen(own.client, partitions, own.identity, former, last_offsets={}, deadline=own.deadline())
    own.checked |= partitions
    reached(OwnerStep.MARKERS_CHECKED, own.transactional_id)
    for hung in hanging({p: opened for p, opened in others.items() if p[0] in outputs}, own.longest_ms, time.time() * 1000):
        log.warning("%s", hung)


def _refuse_live_group(own: Ownership, group: str | None, deadline: Deadline) -> None:
    members = live_members(own.client, group, deadline) if group else []
    if members:
        raise ConfigError(
            f"group {group!r} has live members ({', '.join(members[:3])}): it is reserved for this query, and their commits would be overwritten."
            " Nothing was written. Stop them, or give the query another kafka.group.id.",
            tag="GROUP_IN_USE",
        )


def see_group(own: Ownership, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """The group's offsets, once no transaction is pending on them. Raises :class:`AbortAndRetry` if one stays."""
    try:
        found = committed(own.client, group, partitions, require_stable=True, deadline=own.deadline())
    except Retriable as error:
        raise AbortAndRetry(
            f"offsets of group {group!r} are held by a transaction that has not ended: {briefly(error.message)}"
            " Nothing new was written. If no other program commits to this group, run again.",
            tag="OFFSETS_PENDING",
        ) from None
    own.checked_groups.update((group, partition) for partition in partitions)
    return found


def group_view(progress: Progress, client: Client) -> dict[TopicPartition, int]:
    """What the group should say by the progress: of several sources that read one partition, the lowest (DESIGN rule 5).

    Partitions that the cluster has lost, or has anew under the same name, are left out: the group is a view, and of these there is nothing to see.
    """
    offsets: dict[TopicPartition, int] = {}
    sources = [source for source in progress.sources if isinstance(source, KafkaSource) and source.cluster == client.cluster]
    known = _existing(client, {topic for source in sources for topic in source.topics})
    for topic, at in (row for source in sources for row in source.topics.items()):
        if topic in known and id_text(known[topic].id) == at.id:
            for index in at.end.keys() & known[topic].partitions.keys():
                offsets[topic, index] = min(at.end[index], offsets.get((topic, index), at.end[index]))
    return offsets


def _existing(client: Client, names: Collection[str]) -> Mapping[str, Topic]:
    try:
        return client.topics(names)
    except ConfigError as missing:
        if missing.tag != "UNKNOWN_TOPIC":
            raise
        return client.existing(names)
