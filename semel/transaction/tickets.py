"""The tickets of one transaction: which are out, which came back and with what, which were withdrawn (DESIGN rules 1 and 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from semel.errors import ConfigError
from semel.transaction.ticket import Receipt, Ticket, TicketTopic, Wrote
from semel.wire.metadata import TopicPartition, named
from semel.wire.transactions import Identity

__all__ = ["Tickets"]


class Tickets:
    """What was given out in one transaction, and what has come back of it."""

    def __init__(self) -> None:
        self._issued: list[Ticket] = []
        self._out: set[int] = set()
        self._withdrawn: set[int] = set()
        #: What the accepted receipts say was written.
        self.wrote: dict[TopicPartition, Wrote] = {}

    @property
    def outstanding(self) -> list[Ticket]:
        """Tickets that have neither come back nor been withdrawn."""
        return [self._issued[number] for number in sorted(self._out)]

    def refuse_overlap(self, shares: Sequence[Iterable[TopicPartition]]) -> None:
        """Raise :class:`ConfigError` if two tickets would name one partition, one of those that came back included."""
        seen = {partition for ticket in self._issued if ticket.number not in self._withdrawn for partition in ticket.partitions}
        for partition in (partition for share in shares for partition in share):
            if partition in seen:
                raise ConfigError(
                    f"two tickets would write {partition[0]}-{partition[1]}. Nothing was sent for them. Give each partition to one writer.",
                    tag="OVERLAP",
                )
            seen.add(partition)

    def issue(self, identity: Identity, share: tuple[TopicPartition, ...], topics: Mapping[str, TicketTopic]) -> Ticket:
        """The next ticket, of these partitions."""
        ticket = Ticket(len(self._issued), identity, share, {topic: topics[topic] for topic, _ in share})
        self._issued.append(ticket)
        self._out.add(ticket.number)
        return ticket

    def accept(self, receipt: Receipt, identity: Identity) -> None:
        """Take a receipt back. Raises :class:`ConfigError` for what is none of this transaction, and for a second one of a ticket."""
        if not isinstance(receipt, Receipt):
            raise ConfigError(
                f"{type(receipt).__name__} is no receipt. Nothing was committed. Give what `participant.receipt` returned.", tag="FOREIGN_RECEIPT"
            )
        if receipt.identity != identity or not 0 <= receipt.number < len(self._issued):
            raise ConfigError(
                f"receipt {receipt.number} belongs to another transaction. Nothing was committed. Give it to the transaction of its ticket.",
                tag="FOREIGN_RECEIPT",
            )
        outside = receipt.wrote.keys() - set(self._issued[receipt.number].partitions)
        if outside:
            raise ConfigError(
                f"receipt {receipt.number} says that {named(outside)} were written, which its ticket does not name. Nothing was committed."
                " Hand receipts on as they are.",
                tag="FOREIGN_RECEIPT",
            )
        if receipt.number not in self._out:
            raise ConfigError(
                f"ticket {receipt.number} has been returned before. Nothing was committed. Accept each receipt once.", tag="SECOND_RECEIPT"
            )
        self._out.discard(receipt.number)
        self.wrote.update(receipt.wrote)

    def withdraw(self, ticket: Ticket, identity: Identity) -> None:
        """Note that nobody holds it any more. Raises :class:`ConfigError` for one of another transaction, and for one that has come back."""
        if not isinstance(ticket, Ticket) or ticket.identity != identity or ticket.number not in self._out:
            number = ticket.number if isinstance(ticket, Ticket) else ticket
            raise ConfigError(
                f"ticket {number} is not out in this transaction, so it cannot be withdrawn. Nothing was committed."
                " Withdraw only what is outstanding.",
                tag="FOREIGN_TICKET",
            )
        self._out.discard(ticket.number)
        self._withdrawn.add(ticket.number)
