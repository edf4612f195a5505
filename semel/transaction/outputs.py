"""The topics that are written: what a writer must know of them, read once by the owner and carried by the tickets; and whether its rows are there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from semel.errors import ConfigError, DataLoss
from semel.transaction.ticket import Ticket, TicketTopic, Wrote
from semel.wire import topics
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition, named
from semel.wire.offsets import EARLIEST, list_offsets
from semel.wire.transactions import Identity

__all__ = ["look_at", "plain_tickets", "refuse_deleted"]

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


def refuse_deleted(client: Client, wrote: Mapping[TopicPartition, Wrote], written: Mapping[str, TicketTopic], deadline: Deadline) -> None:
    """Look whether rows are still there that were acknowledged, in the topics that were ``written``.

    The broker commits a transaction whose rows retention has deleted, and says nothing (DESIGN rule 12). Raises :class:`DataLoss` if they are gone.
    """
    known = client.existing({topic for topic, _ in wrote}, deadline)
    lost = [(topic, index) for topic, index in wrote if topic not in known or known[topic].id != written[topic].id]
    if not lost:
        starts = list_offsets(client, dict.fromkeys(wrote, EARLIEST), read_committed=False, deadline=deadline)
        lost = [partition for partition in wrote if starts[partition].offset > wrote[partition].first]
    if lost:
        raise DataLoss(
            f"rows of this transaction on {named(lost)} were deleted before it was committed (retention, DeleteRecords, or the topic is not the one"
            " that it was). It is aborted, and nothing of it is visible."
            " Raise the topic's retention above the length of a batch, look whether the rows carry old timestamps, then run it again.",
            tag="ROWS_GONE",
        )


def plain_tickets(shares: Sequence[Iterable[TopicPartition]], known: Mapping[str, TicketTopic]) -> list[Ticket]:
    """Tickets of no transaction: what is written with them is visible at once, and a repeated task writes it again (at-least-once)."""
    wanted = [tuple(sorted(share)) for share in shares]
    nobody = Identity("", -1, -1)
    return [Ticket(number, nobody, share, {topic: known[topic] for topic, _ in share}) for number, share in enumerate(wanted)]
