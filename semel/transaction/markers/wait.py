"""Markers: seen on every partition before a transactional id is used again (PROTOCOL 5).

EndTxn and InitProducerId answer before the markers are written, and on 4.3.0 to 4.4.0 a partition that has no leader at
that moment never gets its marker (KAFKA-20734). What is still open then would be settled by the end of the *next*
transaction of the same producer id, maybe the wrong way. So an owner waits until it has seen that nothing of its
producer id is open; what has lost its marker is healed meanwhile (:mod:`semel.transaction.markers.heal`), or it stops
and names the partition.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from semel.errors import AbortAndRetry, DataLoss, Fenced, Retriable, SemelError
from semel.wire.api.describe_transactions import OPEN, OpenTransaction, describe_all, open_transactions
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.error_codes import briefly
from semel.wire.metadata import Leaders, TopicPartition, named
from semel.wire.metadata_cache import newest_leaders

__all__ = [
    "OFFSETS_TOPIC",
    "EndedTransaction",
    "HealCallback",
    "describe_open_rows",
    "hanging_transactions",
    "heal_command",
    "wait_for_markers",
]

#: Before the second look: markers come within milliseconds of the answer to EndTxn, not of retry.backoff.ms.
_FIRST_PAUSE_MS = 2.0

#: Its markers are seen through the group's offsets (OffsetFetch with ``require_stable``), which needs fewer rights.
OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """The rest of an ended transaction: where markers are due, the last rows before them, and the groups' offsets."""

    identity: Identity
    committed: bool
    partitions: frozenset[TopicPartition]
    last_offsets: Mapping[TopicPartition, int]
    offsets: Mapping[str, Mapping[TopicPartition, int]]


class HealCallback(Protocol):
    """The callback for rows that stay open: it checks whether their marker is lost, and writes it, or raises."""

    @property
    def patience_s(self) -> float:
        """The wait before it is called."""

    def __call__(self, lost: Mapping[TopicPartition, OpenTransaction], leaders: Leaders) -> None:
        """Settle these, which their leaders have shown. They are looked at again afterwards."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The result of one round.

    ``settled`` are the partitions where nothing of ours is open, ``ours`` is what is open of ours, ``gone`` where
    nothing is open and our last rows are not there, ``others`` what other producers have open. A partition that is in
    none of the first three has not been spoken for.
    """

    settled: set[TopicPartition]
    ours: dict[TopicPartition, OpenTransaction]
    gone: set[TopicPartition]
    others: dict[TopicPartition, list[OpenTransaction]]


def wait_for_markers(
    client: Client,
    partitions: Collection[TopicPartition],
    identity: Identity,
    former: Collection[int],
    *,
    last_offsets: Mapping[TopicPartition, int],
    deadline: Deadline,
    heal: HealCallback,
) -> dict[TopicPartition, list[OpenTransaction]]:
    """Wait until nothing of ``identity``'s producer id or of the ``former`` ones is open on any of ``partitions``;
    ``heal`` what stays so.

    ``last_offsets`` are the last rows of the transaction that was ended, where they are known: a last stable offset
    beyond them is proof enough. Returns what other producers have open, where that was looked at. Raises
    :class:`Fenced` for rows that only another living owner can have written, :class:`AbortAndRetry` if a partition
    stays away, :class:`DataLoss` naming the partitions whose marker does not come or whose rows are gone, and what
    ``heal`` raises.
    """
    producer_ids = {identity.producer_id, *former}
    others: dict[TopicPartition, list[OpenTransaction]] = {}
    left = set(partitions)
    pace = Deadline(
        deadline.remaining * 1000, backoff_ms=_FIRST_PAUSE_MS, backoff_max_ms=client.config.retry_backoff_max_ms
    )
    look, silence = _Look(set(), {}, set(), {}), None
    began = time.monotonic()
    while left:
        # the last round has its time too: what it finds is said, and not that the time was up in the middle of it
        once = client.deadline(max(client.config.request_timeout_ms, 1_000))
        try:
            leaders = newest_leaders(client, left, once)
            look, silence = _ask_leaders(client, leaders, producer_ids, last_offsets, once), None
        except Retriable as error:  # a round without an answer does not end the wait, and proves nothing
            look, silence = _Look(set(), {}, look.gone, {}), error
        _check_no_rival(look.ours, identity)
        others.update(look.others)
        left -= look.settled
        if left and deadline.passed:
            raise _given_up(left, look, last_offsets, silence, deadline) from silence
        if look.ours and time.monotonic() - began >= heal.patience_s:
            heal(look.ours, leaders)
        if left:
            pace.warn(f"the last transaction of {identity.transactional_id!r} to end on {named(left)}")
            pace.pause()
    return others


