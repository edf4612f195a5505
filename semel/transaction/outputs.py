"""The topics that are written: what a writer must know of them, read once by the owner and carried by the tickets; and whether its rows are there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from semel.errors import ConfigError, DataLoss, Retriable
from semel.records.encode import SEQUENCES
from semel.transaction.ticket import Ticket, TicketTopic, Wrote
from semel.wire import topics
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import Leaders, TopicPartition, named
from semel.wire.offsets import EARLIEST, Listed, list_offsets
from semel.wire.transactions import Identity, OpenTransaction, describe, open_transactions
from semel.wire.witnesses import newest_leaders

__all__ = ["look_at", "plain_tickets", "refuse_lost", "refuse_recreated"]

#: The broker's default of max.message.bytes.
_DEFAULT_MAX_BYTES = 1_048_588


def look_at(client: Client, names: Collection[str], deadline: Deadline) -> dict[str, TicketTopic]:
    """Id, number of partitions and largest batch of each topic, as they are now. Raises :class:`ConfigError` for one that is not there."""
    found = client.refresh(names, deadline).topics if names else {}
    return {name: TicketTopic(found[name].id, len(found[name].partitions), _max_bytes(client, name, deadline)) for name in names}


def _max_bytes(client: Client, name: str, deadline: Deadline) -> int:
    try:
        told = topics.topic_config(client, name, ["max.message.bytes"], deadline).get("max.message.bytes")
    except ConfigError:  # no right to read it: the broker refuses what is too large, by name
        told = None
    return min(int(told or _DEFAULT_MAX_BYTES), client.config.max_request_size)


def refuse_recreated(client: Client, wrote: Collection[TopicPartition], written: Mapping[str, TicketTopic], deadline: Deadline) -> None:
    """Raise :class:`DataLoss` where a topic is not the one that was ``written``. Its metadata is as of now then."""
    known = client.existing({topic for topic, _ in wrote}, deadline)
    lost = [(topic, index) for topic, index in wrote if topic not in known or known[topic].id != written[topic].id]
    if lost:
        raise _deleted(lost)


def refuse_lost(client: Client, identity: Identity, wrote: Mapping[TopicPartition, Wrote], leaders: Leaders, deadline: Deadline) -> None:
    """Look whether all rows are still there that were acknowledged. ``leaders`` are those from before the first of them was sent.

    The broker commits a transaction whose rows retention has deleted (DESIGN rule 12) or whose log was cut, and says nothing. A log is cut only where
    its leader has changed: the one from before is asked by its epoch, which it refuses when it has another now. Then the new one must know the
    producer as it should be: by the offset at which its transaction begins and the last sequence that it has.

    Raises :class:`DataLoss` if rows are gone, :class:`Retriable` where no leader says so in time. Nothing is said of a transaction that has ended
    already: its commit will find that out.
    """
    before = {partition: leaders[partition] for partition in wrote if leaders.get(partition, (-1, -1))[0] >= 0}
    starts = list_offsets(client, dict.fromkeys(before, EARLIEST), read_committed=False, leaders=before, deadline=deadline)
    _refuse_deleted(wrote, starts)
    left = wrote.keys() - starts.keys()
    while left:
        now = {partition: leader for partition, leader in newest_leaders(client, left, deadline).items() if leader[0] >= 0}
        told = open_transactions(client, now, deadline, leaders=now)
        # asked second: a deposed leader says what it knew, but refuses this epoch
        starts = list_offsets(client, dict.fromkeys(told, EARLIEST), read_committed=False, leaders=now, deadline=deadline)
        _refuse_deleted(wrote, starts)
        cut = {partition for partition in starts if not _whole(told[partition], identity, wrote[partition])}
        if cut and _under_way(client, identity, deadline):
            raise DataLoss(
                f"rows of this transaction on {named(cut)} were acknowledged and are not there any more: the log was cut when its leader changed"
                " (unclean election, or a broker that lost what it had not written to its disk yet). The transaction is aborted, and nothing of it"
                " is visible. What else was lost there is for you to find out; then run it again.",
                tag="ROWS_GONE",
            )
        left -= starts.keys()
        if left and deadline.passed:
            raise Retriable(
                f"no leader of {named(left)} has said within {deadline.timeout_ms:.0f} ms whether the rows of this transaction are there. It is"
                " aborted, and nothing of it is visible. Bring the brokers of these partitions back, then run it again.",
                tag="PARTITION_AWAY",
            )
        if left:
            deadline.pause()


def _refuse_deleted(wrote: Mapping[TopicPartition, Wrote], starts: Mapping[TopicPartition, Listed]) -> None:
    lost = [partition for partition, start in starts.items() if start.offset > wrote[partition].first]
    if lost:
        raise _deleted(lost)


def _deleted(lost: Collection[TopicPartition]) -> DataLoss:
    return DataLoss(
        f"rows of this transaction on {named(lost)} were deleted before it was committed (retention, DeleteRecords, or the topic is not the one"
        " that it was). It is aborted, and nothing of it is visible."
        " Raise the topic's retention above the length of a batch, look whether the rows carry old timestamps, then run it again.",
        tag="ROWS_GONE",
    )


def _whole(opened: Collection[OpenTransaction], identity: Identity, wrote: Wrote) -> bool:
    expected = (identity.producer_id, identity.epoch, wrote.first, (wrote.records - 1) % SEQUENCES)
    return any((one.producer_id, one.epoch, one.start_offset, one.last_sequence) == expected for one in opened)


def _under_way(client: Client, identity: Identity, deadline: Deadline) -> bool:
    """Whether the coordinator still has it open, asked last: rows of a transaction that has ended are not open anywhere."""
    told = describe(client, identity.transactional_id, deadline)
    return told is not None and (told.state, told.producer_id, told.epoch) == ("Ongoing", identity.producer_id, identity.epoch)


def plain_tickets(shares: Sequence[Iterable[TopicPartition]], known: Mapping[str, TicketTopic]) -> list[Ticket]:
    """Tickets of no transaction: what is written with them is visible at once, and a repeated task writes it again (at-least-once)."""
    wanted = [tuple(sorted(share)) for share in shares]
    nobody = Identity("", -1, -1)
    return [Ticket(number, nobody, share, {topic: known[topic] for topic, _ in share}) for number, share in enumerate(wanted)]
