"""The producer of a session: transactions whose positions are a group's offsets, and nothing else (KIP-447).

It keeps no progress. Offsets are in the transaction with the rows. So the next owner of the partitions reads where to
resume, and the group's generation fences the former owner. These steps of PROTOCOL remain: take the id, add, write,
check the rows, commit offsets, end, see the markers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

from semel.errors import AbortAndRetry, Fenced
from semel.steps import OwnerStep, reached
from semel.transaction import end_txn
from semel.transaction.data_loss import check_rows_present, check_topics_unchanged
from semel.transaction.local_writer import LocalWriter
from semel.transaction.markers.wait import OFFSETS_TOPIC, wait_for_markers
from semel.transaction.output_topics import describe_output_topics
from semel.transaction.ownership import SESSION, Ownership
from semel.transaction.partitions import TransactionPartitions
from semel.transaction.states import Event, State
from semel.transaction.takeover import check_brokers
from semel.transaction.ticket import GroupMetadata, Ticket, Tickets, TicketTopic
from semel.wire.api.describe_transactions import OpenTransaction, describe
from semel.wire.api.offsets import committed
from semel.wire.api.transactions import commit_offsets, init_producer_id
from semel.wire.client import Client
from semel.wire.error_codes import name
from semel.wire.metadata import Leaders, TopicPartition

__all__ = ["SessionProducer"]

#: As in Kafka Streams: the next owner of a dead worker's partitions waits this long for its transaction.
_TIMEOUT_MS = 10_000


class SessionProducer:
    """One transactional id, owned by one worker. One thread uses it.

    A transaction begins with the first rows, or with the commit of offsets alone.
    """

    def __init__(self, client: Client, transactional_id: str) -> None:
        self._own = Ownership(client, transactional_id, scope=SESSION)
        self._own.timeout_ms = client.config.transaction_timeout_ms or _TIMEOUT_MS
        self._begin_empty()
        #: Where markers of the last transaction are due, and its last rows.
        self._due: tuple[set[TopicPartition], dict[TopicPartition, int]] | None = None
        self._due_offsets: tuple[str, frozenset[TopicPartition]] | None = None
        #: The last offset that the last commit has written to each partition.
        self.written: Mapping[TopicPartition, int] = {}

    def _begin_empty(self) -> None:
        self._partitions = TransactionPartitions(self._own, _no_healing, self._take_over_again)
        self._topics: dict[str, TicketTopic] = {}
        self._tickets = Tickets()
        self._writer = LocalWriter(
            self._own.client, add=self._add, issue=self._issue, first=max(self._own.identity.epoch, 0)
        )

    @property
    def open(self) -> bool:
        """True if a transaction has begun and not ended."""
        return self._own.states.now is State.OPEN

    def take_over(self) -> None:
        """Take the id: a predecessor with the same one is fenced, and what it left open aborted and seen to have ended.

        Raises :class:`Fenced` if another owner is at work, :class:`~semel.errors.Unsupported` for a broker that is too
        old, :class:`~semel.errors.DataLoss` where a predecessor's marker does not come.
        """
        own = self._own
        own.states.move(Event.TAKING_OVER)
        try:
            self._take_over()
        except Fenced:
            own.states.move(Event.FENCED)
            raise
        own.states.move(Event.TAKEN_OVER)

    def _take_over(self) -> None:
        own, deadline = self._own, self._own.deadline()
        check_brokers(own.client, deadline)
        told = describe(own.client, own.transactional_id, deadline)
        own.settle_timeout(deadline)
        own.identity = init_producer_id(own.client, own.transactional_id, own.timeout_ms, deadline)
        reached(OwnerStep.INITIALISED, own.transactional_id)
        if told is not None:
            own.previous_producer_ids = frozenset({told.producer_id})
            self._see_markers({p for p in told.partitions if p[0] != OFFSETS_TOPIC}, {})
            reached(OwnerStep.MARKERS_CHECKED, own.transactional_id)

    def send(self, topic: str, rows: pa.Table | pa.RecordBatch, *, wait: bool = True) -> None:
        """Write rows; acknowledged when it returns, unless it does not ``wait``. Raises what a participant raises.

        Only the partitions that rows go to are added. After an :class:`AbortAndRetry` the transaction is aborted; after
        anything else :meth:`abort` is due.
        """
        own = self._own
        self._begin()
        try:
            if topic not in self._topics:
                self._topics.update(describe_output_topics(own.client, {topic}, own.deadline()))
            self._writer.send(topic, self._topics[topic], rows, wait=wait)
        except AbortAndRetry as error:
            if self.open:
                self._refused(error.message, error.tag)
            raise

    def commit(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        """Commit what was sent, and the next offsets to read, fenced by the generation and the member of ``group``.

        Raises :class:`AbortAndRetry` where it was aborted instead, tagged with the broker's word for why:
        ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID where the group has gone on without this member.
        :class:`Fenced` if another owner has the id, :class:`~semel.errors.Retriable` tagged OUTCOME_UNKNOWN if no
        answer said how it ended.
        """
        own = self._own
        self._begin()
        for receipt in self._writer.receipts():
            self._tickets.accept(receipt, own.identity)
        wrote = self._tickets.wrote
        if not wrote and not offsets:  # a coordinator has nothing to commit, and would answer as if a rival were here
            self.abort()
            self.written = {}
            return
        reached(OwnerStep.WRITTEN, own.transactional_id)
        if wrote:
            ids = {name: topic.id for name, topic in self._topics.items()}
            check_topics_unchanged(own.client, wrote, ids, (), own.deadline())
            check_rows_present(own.client, own.identity, wrote, self._partitions.leaders, own.deadline())
        if offsets:
            self._due_offsets = (group.id, frozenset(offsets))
            code = self._partitions.unless_expired(
                lambda: commit_offsets(own.client, own.identity, group, offsets, own.deadline())
            )
            if code:
                self._refused(f"TxnOffsetCommit of group {group.id!r} answered {name(code)}.", name(code))
            reached(OwnerStep.OFFSETS_ADDED, own.transactional_id)
        last = {partition: one.last for partition, one in wrote.items()}
        self._due = (set(self._partitions.added), {})  # also where the commit raises
        end_txn.commit(own)
        self._due = (set(self._partitions.added), last)
        self.written = last

    def abort(self) -> None:
        """Abort what is open. Nothing of it becomes visible."""
        if self.open and not self._partitions.asked:  # the coordinator has never heard of it
            self._own.states.move(Event.NOTHING)
        elif self.open:
            self._due = (set(self._partitions.added), {})
            with suppress(AbortAndRetry):
                end_txn.abort(self._own)

    def close(self) -> None:
        """Abort the open transaction, wait for its markers, and close. An owner that was fenced just closes."""
        try:
            if not self._own.states.forked and self._own.states.now in (State.OPEN, State.READY):
                with suppress(Fenced):
                    self.abort()
                    self.see_markers()
        finally:
            self._own.states.move(Event.CLOSED)

    def see_markers(self) -> None:
        """Wait until the markers of the last transaction have been seen. Nothing begins before that (PROTOCOL 3.8)."""
        if self._due is None or self._own.states.now is not State.READY:
            return
        partitions, last = self._due
        self._see_markers(partitions, last)
        if self._due_offsets is not None:
            group, offsets = self._due_offsets
            committed(self._own.client, group, offsets, require_stable=True, deadline=self._own.deadline())
        self._due = self._due_offsets = None
        reached(OwnerStep.MARKERS_SEEN, self._own.transactional_id)

    def _begin(self) -> None:
        if self.open:
            return
        self.see_markers()
        self._begin_empty()
        self._own.begin()
        reached(OwnerStep.BEGUN, self._own.transactional_id)

    def _issue(self, share: tuple[TopicPartition, ...], topics: Mapping[str, TicketTopic]) -> Ticket:
        return self._tickets.issue(self._own.identity, share, topics)

    def _add(self, partitions: set[TopicPartition]) -> None:
        wanted = partitions - self._partitions.added
        if not wanted:
            return
        code = self._partitions.add(wanted)
        if code:
            self._refused(f"AddPartitionsToTxn answered {name(code)}.", name(code))
        reached(OwnerStep.PARTITIONS_ADDED, self._own.transactional_id)

    def _take_over_again(self) -> None:
        """Take over the expired id. An owner that came in between is the group's member now, so that the group refuses
        what this one commits.
        """
        self._own.states.move(Event.EXPIRED)
        self.take_over()

    def _refused(self, text: str, tag: str) -> None:
        self._due = (set(self._partitions.added), {})
        end_txn.abort_after_refusal(self._own, text, tag)

    def _see_markers(self, partitions: set[TopicPartition], last: Mapping[TopicPartition, int]) -> None:
        own = self._own
        wait_for_markers(
            own.client,
            partitions,
            own.identity,
            own.previous_producer_ids,
            last_offsets=last,
            deadline=own.deadline(),
            heal=_no_healing,
        )


class _NoHealing:
    """Looks on until the deadline: a marker that was lost stops the session, which names the partition. Its decision is
    for an operator (``semel txn heal``): no progress tells it.
    """

    patience_s = float("inf")

    def __call__(self, lost: Mapping[TopicPartition, OpenTransaction], leaders: Leaders) -> None:
        """Never called."""


_no_healing = _NoHealing()
