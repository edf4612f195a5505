"""One transaction: what is added, who may write, what came back, and the order in which it ends (PROTOCOL 3)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

import pyarrow as pa

from semel.errors import AbortAndRetry, ConfigError, DataLoss, Fenced, Retriable, SemelError
from semel.steps import OwnerStep, reached
from semel.transaction import end_txn, validation
from semel.transaction.data_loss import check_rows_present, check_topics_unchanged
from semel.transaction.enlisted import Enlisted
from semel.transaction.group_offsets import union
from semel.transaction.local_writer import LocalWriter
from semel.transaction.markers.wait import EndedTransaction
from semel.transaction.output_topics import describe_output_topics
from semel.transaction.ownership import Ownership, synchronized
from semel.transaction.partitions import TransactionPartitions
from semel.transaction.positions import Positions
from semel.transaction.progress.record import Progress
from semel.transaction.states import Event, State
from semel.transaction.ticket import GroupMetadata, Receipt, Ticket, Tickets, TicketTopic, Written
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.transactions import Identity, commit_offsets
from semel.wire.error_codes import name
from semel.wire.metadata import TopicPartition

__all__ = ["Transaction"]

#: What was seen of the rows so long before the commit is looked at again: groups may have been waited for in between.
_LOOK_AGAIN_S = 1.0


class Transaction:
    """One transaction. As a context manager it commits at the end, and aborts on an exception."""

    def __init__(
        self,
        own: Ownership,
        positions: Positions,
        *,
        on_expired: Callable[[], None],
        on_end: Callable[[EndedTransaction], None],
    ) -> None:
        self._own, self._positions = own, positions
        self._ended = on_end
        self._partitions = TransactionPartitions(own, positions.healer(), on_expired)
        self._topics: dict[str, TicketTopic] = {}
        self._tickets = Tickets()
        self._writer = LocalWriter(
            own.client, self._tickets, identity=lambda: own.identity, add=self._add, first=own.turn
        )
        self._offsets: dict[GroupMetadata, dict[TopicPartition, int]] = {}
        self._sent_offsets: dict[str, Mapping[TopicPartition, int]] = {}
        self._enlisted = Enlisted(own)
        self._looked = 0.0
        self._done = self._deciding = False
        own.begin()
        reached(OwnerStep.BEGUN, own.transactional_id)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if self._done:
            return
        if error is None:
            self.commit()
        else:
            self._abort_after(error)

    @property
    def open(self) -> bool:
        """True until it has ended."""
        return not self._done and self._own.states.now is State.OPEN

    @property
    def age_ms(self) -> float:
        """The age of this transaction, in milliseconds."""
        return self._own.age_ms

    @synchronized
    def tickets(
        self,
        shares: Sequence[Iterable[TopicPartition]],
        topics: Mapping[str, TicketTopic] | None = None,
        *,
        one_writer: bool = False,
    ) -> list[Ticket]:
        """Return one ticket for each share of partitions. One request adds all partitions, before any row. With
        ``one_writer``, the brokers add each partition with its first rows (KIP-890), and only those get a marker.
        Several writers at once would wait for each other: the coordinator adds for one request at a time.

        ``topics`` are those that the shares were made from; the others are read now. The first known facts about a
        topic hold to the end. A topic that was created again since is refused by its id when rows are sent.

        Raises :class:`ConfigError` for a missing partition, or if two tickets would name one partition, also after the
        first ticket is back (DESIGN rule 1). A second writer would begin at sequence 0 again, and the broker answers OK
        to that and keeps the first rows.

        Raises :class:`AbortAndRetry` if the transaction was aborted or a partition stays away, :class:`Fenced` if
        another owner is there, :class:`~semel.errors.DataLoss` for a lost marker, and :class:`Retriable` if brokers
        stay away.
        """
        self._require_open()
        wanted = [tuple(share) for share in shares]
        validation.check_partitions(partition for share in wanted for partition in share)
        wanted = [tuple(sorted(share)) for share in wanted]
        self._tickets.check_no_overlap(wanted)
        self._positions.check_outputs({topic for share in wanted for topic, _ in share})
        new = {topic for share in wanted for topic, _ in share} - self._topics.keys()
        facts = topics or {}
        self._topics.update({topic: facts[topic] for topic in new & facts.keys()})
        self._topics.update(describe_output_topics(self._own.client, new - facts.keys(), self._own.deadline()))
        partitions = {partition for share in wanted for partition in share}
        validation.check_ticket_partitions(partitions, self._topics)
        self._add(set() if one_writer else partitions, by_writer=partitions if one_writer else ())
        return [self._tickets.issue(self._own.identity, share, self._topics) for share in wanted]

    @synchronized
    def send(self, topic: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Write rows from this process, and wait until they are acknowledged. Columns as for :meth:`Participant.send`.

        Only the partitions that rows go to are added to the transaction, and get its marker. No ticket can name another
        partition of the topic.

        Raises what :meth:`tickets` and :meth:`Participant.send` raise. After refused rows the transaction cannot be
        committed any more. At an :class:`AbortAndRetry` it is aborted already. If that abort failed, :class:`Fenced`,
        or :class:`Retriable` tagged OUTCOME_UNKNOWN, comes instead. After any other error, the end of the ``with``
        block aborts it.
        """
        self.write({topic: rows})

    @synchronized
    def write(
        self,
        rows: Mapping[str, pa.Table | pa.RecordBatch],
        topics: Mapping[str, TicketTopic] | None = None,
        *,
        soon: Collection[TopicPartition] = (),
        wait: bool = True,
        more: bool = False,
    ) -> None:
        """Write the rows of several topics as :meth:`send` does. The commit waits for them if this does not ``wait``.

        ``topics`` are facts that are known; those of other topics are read now. Partitions that rows go to ``soon`` are
        added in the same request. With ``more``, rows that do not fill a request wait for those of the next call. If a
        topic is missing, nothing of the call is sent, and the transaction may be committed without it.
        """
        self._require_open()
        new = {topic for topic in rows if topic not in self._writer}
        if new:
            self._positions.check_outputs(new)
            facts = {topic: topics[topic] for topic in new & topics.keys()} if topics else {}
            self._topics.update(facts)
            self._topics.update(describe_output_topics(self._own.client, new - facts.keys(), self._own.deadline()))
            every = [(topic, index) for topic in new for index in range(self._topics[topic].partitions)]
            self._tickets.check_no_overlap([every])
        try:
            self._writer.send(rows, self._topics, soon=soon, wait=wait, more=more)
        except AbortAndRetry as error:
            if self._done:  # adding its partitions was refused, and that has aborted it
                raise
            self._abort_refused(error.message, error.tag)

    @synchronized
    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: str | GroupMetadata) -> None:
        """Put the next offsets to read into the transaction: they are committed with its rows, or not at all (KIP-447).

        They are sent at the commit, after everything else. Raises :class:`ConfigError` for a missing partition.
        """
        self._require_open()
        validation.check_offsets(offsets)
        validation.check_offset_partitions(offsets, self._own.client.topics({topic for topic, _ in offsets}))
        metadata = group if isinstance(group, GroupMetadata) else GroupMetadata(group)
        self._offsets.setdefault(metadata, {}).update(offsets)

    @synchronized
    def accept(self, receipts: Iterable[Receipt]) -> None:
        """Take receipts back.

        Raises :class:`ConfigError` for one of another transaction, or a second one of a ticket.
        """
        for receipt in receipts:
            self._tickets.accept(receipt, self._own.identity)

    @synchronized
    def withdraw(self, tickets: Iterable[Ticket]) -> None:
        """Declare that no participant holds these tickets any more, and none has written with them. You must have proof
        (DESIGN rule 3).

        Raises :class:`ConfigError` for a ticket of another transaction, and for one that has come back.
        """
        for ticket in tickets:
            self._tickets.withdraw(ticket, self._own.identity)

    @synchronized
    def enlist(self, prepared: Iterable[Prepared]) -> None:
        """Decide for prepared transactions: they are committed if this one is, and aborted if it is aborted.

        Raises what :meth:`Enlisted.add` raises.
        """
        self._require_open()
        self._enlisted.add(prepared)

    @property
    def outstanding(self) -> list[Ticket]:
        """Tickets that have neither come back nor been withdrawn."""
        return self._tickets.outstanding

    @property
    def wrote(self) -> Mapping[TopicPartition, Written]:
        """The written offsets of the accepted receipts."""
        return self._tickets.wrote

    # ---- ending

    @synchronized
    def commit(self, progress: Progress | None = None) -> None:
        """Write the progress record as the last row, then the offsets, then commit.

        Raises :class:`AbortAndRetry` if it was aborted, also because a leader of a written partition stays away. Raises
        :class:`~semel.errors.DataLoss` if acknowledged rows are gone, :class:`~semel.errors.Fenced` if another owner is
        there, and :class:`Retriable` tagged OUTCOME_UNKNOWN if the outcome is unknown. An empty transaction sends
        nothing.
        """
        self._require_open()
        try:
            self._commit_all(progress)
        except BaseException as error:
            if self._own.states.now is State.OPEN:
                self._abort_after(error)
            elif isinstance(error, Fenced) and not self._deciding:
                self._enlisted.give_up()
            self._done = True
            raise

    def _commit_all(self, progress: Progress | None) -> None:
        self.accept(self._writer.receipts())
        reached(OwnerStep.WRITTEN, self._own.transactional_id)
        out = [ticket.number for ticket in self._tickets.outstanding]
        if out:
            raise AbortAndRetry(
                f"tickets {out[:5]} are still out, so a participant could still write. The transaction was aborted:"
                " nothing of it is visible. Accept or withdraw every ticket before you commit, and run the same work"
                " again.",
                tag="TICKETS_OUT",
            )
        if not self._partitions.added and not self._offsets and not self._enlisted.prepared and progress is None:
            self.abort()  # it may have begun all the same: partitions were asked for, and no answer came
            return
        self._add(set())
        groups = union(*({group.id: offsets.keys()} for group, offsets in self._offsets.items()))
        written = self._write_positions(progress, groups)
        self._positions.before_offsets(groups)
        self._commit_offsets()
        if time.monotonic() - self._looked > _LOOK_AGAIN_S:
            self._look_at_rows()
        self._positions.check_written(written, self._partitions.leaders)
        self._enlisted.check(self._own.deadline())
        identity = self._own.identity
        self._done = self._deciding = True
        last = {partition: wrote.last for partition, wrote in {**self._tickets.wrote, **written}.items()}
        committed = False
        try:
            end_txn.commit(self._own)
            committed = True
        finally:
            self._await_markers(identity, last if committed else {}, committed=committed)
        self._positions.committed(identity, written)
        self._enlisted.follow(identity)

    def _look_at_rows(self) -> None:
        self._looked = time.monotonic()
        own, wrote = self._own, self._tickets.wrote
        ids = {name: topic.id for name, topic in self._topics.items()}
        beside = {topic for topic, _ in self._positions.partitions}
        if wrote or beside:
            self._positions.check_topics(check_topics_unchanged(own.client, wrote, ids, beside, own.deadline()))
        if wrote:
            check_rows_present(own.client, own.identity, wrote, self._partitions.leaders, own.deadline())

    @synchronized
    def abort(self) -> None:
        """Abort. Nothing of it becomes visible.

        Raises :class:`Retriable` tagged OUTCOME_UNKNOWN if it turns out to have been committed or no broker answered in
        time, :class:`Fenced` if another owner is there, and :class:`ConfigError` if it has ended before.
        """
        self._require_open()
        self._done = True
        if not self._partitions.asked:  # the coordinator has never heard of it
            self._own.states.move(Event.NOTHING)
            self._enlisted.give_up()
            return
        identity = self._own.identity
        if not end_txn.abort(self._own):
            raise Retriable(
                f"the transaction of {self._own.transactional_id!r} should have been aborted, and was committed before."
                " All of it is visible. Start again: taking over reads its progress.",
                tag="OUTCOME_UNKNOWN",
            )
        self._await_markers(identity, {})

    @synchronized
    def close(self) -> None:
        """Abort it if it is open.

        Raises what :meth:`abort` raises except :class:`Fenced`: the owner that fenced this one has aborted it.
        """
        if self.open:
            with suppress(Fenced):
                self.abort()

    def _await_markers(
        self, identity: Identity, last_offsets: Mapping[TopicPartition, int], *, committed: bool = False
    ) -> None:
        """Have the markers watched. They are due however it ended, unless this owner can begin nothing any more."""
        if self._own.states.now is State.READY:
            if not committed:
                self._enlisted.give_up()
            partitions = self._partitions.due(last_offsets, committed=committed)
            self._ended(EndedTransaction(identity, committed, partitions, last_offsets, self._sent_offsets))

    def _abort_after(self, error: BaseException) -> None:
        """Abort because of ``error``, which is the one to see. What cannot be aborted, the next owner aborts."""
        if self._own.states.now is not State.OPEN:
            return
        try:
            # a participant found it ended: by whom, our own abort tells
            if isinstance(error, AbortAndRetry) and error.tag in end_txn.ENDED:
                self._abort_refused(error.message, error.tag)
            self.abort()
        except SemelError as second:
            if isinstance(second, AbortAndRetry | Fenced) and not isinstance(
                error, DataLoss
            ):  # it explains the first one
                raise second from error
            error.add_note(f"The transaction could not be aborted either: {second}")

    def _require_open(self) -> None:
        """Check that the transaction is open. The state alone does not show it: it may be a later transaction's."""
        self._own.states.move(Event.ADDED)
        if self._done:
            raise ConfigError(
                f"this transaction of {self._own.transactional_id!r} has ended, and another one is open. Nothing was"
                " sent. Use that one.",
                tag="ILLEGAL_STATE",
            )

    def _add(self, partitions: set[TopicPartition], *, by_writer: Collection[TopicPartition] = ()) -> None:
        self._require_open()
        wanted = (partitions | self._positions.partitions) - self._partitions.added
        if not wanted and not by_writer:
            return
        try:
            code = self._partitions.add(wanted, by_writer=by_writer)
        except (ConfigError, Retriable):
            self._positions.check_kept()
            raise
        if code:
            self._abort_refused(f"AddPartitionsToTxn answered {name(code)}.", name(code))
        reached(OwnerStep.PARTITIONS_ADDED, self._own.transactional_id)

    def _write_positions(
        self, progress: Progress | None, groups: Mapping[str, Collection[TopicPartition]]
    ) -> Mapping[TopicPartition, Written]:
        try:
            return self._positions.write(
                progress, self._tickets.wrote, groups, self._look_at_rows, self._enlisted.prepared
            )
        except AbortAndRetry as error:
            self._abort_refused(error.message, error.tag)

    def _commit_offsets(self) -> None:
        for group, offsets in self._offsets.items():
            self._sent_offsets[group.id] = {**self._sent_offsets.get(group.id, {}), **offsets}
            code = self._partitions.unless_expired(partial(self._send_group, group, offsets))
            if code:
                self._abort_refused(f"TxnOffsetCommit of group {group.id!r} answered {name(code)}.", name(code))
        if self._offsets:
            reached(OwnerStep.OFFSETS_ADDED, self._own.transactional_id)

    def _send_group(self, group: GroupMetadata, offsets: Mapping[TopicPartition, int]) -> int:
        own = self._own
        return commit_offsets(own.client, own.identity, group, offsets, own.deadline())

    def _abort_refused(self, text: str, tag: str) -> NoReturn:
        self._done = True
        identity = self._own.identity
        try:
            end_txn.abort_after_refusal(self._own, text, tag)
        finally:
            self._await_markers(identity, {})
