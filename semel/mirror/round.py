"""A round: one transaction on the target.

Its records are copied by tasks on executors, or a few by the driver's own thread. When it is shown that each ticket was
used once, it writes the records' target offsets, and commits all of it with the positions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.copy import Times
from semel.mirror.group_view import GroupView
from semel.mirror.offsets.segment_topic import SEGMENTS, SegmentTopic
from semel.mirror.offsets.segments import Runs
from semel.mirror.positions import Positions
from semel.mirror.share import Copied
from semel.mirror.stops import names_source
from semel.mirror.topics import MirroredTopic
from semel.steps import MirrorStep, reached
from semel.transaction.output_topics import non_transactional_tickets
from semel.transaction.producer import Producer
from semel.transaction.ticket import Ticket, TicketTopic
from semel.transaction.transaction import Transaction
from semel.wire.metadata import TopicPartition

__all__ = ["Copier", "Done", "Round", "commit"]

log = logging.getLogger("semel.mirror")


class Copier(Protocol):
    """What copies the records of a round: tasks on executors, or the driver."""

    @property
    def targets(self) -> Sequence[Sequence[TopicPartition]]:
        """The target partitions of each ticket. No ticket means that no record is new."""

    def copy(self, tickets: Sequence[Ticket], milliseconds: float) -> Copied:
        """Copy within that time. With tickets of a transaction it is proven that each was used once."""


@dataclass(frozen=True, slots=True)
class Done:
    """The records that a round wrote to each target partition, the bytes of their batches, and their times; and the
    offsets on both sides, by source partition.
    """

    copied: Mapping[TopicPartition, tuple[int, int]]
    times: Mapping[TopicPartition, Times]
    runs: Mapping[TopicPartition, Runs]


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a flow that was taken over. ``partitions`` has the target of each source partition."""

    config: FlowConfig
    id: str
    producer: Producer
    topics: Mapping[str, MirroredTopic]
    partitions: Mapping[TopicPartition, TopicPartition]
    segments: SegmentTopic
    segment_ticket: TicketTopic
    positions: Positions
    group: GroupView

    def run(self, copier: Copier) -> Done:
        """Have it copied, and commit."""
        began = time.monotonic()
        reached(MirrorStep.PLANNED, self.id)
        copied = self._copy_in_transaction(copier) if self.config.exactly_once else self._copy_at_once(copier)
        reached(MirrorStep.COMMITTED, self.id)
        wrote = {
            partition: (one.records, one.size)
            for receipt in copied.receipts
            for partition, one in receipt.wrote.items()
        }
        beats = all(self.config.policy.is_heartbeats_topic(topic) for topic, _ in copied.ends)
        log.log(
            logging.DEBUG if beats else logging.INFO,  # one comes each second
            "%s: round %d: %d records, %d bytes, %d of %d partitions, %.0f ms",
            self.config.title,
            self.positions.round + 1,
            sum(records for records, _ in wrote.values()),
            sum(size for _, size in wrote.values()),
            len(copied.ends),
            len(self.positions.at),
            (time.monotonic() - began) * 1000,
        )
        times = {self.partitions[p]: times for p, times in copied.times.items() if times.count}
        return Done(wrote, times, copied.runs)

    def _copy_in_transaction(self, copier: Copier) -> Copied:
        targets = copier.targets
        with self.producer.transaction() as txn:
            known = {**self._tickets(), SEGMENTS: self.segment_ticket}
            # where no record is new, nothing is written but the positions
            shares = [*targets, [self.segments.partition]] if targets else []
            with names_source(self.partitions):
                tickets = txn.tickets(shares, known)
            copied = copier.copy(tickets[: len(targets)], self.producer.timeout_ms - txn.age_ms)
            reached(MirrorStep.PROVEN, self.id)
            txn.accept(copied.receipts)
            self._commit(txn, copied, tickets[len(targets) :])
        return copied

    def _copy_at_once(self, copier: Copier) -> Copied:
        """At least once: rows are visible as they come, and a round that dies in between writes them again."""
        copied = copier.copy(non_transactional_tickets(copier.targets, self._tickets()), self.producer.timeout_ms)
        with self.producer.transaction() as txn:
            shares = [[self.segments.partition]] if copied.receipts else []
            self._commit(txn, copied, txn.tickets(shares, {SEGMENTS: self.segment_ticket}))
        return copied

    def _commit(self, txn: Transaction, copied: Copied, tickets: Sequence[Ticket]) -> None:
        """Commit with the target offsets, by the ticket for them, and with KIP-656's group where that is due: the next
        source offsets, under the target's topics and partitions.
        """
        moved = self.positions.moved(copied.ends)
        txn.accept([self.segments.write(ticket, moved, copied.runs) for ticket in tickets])
        reached(MirrorStep.SEGMENTS_WRITTEN, self.id)
        commit(txn, moved, self.partitions, self.group)

    def _tickets(self) -> dict[str, TicketTopic]:
        return {mirrored.target: mirrored.ticket for mirrored in self.topics.values()}


def commit(
    txn: Transaction,
    moved: Positions,
    partitions: Mapping[TopicPartition, TopicPartition],
    group: GroupView,
    *,
    now: bool = False,
) -> None:
    """Commit positions, and the group's offsets that are due, or all that have changed until ``now``."""
    offsets = group.due(moved, partitions, now=now)
    with names_source(partitions):
        if offsets:
            txn.send_offsets(offsets, group.id)
        txn.commit(moved.progress())
    group.committed(offsets)
