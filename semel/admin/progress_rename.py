"""Move of the progress of a prefix to another prefix (``semel progress rename``, PROTOCOL 6).

Both prefixes are taken over, so that no other owner writes under either. One transaction of the new prefix then writes
two records: the progress under the new prefix, and the mark ``moved`` under the old one. A crash before the commit
leaves both as they were. After the commit, a takeover of the old prefix is refused (``PREFIX_MOVED``).
"""

from __future__ import annotations

from typing import NoReturn

from semel.errors import ConfigError
from semel.steps import OwnerStep, reached
from semel.transaction import end_txn
from semel.transaction.data_loss import check_rows_present
from semel.transaction.group_offsets import await_groups
from semel.transaction.markers.heal import MarkerHealer
from semel.transaction.markers.wait import EndedTransaction, wait_for_markers
from semel.transaction.ownership import Ownership
from semel.transaction.partitions import TransactionPartitions
from semel.transaction.progress.record import Progress
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.states import State
from semel.transaction.takeover import take_over
from semel.transaction.ticket import Written
from semel.wire.client import Client
from semel.wire.error_codes import name
from semel.wire.metadata import TopicPartition

__all__ = ["rename"]

#: A rename that is killed in its transaction blocks the old prefix for this long, or until it is run again.
_TIMEOUT_MS = 60_000
_ID_UNKNOWN = 49


def rename(client: Client, old: str, new: str, *, scope: str, progress_topic: str = DEFAULT_TOPIC) -> Progress:
    """Move the progress of ``old`` to ``new``, and return it when readers see it.

    The owners of both prefixes are fenced. Raise :class:`ConfigError` if ``old`` has no progress or was renamed before,
    or if ``new`` has progress. Raise :class:`~semel.errors.Fenced` if another owner has come meanwhile: then nothing
    was changed. The errors of a takeover are raised too.
    """
    if old == new:
        raise ConfigError(f"{old!r} was given twice. Nothing was changed. Give two prefixes.", tag="SAME_PREFIX")
    former = Ownership(client, old, scope=scope, progress_topic=progress_topic)
    own = Ownership(client, new, scope=scope, progress_topic=progress_topic)
    own.timeout_ms = _TIMEOUT_MS
    take_over(own, (), None)
    # an earlier rename may have lost its marker there, and only its own producer id shows how it ended
    _wait(own, {former.progress.partition})
    if own.committed is not None:
        raise ConfigError(
            f"{new!r} has progress already. No progress was changed, but a query that ran under {new!r} was stopped:"
            f" start it again. Give a prefix that is new. Or was {old!r} renamed to {new!r} before? Then use it: that"
            " rename is done.",
            tag="PREFIX_IN_USE",
        )
    take_over(former, (), None)
    if former.committed is None:
        raise ConfigError(
            f"{old!r} has no progress in {progress_topic!r}. No progress was changed, but a query that ran under"
            f" {old!r} or {new!r} was stopped: start it again. Correct the name: `semel progress list` shows all"
            " prefixes.",
            tag="NO_PROGRESS",
        )
    await_groups(former, {})  # no query uses this prefix again: its pending offsets would stay pending
    progress = former.committed.progress
    own.begin()
    reached(OwnerStep.BEGUN, own.transactional_id)
    try:
        written = _write(own, former, progress)
        end_txn.check_still_owner(
            former, f"while it was being renamed to {new!r}. Nothing was changed. Stop its query, then rename again."
        )
    except BaseException:
        if own.states.now is State.OPEN:
            end_txn.abort(own)
        raise
    _commit(own, written)
    return progress


def _write(own: Ownership, former: Ownership, progress: Progress) -> dict[TopicPartition, Written]:
    """Write both records. Records of one partition are one batch: a second batch would need the next sequence."""
    records = {own.progress.partition: {own.progress.key: progress.encode()}}
    moved = Progress(moved=own.transactional_id).encode()
    records.setdefault(former.progress.partition, {})[former.progress.key] = moved

    def refuse(code: int = _ID_UNKNOWN) -> NoReturn:
        end_txn.abort_after_refusal(own, f"AddPartitionsToTxn answered {name(code)}.", name(code))

    partitions = TransactionPartitions(own, MarkerHealer(own), refuse)
    code = partitions.add(records.keys())
    if code:
        refuse(code)
    reached(OwnerStep.PARTITIONS_ADDED, own.transactional_id)
    written: dict[TopicPartition, Written] = {}
    for topic in (former.progress, own.progress):
        if topic.partition in records:
            written |= topic.append(records.pop(topic.partition), own.identity)
    check_rows_present(own.client, own.identity, written, partitions.leaders, own.deadline())
    reached(OwnerStep.PROGRESS_WRITTEN, own.transactional_id)
    return written


def _commit(own: Ownership, written: dict[TopicPartition, Written]) -> None:
    identity = own.identity
    end_txn.commit(own)
    last = {partition: one.last for partition, one in written.items()}
    ended = EndedTransaction(identity, True, frozenset(written), last, {})
    wait_for_markers(
        own.client,
        ended.partitions,
        own.identity,
        {identity.producer_id},
        last_offsets=last,
        deadline=own.deadline(),
        heal=MarkerHealer(own, ended=ended),
    )
    reached(OwnerStep.MARKERS_SEEN, own.transactional_id)


def _wait(own: Ownership, partitions: set[TopicPartition]) -> None:
    """Wait until no transaction of this owner's id is open on these partitions."""
    wait_for_markers(
        own.client,
        partitions,
        own.identity,
        own.previous_producer_ids,
        last_offsets={},
        deadline=own.deadline(),
        heal=MarkerHealer(own),
    )
