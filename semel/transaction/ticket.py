"""What travels between the owner of a transaction and its participants: a ticket there, a receipt back.

Both are small, picklable, and hold no secret. A ticket names the partitions that its holder alone may write (DESIGN rule 1); a receipt says that all
that was written is acknowledged, and where it lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from semel import __version__
from semel.wire.metadata import TopicPartition
from semel.wire.transactions import Identity

__all__ = ["GroupMetadata", "Receipt", "Ticket", "TicketTopic", "Wrote"]


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A consumer group, with its member's generation where offsets are to be fenced by it (KIP-447)."""

    id: str
    generation: int = -1
    member: str = ""
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class TicketTopic:
    """What a writer must know of a topic, as it was when it was looked at. ``partitions`` is how many it has; ``max_bytes`` bounds a batch."""

    id: UUID
    partitions: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to write some partitions in one transaction, once, in one process."""

    number: int
    identity: Identity
    partitions: tuple[TopicPartition, ...]
    topics: Mapping[str, TicketTopic]
    version: str = __version__


@dataclass(frozen=True, slots=True)
class Wrote:
    """First and last offset of what a participant wrote to one partition, how many records and how many bytes."""

    first: int
    last: int
    records: int
    size: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """All that was written with a ticket is acknowledged. ``stage``, ``task`` and ``attempt`` are Spark's; elsewhere -1, -1 and 0."""

    number: int
    identity: Identity
    wrote: Mapping[TopicPartition, Wrote]
    stage: int = -1
    task: int = -1
    attempt: int = 0
