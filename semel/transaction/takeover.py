"""Taking over a transactional id: fence, then read, then see markers (PROTOCOL 2).

The order matters:

1. InitProducerId: no other owner can commit after it.
2. A claim, and a read up to it: no committed progress is missed, whichever broker answers.
3. Markers: no transaction of ours begins before everything that a predecessor left open is settled as decided.
4. What the newest progress enlists is committed, and other prepared transactions of its tasks are aborted. They were
   listed before step 1: a frozen owner must not end what its successor has prepared since.
"""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Collection, Sequence

from semel.errors import DataLoss, Fenced, Retriable
from semel.steps import OwnerStep, reached
from semel.transaction.clusters import Clusters, Listed
from semel.transaction.group_offsets import check_no_live_members
from semel.transaction.markers.heal import MarkerHealer
from semel.transaction.markers.wait import OFFSETS_TOPIC, hanging_transactions, wait_for_markers
from semel.transaction.ownership import Ownership
from semel.transaction.progress.log import ProgressLog, check_not_moved
from semel.transaction.progress.record import Progress
from semel.transaction.progress.topic import Presence, ProgressTopic
from semel.transaction.states import Event
from semel.wire.api.describe_transactions import describe
from semel.wire.api.transactions import init_producer_id
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition

__all__ = ["check_brokers", "progress_presence", "read_progress", "take_over"]

log = logging.getLogger("semel.transaction")


def take_over(own: Ownership, outputs: Collection[str], group: str | None) -> None:
    """Make ``own`` the only owner of its id, and learn what was committed under it: ``own.newest``.

    ``outputs`` are the topics that will be written, as far as they are known. Raises :class:`Fenced` if another owner
    is at work, :class:`~semel.errors.Unsupported` for a broker that cannot share transactions, :class:`ConfigError` for
    a group with live members, :class:`DataLoss` where the cluster remembers transactions of the id and its progress is
    gone.
    """
    own.states.move(
        Event.TAKING_OVER
    )  # asked first: a second InitProducerId of a fenced owner would fence its successor
    try:
        _take_over(own, outputs, group)
    except Fenced:
        own.states.move(Event.FENCED)
        raise
    own.states.move(Event.TAKEN_OVER)


def _take_over(own: Ownership, outputs: Collection[str], group: str | None) -> None:
    deadline = own.deadline()
    client = own.client
    own.skips_epochs = check_brokers(client, deadline)
    own.settle_timeout(deadline)
    _find_progress(own, deadline)
    check_no_live_members(own, group, deadline)
    description = describe(client, own.transactional_id, deadline)
    hinted = set(description.partitions) if description else set()
    listed = Clusters(own.client, own.others).open_prepared(own.transactional_id, of_tasks=own.may_enlist)
    before = {description.producer_id} if description else set()
    own.identity = init_producer_id(client, own.transactional_id, own.timeout_ms, deadline)
    reached(OwnerStep.INITIALISED, own.transactional_id)
    own.checked_partitions = set()
    own.checked_groups = set()
    settled = read_progress(own, own.deadline())
    while True:
        _await_markers(own, settled, hinted, outputs, before)
        if not settled.open:
            break
        # the newest committed record may be one that was open a moment ago: read it again, now that nothing is
        settled = read_progress(own, own.deadline())
    _end_enlisted(own, settled, listed)
    own.committed = settled.newest
    own.groups_to_check = settled.groups
    left = (
        "; a transaction that its predecessor had left open was aborted"
        if description is not None and description.state == "Ongoing"
        else ""
    )
    log.info("%r is taken over%s", own.transactional_id, left)


def _end_enlisted(own: Ownership, settled: ProgressLog, listed: Sequence[Listed]) -> None:
    """Commit what the newest progress enlists, and abort what else was open before this owner came."""
    newest, clusters = settled.enlisting, Clusters(own.client, own.others)
    if newest is not None:
        try:
            clusters.commit_all(newest.progress.enlisted)
        except DataLoss as lost:
            if not own.may_have_lost_progress:
                raise _lost_parts(own, newest.progress, lost) from lost
            log.warning("%s", lost.message)
        own.progress.record_ended(newest.producer_id, newest.epoch)
    decided = {one.identity for one in newest.progress.enlisted} if newest is not None else set()
    own.undone = None
    aborted = clusters.abort_undecided(listed, decided)
    if aborted:
        log.info("%d prepared transactions of %r were not decided, and are aborted", aborted, own.transactional_id)


def _lost_parts(own: Ownership, progress: Progress, lost: DataLoss) -> DataLoss:
    rows = sum(count for one in progress.enlisted for _, count in one.rows.values())
    accept = f"then accept it: `semel progress reset {shlex.quote(own.transactional_id)} --to-offsets …`"
    if lost.tag == "PREPARED_LOST":
        return DataLoss(
            f"batch {progress.batch} of {own.transactional_id!r} was decided, and some of its {rows} rows are lost: a"
            " prepared transaction expired (bounded), or another program aborted it. The other rows are committed."
            f" Write the lost ones by another producer, {accept}.",
            tag=lost.tag,
        )
    return DataLoss(
        f"batch {progress.batch} of {own.transactional_id!r} was decided, and it is not known whether all of its {rows}"
        " rows became visible: rows or markers are deleted. Nothing new was written. Look whether readers have had"
        f" them, {accept}.",
        tag=lost.tag,
    )