def _ask_leaders(
    client: Client,
    leaders: Leaders,
    producer_ids: Collection[int],
    last_offsets: Mapping[TopicPartition, int],
    deadline: Deadline,
) -> _Look:
    """Ask only the leader of the highest epoch of each partition: a deposed one that was frozen answers too
    (PROTOCOL 5.1).
    """
    led = {partition for partition, (node, _) in leaders.items() if node >= 0}

    def stable(wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        listed = list_offsets(
            client, dict.fromkeys(wanted, LATEST), read_committed=True, leaders=leaders, deadline=deadline
        )
        return {partition: row.offset for partition, row in listed.items()}

    ended = stable(led & last_offsets.keys())
    # the marker comes after the last row: an end right after the row itself is one of a log that has lost a row
    settled = {partition for partition, offset in ended.items() if offset > last_offsets[partition] + 1}
    # another's open transaction may hold the last stable offset below our rows
    opened = open_transactions(
        client, (led - last_offsets.keys()) | (ended.keys() - settled), deadline, leaders=leaders
    )
    # asked second: a deposed leader answers DescribeProducers with nothing, but refuses this epoch
    confirmed = stable(opened.keys())
    ours = {partition: one for partition in confirmed for one in opened[partition] if one.producer_id in producer_ids}
    others = {
        partition: [one for one in opened[partition] if one.producer_id not in producer_ids]
        for partition in confirmed
        if opened[partition]
    }
    gone = {p for p in confirmed if p in last_offsets and not opened[p] and confirmed[p] <= last_offsets[p] + 1}
    return _Look(settled | (confirmed.keys() - ours.keys() - gone), ours, gone, others)


def hanging_transactions(
    client: Client, others: Mapping[TopicPartition, Collection[OpenTransaction]], older_than_ms: float
) -> list[str]:
    """Return a sentence about each hanging transaction of other producers: it holds readers back (PROTOCOL 5.6).

    ``older_than_ms`` is a moment: newer rows are passed over. Rows mostly carry the time of their source, so
    coordinators are asked too; those that do not answer in time, and ids that the caller may not describe, leave it at
    a suspicion, which the sentence says.
    """
    old = [(at, one) for at, opened in sorted(others.items()) for one in opened if one.last_timestamp < older_than_ms]
    at_work: set[int] = set()
    with suppress(SemelError):  # a warning is not worth a start
        at_work = (
            {description.producer_id for description in describe_all(client, OPEN, {one.producer_id for _, one in old})}
            if old
            else set()
        )
    return [
        f"{topic}-{index} seems to have a hanging transaction (producer id {one.producer_id}): its rows are older than"
        " transaction.max.timeout.ms, and no coordinator reports it. read_committed readers stop at offset"
        f" {one.start_offset}, also for rows of this query. Inspect and end it: semel txn heal {topic} {index}"
        f" --producer-id {one.producer_id}"
        for (topic, index), one in old
        if one.producer_id not in at_work
    ]


def _check_no_rival(open_by_partition: Mapping[TopicPartition, OpenTransaction], identity: Identity) -> None:
    for (topic, index), opened in open_by_partition.items():
        if opened.producer_id == identity.producer_id and opened.epoch >= identity.epoch:
            raise Fenced(
                f"{topic}-{index} holds open rows of transactional id {identity.transactional_id!r} at epoch"
                f" {opened.epoch}, and this owner has epoch {identity.epoch}: another owner is alive. This one has"
                " written nothing since. Run one query with this prefix, not two."
            )


def _given_up(
    left: set[TopicPartition],
    look: _Look,
    last_offsets: Mapping[TopicPartition, int],
    silence: Retriable | None,
    deadline: Deadline,
) -> AbortAndRetry | DataLoss:
    away = left if silence is not None else left - look.ours.keys() - look.gone
    if away:
        seemed = (
            f" Before that, the logs of {named(look.gone)} seemed to end before its rows: look for them."
            if look.gone
            else ""
        )
        why = f" ({briefly(silence.message)})" if silence is not None else ""
        return AbortAndRetry(
            f"no leader of {named(away)} has said within {deadline.timeout_ms:.0f} ms whether the last transaction"
            f" has ended there{why}. Nothing new was written.{seemed} Bring the brokers of these partitions back,"
            " then run again.",
            tag="PARTITION_AWAY",
        )
    if look.gone:
        shown = sorted(look.gone)[:5]
        lost = ", ".join(f"{topic}-{index} up to offset {last_offsets[topic, index]}" for topic, index in shown)
        lost += f" and {len(look.gone) - 5} more" if len(look.gone) > 5 else ""
        return DataLoss(
            f"the brokers lost acknowledged rows of a committed transaction on {lost}. The rest is committed; nothing"
            " new was written. Of an output topic: write these rows again from the source. Of the progress topic: the"
            " next start would run this work again. First set its offsets: `semel progress reset PREFIX --to-offsets"
            " …`.",
            tag="ROWS_GONE",
        )
    rows = "; ".join(describe_open_rows(partition, opened) for partition, opened in sorted(look.ours.items())[:5])
    return DataLoss(
        f"the marker that ends a former transaction did not come within {deadline.timeout_ms:.0f} ms: {rows}."
        " Its rows stay invisible, and readers are held back there."
        " Nothing new was written, since a new transaction could settle them the wrong way (KAFKA-20734)."
        " `semel txn list` shows whose they are, and `semel txn heal` writes a marker that was lost.",
        tag="MARKER_LOST",
    )


def describe_open_rows(partition: TopicPartition, opened: OpenTransaction) -> str:
    """Open rows, for a message."""
    return (
        f"{partition[0]}-{partition[1]} from offset {opened.start_offset} (producer id {opened.producer_id}, epoch"
        f" {opened.epoch})"
    )


def heal_command(
    partition: TopicPartition, producer_id: int, transactional_id: str, progress_topic: str | None = None
) -> str:
    """Return the operator's command, with all that it needs to find the same progress, also if no broker knows the
    producer id any more.
    """
    kept = f" --progress-topic {shlex.quote(progress_topic)}" if progress_topic is not None else ""
    return (
        f"semel txn heal {partition[0]} {partition[1]} --producer-id {producer_id} --transactional-id"
        f" {shlex.quote(transactional_id)}{kept}"
    )
