"""The topics that are written: what a writer must know of them, read once by the owner and carried by the tickets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from semel.errors import ConfigError
from semel.transaction.ticket import Ticket, TicketTopic
from semel.wire.api import topics
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition

__all__ = ["describe_output_topics", "non_transactional_tickets"]

#: The broker's default of max.message.bytes.
_DEFAULT_MAX_BYTES = 1_048_588


def describe_output_topics(client: Client, names: Collection[str], deadline: Deadline) -> dict[str, TicketTopic]:
    """Id, number of partitions and largest batch of each topic, as they are now.

    Raises :class:`ConfigError` for one that is not there.
    """
    found = client.refresh(names, deadline).topics if names else {}
    return {
        name: TicketTopic(found[name].id, len(found[name].partitions), _max_bytes(client, name, deadline))
        for name in names
    }


def _max_bytes(client: Client, name: str, deadline: Deadline) -> int:
    try:
        told = topics.topic_config(client, name, ["max.message.bytes"], deadline).get("max.message.bytes")
    except ConfigError:  # no right to read it: the broker refuses what is too large, by name
        told = None
    return int(told or _DEFAULT_MAX_BYTES)


def non_transactional_tickets(
    shares: Sequence[Iterable[TopicPartition]], known: Mapping[str, TicketTopic]
) -> list[Ticket]:
    """Tickets of no transaction: what is written with them is visible at once, and a repeated task writes it again
    (at-least-once).
    """
    wanted = [tuple(sorted(share)) for share in shares]
    nobody = Identity("", -1, -1)
    return [
        Ticket(number, nobody, share, {topic: known[topic] for topic, _ in share})
        for number, share in enumerate(wanted)
    ]