def check_brokers(client: Client, deadline: Deadline) -> bool:
    """Refuse a cluster that cannot share transactions: each broker is asked, since in a rolling upgrade some are older
    than others. Return True if one takes late markers, or may: :mod:`semel.transaction.late_markers`.

    One that cannot be reached leads nothing now; in an upgrade it comes back newer, not older.
    """
    client.versions(deadline)  # repeated until any of them answers
    takes_late_markers = False
    for node in client.brokers(deadline):
        try:
            versions = client.connect(node, deadline).versions
        except Retriable:
            takes_late_markers = True  # it may be an old one, and may be back in a moment
            continue
        versions.check_shared_transactions()
        takes_late_markers = takes_late_markers or versions.takes_late_markers
    return takes_late_markers


def _find_progress(own: Ownership, deadline: Deadline) -> None:
    """Have the progress topic. Raises :class:`DataLoss` where an id that was used before has lost what it had in it."""
    own.progress.check(deadline)
    used = own.committed is not None
    while True:
        trace = progress_presence(own.client, own.transactional_id, own.progress, deadline, used=used)
        own.lost_progress = trace is Presence.LOST
        if own.lost_progress and not own.may_have_lost_progress:
            raise _lost(own)
        looked_at = own.progress.topic_id
        own.progress.ensure(deadline)
        if own.progress.topic_id == looked_at:
            break
        # it is another topic, maybe created after another owner's commit meanwhile: read again
        used |= trace is not Presence.NEVER_USED
    if trace is Presence.NEVER_USED:
        # before the coordinator knows the id: an id that is known and has left nothing here has lost its progress
        own.progress.claim()


def progress_presence(
    client: Client, transactional_id: str, progress: ProgressTopic, deadline: Deadline, *, used: bool = False
) -> Presence:
    """Return what is left of an id's progress. If nothing is left, it is lost if the coordinator knows the id, or the
    caller has ``used`` it.

    Without this check, committed rows would be written again. It comes before the topic is created and before a claim
    is written, so that a second start is refused as the first was.
    """
    # read the topic before asking the coordinator: an owner that starts in between is then known to it
    trace = progress.presence(deadline)
    if trace is not Presence.NEVER_USED or not (used or describe(client, transactional_id, deadline) is not None):
        return trace
    # that owner has claimed before: two first starts at once have lost nothing
    trace = progress.presence(deadline)
    return Presence.LOST if trace is Presence.NEVER_USED else trace


def _lost(own: Ownership) -> DataLoss:
    reset = (
        f"semel progress reset {shlex.quote(own.transactional_id)} --scope {own.scope} --progress-topic"
        f" {shlex.quote(own.progress.name)}"
    )
    ways = (
        f"(2) Deleted: find its offsets in the output or the checkpoint, and set them: `{reset} --to-offsets …`."
        f" (3) Start over, which writes again: `{reset}`."
        if own.scope == "query"
        else f"(2) Deleted: find out from the output what it has written, then start over: `{reset}`."
    )
    return DataLoss(
        f"the progress of {own.transactional_id!r} (a {own.scope}) is missing from topic {own.progress.name!r}, but it"
        " was used before. Nothing was written: starting without it could write committed rows again. (1) Another"
        f" topic has it: set progressTopic (progress_topic). {ways} Or did another program use this id? Choose another"
        " one.",
        tag="PROGRESS_LOST",
    )


def read_progress(own: Ownership, deadline: Deadline) -> ProgressLog:
    """Claim, read everything below the claim, and stop if another owner shows."""
    claim = own.progress.write_read_barrier() if own.lost_progress else own.progress.claim()
    reached(OwnerStep.CLAIMED, own.transactional_id)
    settled = own.progress.read(claim, deadline)
    reached(OwnerStep.PROGRESS_READ, own.transactional_id)
    for record in settled.everything:
        if record.producer_id == own.identity.producer_id and record.epoch >= own.identity.epoch:
            raise Fenced(
                f"progress of {own.transactional_id!r} was written at epoch {record.epoch}, and this owner has epoch"
                f" {own.identity.epoch}: another owner is alive. This one has written nothing. Run one query with"
                " this prefix, not two."
            )
    check_not_moved(settled, own.transactional_id)
    if not (settled.newest or settled.forgotten or own.lost_progress) and own.progress.was_cut(deadline):
        raise _lost(own)
    own.progress_log = settled
    return settled


def _await_markers(
    own: Ownership,
    settled: ProgressLog,
    hinted: Collection[TopicPartition],
    outputs: Collection[str],
    before: Collection[int],
) -> None:
    records = [*settled.open, *([settled.newest] if settled.newest else [])]
    named = {(topic, index) for record in records for topic, parts in record.progress.wrote.items() for index in parts}
    wanted = {own.progress.partition, *hinted, *named}
    names = ({topic for topic, _ in wanted} | set(outputs)) - {OFFSETS_TOPIC}
    partitions = {
        (name, index)
        for name, topic in own.client.existing(names, own.deadline()).items()
        for index in topic.partitions
    }
    if own.progress.name in names:
        # the other prefixes' partitions of the progress topic are no business of ours, but where the last transaction
        # has written
        partitions = {p for p in partitions if p[0] != own.progress.name or p == own.progress.partition or p in hinted}
    # a record that says where this prefix has moved to was written by that one, whose transactions are not for us to
    # end
    former = {*before, *(record.producer_id for record in settled.everything if not record.progress.moved)}
    waited = former | {record.producer_id for record in settled.open}
    own.previous_producer_ids = frozenset(former)
    heal = MarkerHealer(own)
    others = wait_for_markers(
        own.client, partitions, own.identity, waited, last_offsets={}, deadline=own.deadline(), heal=heal
    )
    own.checked_partitions |= partitions
    reached(OwnerStep.MARKERS_CHECKED, own.transactional_id)
    theirs = {p: opened for p, opened in others.items() if p[0] in outputs}
    for hung in hanging_transactions(own.client, theirs, time.time() * 1000 - own.max_timeout_ms):
        log.warning("%s", hung)
