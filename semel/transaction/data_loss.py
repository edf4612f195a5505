"""The check that a transaction's rows are still there, before its commit (DESIGN rule 12).

The broker commits a transaction whose rows retention has deleted or whose log was cut, and says nothing. A log is cut
only where its leader changes, so who led before the first row is remembered. One that still leads, in the same epoch,
is asked for its first offset and no more. Another one must know the transaction as it should be: the offset at which it
begins, and the last sequence that was acknowledged, whatever others have written since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from semel.errors import AbortAndRetry, DataLoss, Retriable
from semel.read.ranges import parse_id
from semel.records.encode import SEQUENCES
from semel.transaction.ticket import Written
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.describe_transactions import OpenTransaction, describe, describe_ids, open_transactions
from semel.wire.api.offsets import EARLIEST, list_offsets
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.error_codes import briefly
from semel.wire.metadata import Leaders, Topic, TopicPartition, named
from semel.wire.metadata_cache import newest_leaders

__all__ = ["ABORTED", "check_prepared_rows", "check_rows_present", "check_topics_unchanged", "not_open", "still_open"]

#: What becomes of the transaction of an owner that finds its rows gone.
ABORTED = "It is aborted, and nothing of it is visible."


def check_topics_unchanged(
    client: Client,
    wrote: Collection[TopicPartition],
    ids: Mapping[str, UUID],
    beside: Collection[str],
    deadline: Deadline,
    meaning: str = ABORTED,
) -> dict[str, Topic]:
    """Raise :class:`DataLoss` where a topic has not the id that it had when it was written. ``meaning`` is what becomes
    of the transaction then, for the message.

    Returns what there is of these, and of those ``beside``.
    """
    topics = client.existing({topic for topic, _ in wrote}.union(beside), deadline)
    lost = [(topic, index) for topic, index in wrote if topic not in topics or topics[topic].id != ids[topic]]
    if lost:
        raise _deleted(lost, meaning)
    return topics


def check_rows_present(
    client: Client,
    identity: Identity,
    wrote: Mapping[TopicPartition, Written],
    leaders: Leaders,
    deadline: Deadline,
    meaning: str = ABORTED,
) -> None:
    """Raise :class:`DataLoss` if rows are gone that were acknowledged. ``leaders`` are those from before the first of
    them was sent, where they are known. ``meaning`` is what becomes of the transaction then, for the message.

    Raises :class:`AbortAndRetry` where no leader says so in time. Nothing is said of a transaction that has ended
    already: its commit finds that out.
    """
    now = client.leaders(wrote, deadline)
    same = {
        partition: leader
        for partition, leader in leaders.items()
        if partition in wrote and leader[0] >= 0 and now.get(partition) == leader
    }
    left = wrote.keys() - _verified_by_log_start(client, identity, wrote, same, deadline, meaning)
    silence = ""
    while left:
        try:
            left = left - _verified_by_new_leaders(
                client, identity, {partition: wrote[partition] for partition in left}, deadline, meaning
            )
        except Retriable as error:  # too few brokers say who leads, or no coordinator whether it has ended
            silence = f" ({briefly(error.message)})"
        if left and deadline.passed:
            raise AbortAndRetry(
                f"no leader of {named(left)} has said within {deadline.timeout_ms:.0f} ms whether the rows of this"
                f" transaction are there{silence}. {meaning} Bring the brokers of these partitions back, then run it"
                " again.",
                tag="PARTITION_AWAY",
            )
        if left:
            deadline.pause()


def check_prepared_rows(client: Client, parts: Collection[Prepared], deadline: Deadline) -> None:
    """Raise :class:`DataLoss` if rows are gone that were prepared, in one request a leader for all parts.

    Raises :class:`AbortAndRetry` where no leader says so in time. Nothing is said of parts that have ended.
    """
    ids = {topic: parse_id(topic_id) for one in parts for topic, topic_id in one.topics.items()}
    left = {partition for one in parts for partition in one.rows}
    check_topics_unchanged(client, left, ids, (), deadline)
    for _ in deadline.attempts():
        leaders = {p: leader for p, leader in newest_leaders(client, left, deadline).items() if leader[0] >= 0}
        opened = open_transactions(client, leaders, deadline, leaders=leaders)
        # asked second: a deposed leader says what it knew, but refuses this epoch
        starts = list_offsets(
            client, dict.fromkeys(opened, EARLIEST), read_committed=False, leaders=leaders, deadline=deadline
        )
        for one in parts:
            lost = [
                partition
                for partition, (first, count) in one.rows.items()
                if partition in starts
                and (
                    starts[partition].offset > first
                    or not _has_all_rows(opened[partition], one.identity, Written(first, first + count - 1, count, 0))
                )
            ]
            # asked last: what a transaction has left that was aborted may be deleted
            if lost and still_open(client, one.identity, deadline):
                raise _deleted(lost, ABORTED)
        left -= starts.keys()
        if not left:
            return
    raise AbortAndRetry(
        f"no leader of {named(left)} has said within {deadline.timeout_ms:.0f} ms whether the prepared rows are there."
        f" {ABORTED} Bring the brokers of these partitions back, then run it again.",
        tag="PARTITION_AWAY",
    )


def _verified_by_log_start(
    client: Client,
    identity: Identity,
    wrote: Mapping[TopicPartition, Written],
    leaders: Leaders,
    deadline: Deadline,
    meaning: str,
) -> set[TopicPartition]:
    """Return the partitions whose leaders have answered in these very epochs.

    Raises :class:`DataLoss` where their logs begin after the rows.
    """
    starts = list_offsets(
        client, dict.fromkeys(leaders, EARLIEST), read_committed=False, leaders=leaders, deadline=deadline
    )
    lost = [partition for partition, start in starts.items() if start.offset > wrote[partition].first]
    # asked last: what a transaction has left that was aborted may be deleted, as a purge of read rows does
    if lost and still_open(client, identity, deadline):
        raise _deleted(lost, meaning)
    return set(starts)


def _verified_by_new_leaders(
    client: Client, identity: Identity, wrote: Mapping[TopicPartition, Written], deadline: Deadline, meaning: str
) -> set[TopicPartition]:
    """Return the partitions whose new leaders have all of the rows. Raise :class:`DataLoss` if they have not."""
    leaders = {
        partition: leader for partition, leader in newest_leaders(client, wrote, deadline).items() if leader[0] >= 0
    }
    opened = open_transactions(client, leaders, deadline, leaders=leaders)
    # asked second: a deposed leader says what it knew, but refuses this epoch
    shown = {partition: leaders[partition] for partition in opened}
    seen = _verified_by_log_start(client, identity, wrote, shown, deadline, meaning)
    cut = {partition for partition in seen if not _has_all_rows(opened[partition], identity, wrote[partition])}
    # asked last: rows of a transaction that has ended are not open anywhere
    if cut and still_open(client, identity, deadline):
        raise DataLoss(
            f"the brokers lost acknowledged rows of this transaction on {named(cut)}: the log was truncated when its"
            f" leader changed (unclean election, or a broker that lost its disk cache). {meaning} Find out what else"
            " was lost there, then run it again.",
            tag="ROWS_GONE",
        )
    return seen


def _has_all_rows(opened: Collection[OpenTransaction], identity: Identity, wrote: Written) -> bool:
    expected = (identity.producer_id, identity.epoch, wrote.first, (wrote.records - 1) % SEQUENCES)
    return any((one.producer_id, one.epoch, one.start_offset, one.last_sequence) == expected for one in opened)


def still_open(client: Client, identity: Identity, deadline: Deadline) -> bool:
    """Return whether the coordinator still has this very transaction open."""
    now = describe(client, identity.transactional_id, deadline)
    return now is not None and (now.state, now.producer_id, now.epoch) == (
        "Ongoing",
        identity.producer_id,
        identity.epoch,
    )


def not_open(client: Client, identities: Collection[Identity], deadline: Deadline) -> list[Identity]:
    """Return those that the coordinators do not have open any more, in one request a coordinator."""
    now = describe_ids(client, [one.transactional_id for one in identities], deadline)
    open_now = {(d.transactional_id, d.producer_id, d.epoch) for d in now if d.state == "Ongoing"}
    return [one for one in identities if (one.transactional_id, one.producer_id, one.epoch) not in open_now]


def _deleted(lost: Collection[TopicPartition], meaning: str) -> DataLoss:
    return DataLoss(
        f"rows of this transaction on {named(lost)} were deleted before it was committed (retention, DeleteRecords,"
        f" or the topic is not the one that it was). {meaning} Raise the topic's retention above the length of a"
        " batch, look whether the rows carry old timestamps, then run it again.",
        tag="ROWS_GONE",
    )
