"""The messages between the owner of a transaction and its participants: a ticket there, a receipt back.

Both are small, picklable, and hold no secret. A ticket names the partitions that its holder alone may write (DESIGN
rule 1); a receipt says that all that was written is acknowledged, and where it lies.

They travel as JSON (``docs/formats.md``), pickled or not: a pickle of ours names one function of this module and holds
that text, so that a process with another version of semel can tell, before it reads anything that it may not know. The
names ``read_ticket`` and ``read_receipt`` stay for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from semel._version import __version__
from semel.errors import ConfigError, DataLoss
from semel.same_version import check_same_version
from semel.strict_json import is_version, of_kind, read_object, write_object
from semel.wire.api.transactions import Identity
from semel.wire.metadata import TopicPartition, named

__all__ = [
    "NO_TRANSACTION",
    "GroupMetadata",
    "Receipt",
    "Ticket",
    "TicketTopic",
    "Tickets",
    "Written",
    "read_receipt",
    "read_ticket",
]

#: Of the JSON of both.
VERSION = 1
#: The identity of what is written outside of transactions.
NO_TRANSACTION = Identity("", -1, -1)


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A consumer group, with its member's generation where offsets are to be fenced by it (KIP-447)."""

    id: str
    generation: int = -1
    member: str = ""
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class TicketTopic:
    """The facts about a topic that a writer needs, as they were read.

    ``partitions`` is how many it has; ``max_bytes`` bounds a batch.
    """

    id: UUID
    partitions: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to write some partitions in one transaction, once, in one process.

    ``version`` is that of the semel that made it.
    """

    number: int
    identity: Identity
    partitions: tuple[TopicPartition, ...]
    topics: Mapping[str, TicketTopic]
    version: str = __version__

    def encode(self) -> bytes:
        """Encode as JSON."""
        mine: dict[str, list[int]] = {name: [] for name in self.topics}
        for name, index in self.partitions:
            mine[name].append(int(index))
        topics = {
            name: {
                "id": str(topic.id),
                "partitions": int(topic.partitions),
                "max_bytes": int(topic.max_bytes),
                "write": mine[name],
            }
            for name, topic in self.topics.items()
        }
        return _written(
            self.version, {"number": self.number, "identity": _identity_value(self.identity), "topics": topics}
        )

    def __reduce__(self) -> tuple[object, ...]:
        return read_ticket, (self.encode(),)


@dataclass(frozen=True, slots=True)
class Written:
    """First and last offset of what a participant wrote to one partition, how many records and how many bytes."""

    first: int
    last: int
    records: int
    size: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """All that was written with a ticket is acknowledged.

    ``stage``, ``task`` and ``attempt`` are Spark's; elsewhere -1, -1 and 0.
    """

    number: int
    identity: Identity
    wrote: Mapping[TopicPartition, Written]
    stage: int = -1
    task: int = -1
    attempt: int = 0

    def encode(self) -> bytes:
        """Encode as JSON."""
        wrote: dict[str, dict[str, list[int]]] = {}
        for (name, index), w in self.wrote.items():
            wrote.setdefault(name, {})[str(int(index))] = [int(w.first), int(w.last), int(w.records), int(w.size)]
        spark = {"stage": self.stage, "task": self.task, "attempt": self.attempt}
        return _written(
            __version__, {"number": self.number, "identity": _identity_value(self.identity), "wrote": wrote, **spark}
        )

    def __reduce__(self) -> tuple[object, ...]:
        return read_receipt, (self.encode(),)


def read_ticket(text: bytes) -> Ticket:
    """Parse a ticket from its JSON. Raise :class:`ConfigError` if it is none.

    Of a ticket of another version of semel, only that version is read. The participant refuses it, not this function:
    many pools of processes lose an error that is raised while unpickling.
    """
    value, made_by = _read(text, "ticket")
    if made_by != __version__:
        return Ticket(-1, NO_TRANSACTION, (), {}, made_by)
    try:
        _check_form(value)
        rows = {of_kind(str, name): row for name, row in value["topics"].items()}
        topics = {name: _topic(row) for name, row in rows.items()}
        partitions = sorted(
            (name, _index(index, topics[name].partitions)) for name, row in rows.items() for index in row["write"]
        )
        return Ticket(of_kind(int, value["number"]), _identity(value["identity"]), tuple(partitions), topics)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged("ticket", error) from None


def read_receipt(text: bytes) -> Receipt:
    """Parse a receipt from its JSON.

    Raises :class:`ConfigError` for one that another version of semel made, :class:`DataLoss` for what is none.
    """
    value, made_by = _read(text, "receipt")
    check_same_version(made_by, "a receipt")
    try:
        _check_form(value)
        wrote = {
            (topic, int(index)): Written(*_offsets(row))
            for topic, rows in value["wrote"].items()
            for index, row in rows.items()
        }
        numbers = (of_kind(int, value[name]) for name in ("stage", "task", "attempt"))
        return Receipt(of_kind(int, value["number"]), _identity(value["identity"]), wrote, *numbers)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged("receipt", error) from None


def _written(made_by: str, value: dict[str, Any]) -> bytes:
    return write_object({"v": VERSION, "semel": made_by, **value})


def _read(text: bytes, what: str) -> tuple[dict[str, Any], str]:
    try:
        value = read_object(text)
        return value, of_kind(str, value["semel"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(what, error) from None


def _check_form(value: Mapping[str, Any]) -> None:
    if not is_version(value["v"], VERSION):
        raise ValueError(f"its form is version {value['v']!r:.100}, and this semel knows {VERSION}")


def _identity_value(identity: Identity) -> list[object]:
    return [identity.transactional_id, int(identity.producer_id), int(identity.epoch)]


def _identity(value: Any) -> Identity:
    transactional_id, producer_id, epoch = of_kind(list, value)
    return Identity(of_kind(str, transactional_id), of_kind(int, producer_id), of_kind(int, epoch))


def _topic(row: Any) -> TicketTopic:
    return TicketTopic(UUID(of_kind(str, row["id"])), _at_least(1, row["partitions"]), _at_least(1, row["max_bytes"]))


def _at_least(least: int, value: object) -> int:
    number = of_kind(int, value)
    if number < least:
        raise ValueError(f"{number} is below {least}")
    return number


def _index(value: object, partitions: int) -> int:
    index = _at_least(0, value)
    if index >= partitions:
        raise ValueError(f"partition {index} of {partitions}")
    return index


def _offsets(row: Any) -> tuple[int, int, int, int]:
    first, last, records, size = (of_kind(int, number) for number in of_kind(list, row))
    return first, last, records, size


def _damaged(what: str, error: Exception) -> ConfigError | DataLoss:
    reason = str(error)[:200]
    if what == "ticket":
        return ConfigError(
            f"this is no ticket of semel ({reason}). Nothing was written with it. Hand tickets on as they are, pickled"
            " or as their JSON.",
            tag="TICKET_DAMAGED",
        )
    return DataLoss(
        f"this is no receipt of semel ({reason}), so what its ticket wrote is unknown. Nothing of the transaction was"
        " committed: abort it and run the same work again. Hand receipts on as they are, pickled or as their JSON.",
        tag="RECEIPT_DAMAGED",
    )


class Tickets:
    """The tickets of one transaction, and the receipts that have come back."""

    def __init__(self) -> None:
        self._issued: list[Ticket] = []
        self._out: set[int] = set()
        self._withdrawn: set[int] = set()
        #: What the accepted receipts say was written.
        self.wrote: dict[TopicPartition, Written] = {}

    @property
    def outstanding(self) -> list[Ticket]:
        """Tickets that have neither come back nor been withdrawn."""
        return [self._issued[number] for number in sorted(self._out)]

    def check_no_overlap(self, shares: Sequence[Iterable[TopicPartition]]) -> None:
        """Raise :class:`ConfigError` if two tickets would name one partition, one of those that came back included."""
        seen = {
            partition
            for ticket in self._issued
            if ticket.number not in self._withdrawn
            for partition in ticket.partitions
        }
        for partition in (partition for share in shares for partition in share):
            if partition in seen:
                raise ConfigError(
                    f"two tickets would write {partition[0]}-{partition[1]}. Nothing was sent for them. Give each"
                    " partition to one writer.",
                    tag="OVERLAP",
                )
            seen.add(partition)

    def issue(self, identity: Identity, share: tuple[TopicPartition, ...], topics: Mapping[str, TicketTopic]) -> Ticket:
        """Issue the next ticket, for these partitions."""
        ticket = Ticket(len(self._issued), identity, share, {topic: topics[topic] for topic, _ in share})
        self._issued.append(ticket)
        self._out.add(ticket.number)
        return ticket

    def widen(self, ticket: Ticket, share: tuple[TopicPartition, ...], topics: Mapping[str, TicketTopic]) -> Ticket:
        """Return the ticket with more partitions, for its holder in this process."""
        wider = replace(ticket, partitions=(*ticket.partitions, *share), topics={**ticket.topics, **topics})
        self._issued[ticket.number] = wider
        return wider

    def accept(self, receipt: Receipt, identity: Identity) -> None:
        """Take a receipt back.

        Raises :class:`ConfigError` for what is none of this transaction, and for a second one of a ticket.
        """
        if not isinstance(receipt, Receipt):
            raise ConfigError(
                f"{type(receipt).__name__} is no receipt. Nothing was committed. Give what `participant.receipt`"
                " returned.",
                tag="FOREIGN_RECEIPT",
            )
        if receipt.identity != identity or not 0 <= receipt.number < len(self._issued):
            raise ConfigError(
                f"receipt {receipt.number} belongs to another transaction. Nothing was committed. Give it to the"
                " transaction of its ticket.",
                tag="FOREIGN_RECEIPT",
            )
        outside = receipt.wrote.keys() - set(self._issued[receipt.number].partitions)
        if outside:
            raise ConfigError(
                f"receipt {receipt.number} says that {named(outside)} were written, which its ticket does not name."
                " Nothing was committed. Hand receipts on as they are.",
                tag="FOREIGN_RECEIPT",
            )
        if receipt.number not in self._out:
            raise ConfigError(
                f"ticket {receipt.number} has been returned before. Nothing was committed. Accept each receipt once.",
                tag="SECOND_RECEIPT",
            )
        self._out.discard(receipt.number)
        self.wrote.update(receipt.wrote)

    def withdraw(self, ticket: Ticket, identity: Identity) -> None:
        """Note that no participant holds it any more.

        Raises :class:`ConfigError` for one of another transaction, and for one that has come back.
        """
        if not isinstance(ticket, Ticket) or ticket.identity != identity or ticket.number not in self._out:
            number = ticket.number if isinstance(ticket, Ticket) else ticket
            raise ConfigError(
                f"ticket {number} is not out in this transaction, so it cannot be withdrawn. Nothing was committed."
                " Withdraw only what is outstanding.",
                tag="FOREIGN_TICKET",
            )
        self._out.discard(ticket.number)
        self._withdrawn.add(ticket.number)
