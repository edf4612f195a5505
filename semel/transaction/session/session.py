"""A session: a member of a consumer group that reads, and writes in transactions with its positions (KIP-447).

::

    with cluster.session("orders-app", group="orders", topics=["in"]) as session:
        for batch in session:
            session.send("out", transform(batch))
            session.commit()

Its position is what the group has committed, and nothing else. So a session never repairs. When the group rebalances,
a commit is refused or a transaction times out, everything uncommitted is aborted, and reading begins again at the
group's offsets. Rows are handed out again then, and are visible once.

Be careful of results that you keep in memory between batches: send what a batch produced before you ask for the next
one. Otherwise it is produced twice when the batch is handed out again.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from semel.errors import AbortAndRetry, ConfigError, Fenced, SemelError
from semel.read.data_loss import check_ranges
from semel.read.ranges import NO_END, Range, id_text
from semel.read.reader import MAX_ROWS
from semel.steps import SessionStep, reached
from semel.transaction.session.expiry import ExpiryWatch
from semel.transaction.session.inputs import RowOrder
from semel.transaction.session.last_known import LastKnown
from semel.transaction.session.listener import AssignmentListener
from semel.transaction.session.polls import PollWatch
from semel.transaction.session.producer import SessionProducer
from semel.transaction.session.reader import ADVICE, RESETS, SessionReader, check_arguments, read_positions
from semel.transaction.ticket import GroupMetadata
from semel.transaction.validation import check_above_0
from semel.wire.client import Client
from semel.wire.consumer_protocol import ASSIGNORS, Assignor, ConsumerProtocol
from semel.wire.group_member import Generation, GroupMember
from semel.wire.metadata import TopicPartition

__all__ = ["Session"]

log = logging.getLogger("semel.transaction")

#: How long to wait between two looks where nothing is assigned to this member.
_SPARE_S = 0.1
#: The longest time between two heartbeats: Kafka's default of heartbeat.interval.ms.
_HEARTBEAT_MS = 3_000
#: What the group answers when it continues without this member.
_NOT_A_MEMBER = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID")


class Session:
    """Iterate over it. One thread uses it; a context manager, which aborts at its end what was not committed."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        group: str,
        topics: Sequence[str],
        group_instance_id: str | None = None,
        auto_offset_reset: str = "earliest",
        session_timeout_ms: int = 45_000,
        max_poll_interval_ms: int = 300_000,
        headers: bool = False,
        max_poll_records: int = MAX_ROWS,
        assignors: Sequence[Assignor] = tuple(ASSIGNORS.values()),
        from_earliest: Collection[str] = (),
        listener: AssignmentListener | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        check_arguments(group, topics, auto_offset_reset, may_grow=listener is not None)
        check_above_0(
            session_timeout_ms=session_timeout_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            max_poll_records=max_poll_records,
        )
        self.group = group
        self._client = client
        self._topics = frozenset(topics)
        self._reset, self._from_earliest = RESETS[auto_offset_reset], frozenset(from_earliest)
        self._headers = headers
        self._order = RowOrder(lambda _: max_poll_records) if listener is None else listener.row_order
        self._transactional_id = f"{name}-{group_instance_id or uuid.uuid4()}"
        self._producer = SessionProducer(client, self._transactional_id)
        self._protocol = ConsumerProtocol(topics, assignors)
        self._member = GroupMember(
            client.config,
            group,
            self._protocol,
            instance=group_instance_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=max_poll_interval_ms,
            heartbeat_ms=max(1, min(_HEARTBEAT_MS, session_timeout_ms // 3)),
            polled=True,
            on_revoked=self._abort_early,
            stopping=stopping,
        )
        self._listener = listener
        self._ready = False
        self._assigned: Generation[frozenset[TopicPartition]] | None = None
        self._reader: SessionReader | None = None
        #: Where the group stands.
        self._stands: dict[TopicPartition, int] = {}
        #: Whether something was handed out or sent since the last commit.
        self._used = False
        self._expiries = ExpiryWatch(self._transactional_id)
        self._polls = PollWatch(self._transactional_id, max_poll_interval_ms)
        self._last_known = LastKnown()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            self.close()
        except SemelError as second:
            if error is None:
                raise
            error.add_note(f"Closing the session did not go well either: {second}")

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that it reads now."""
        return self._assigned.assignment if self._assigned is not None else frozenset()

    @property
    def committed(self) -> Mapping[TopicPartition, int]:
        """The group's offsets, read at the last assignment and committed since."""
        return dict(self._stands)

    @property
    def transactional_id(self) -> str:
        """The id of its transactions: the name, and the instance id or a random part."""
        return self._transactional_id

    def subscribe(self, topics: Collection[str], *, rejoin: bool = True) -> None:
        """Read other topics from the next rebalance on. ``rejoin`` asks for one, which aborts what is not committed."""
        self._topics = frozenset(topics)
        self._protocol.subscribe(topics)
        if rejoin:
            self._member.rejoin()

    def was_read(self, topic: str) -> bool:
        """Return whether this assignment, or else the last one, has committed all rows that were known of a topic."""
        self._last_known.take(self._reader, self._stands)
        return self._last_known.was_read(topic)

    # ---- reading

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            batch = self.poll(1.0)
            if batch is not None:
                yield batch

    def poll(self, timeout: float) -> pa.RecordBatch | None:
        """Return the next rows of the assigned partitions, or None if there are none within ``timeout`` seconds.
        Rebalances happen in here, and may last beyond the timeout.

        Raises :class:`Fenced` if another worker has come with its instance id, :class:`~semel.errors.DataLoss` for rows
        that were deleted before they were read, :class:`~semel.errors.Retriable` if brokers stay away, and
        :class:`ConfigError` for what they refuse.
        """
        end = time.monotonic() + timeout
        self._open()
        self._polls.polled(committed=self._assigned is not None and not self._used)
        while True:
            self._follow()
            batch = self._next()
            if batch is not None:
                self._polls.handed_out(batch.num_rows)
                reached(SessionStep.HANDED_OUT, self._transactional_id)
                return batch
            self._commit_empty()
            if time.monotonic() >= end:
                return None
            if self._assigned is not None and not self._assigned.assignment:
                time.sleep(min(_SPARE_S, timeout))

    def _next(self) -> pa.RecordBatch | None:
        try:
            batch = self._reader.next() if self._reader is not None else None
        except SemelError as error:
            self._give_up(error)
            raise
        self._used |= batch is not None
        return batch

    def _open(self) -> None:
        if not self._ready:
            self._client.topics(self._topics)  # refused where one is not there
            self._producer.take_over()
            self._ready = True

    def _follow(self) -> None:
        """Take part in the group, and read what it assigns now, from where it stands."""
        try:
            now = self._member.poll()
        except BaseException as error:  # what was sent may have been aborted: its offsets must not be committed
            self._give_up(error)
            raise
        if now == self._assigned:
            return
        self._abandon("the group rebalances")
        if now is not None:
            reached(SessionStep.ASSIGNED, self._transactional_id)
            self._begin_reading(now)

    def _begin_reading(self, assigned: Generation[frozenset[TopicPartition]]) -> None:
        self._stands, starts = read_positions(
            self._client, self.group, assigned.assignment, self._reset, self._from_earliest
        )
        topics = self._client.topics(self._topics | {topic for topic, _ in starts})  # the group may know more
        ranges = [
            Range(topic, id_text(topics[topic].id), index, start, NO_END) for (topic, index), start in starts.items()
        ]
        check_ranges(self._client, ranges, fail_on_data_loss=True, advice=ADVICE)
        if self._listener is not None:
            self._listener.assigned(assigned.assignment)
        self._assigned = assigned
        self._expiries.began(starts)
        reached(SessionStep.POSITIONS_READ, self._transactional_id)
        self._reader = SessionReader(self._client, ranges, headers=self._headers, order=self._order)
        if self._reset is RESETS["latest"]:
            self._commit_empty()  # a later start would begin at a later end, and skip the rows between

    # ---- writing

    @property
    def written(self) -> Mapping[TopicPartition, int]:
        """The last offset that the last commit has written to each partition."""
        return self._producer.written

    def send(self, topic: str, rows: pa.Table | pa.RecordBatch, *, wait: bool = True) -> None:
        """Write rows into the transaction. Columns as for :meth:`~semel.transaction.participant.Participant.send`.

        They are acknowledged when it returns; without ``wait``, :meth:`commit` waits for that. Only the partitions that
        rows go to are in the transaction.

        If the transaction is gone (it timed out, or the group has rebalanced), nothing is written. The next
        :meth:`commit` says so, and the rows that these were made from are handed out again. Raises :class:`ConfigError`
        for rows that cannot be written, and what :meth:`commit` raises.
        """
        if self._assigned is None:
            self._check_begun()
            return
        self._used = True
        try:
            self._producer.send(topic, rows, wait=wait)
        except AbortAndRetry as error:
            self._lost(error)
            return
        except SemelError as error:
            self._give_up(error)
            raise
        reached(SessionStep.SENT, topic)

    def commit(self) -> bool:
        """Commit what was sent and the positions after all batches that were handed out, in one transaction.

        Returns True if that is done. False means that nothing of it will ever be visible, and that the rows are handed
        out again, to this worker or to another one. Raises :class:`Fenced` if another worker has come with the instance
        id of this one, :class:`~semel.errors.DataLoss` if acknowledged rows are gone, and
        :class:`~semel.errors.Retriable` tagged OUTCOME_UNKNOWN if its outcome is unknown: open the session again.
        """
        if self._assigned is None:
            self._check_begun()
            self._producer.check_outcome()
            return False
        assigned = self._assigned
        self._polls.check()
        offsets = {p: at for p, at in self._read.items() if self._stands.get(p) != at}
        self._used = False
        if not offsets and not self._producer.open:
            return True
        offsets = offsets or dict(self._read)  # without one, the group would not fence rows that were sent
        # the heartbeat may have lost the membership meanwhile: an offset without a member would not be fenced at all
        if not self._is_still(assigned):
            self._abandon("the group continues without this member")
            return False
        reached(SessionStep.COMMITTING, self._transactional_id)
        try:
            self._producer.commit(
                offsets, GroupMetadata(assigned.group, assigned.number, assigned.member, assigned.instance)
            )
        except AbortAndRetry as error:
            self._lost(error)
            return False
        except BaseException as error:  # an interrupted commit, too: a second one would commit the offsets alone
            self._give_up(error)
            raise
        self._stands.update(offsets)
        self._expiries.began(offsets)
        reached(SessionStep.COMMITTED, self._transactional_id)
        return True

    def abort(self, reason: str) -> None:
        """Abort what was not committed, for a ``reason`` that is logged. Its rows are handed out again."""
        self._abandon(reason)

    def _is_still(self, assigned: Generation[frozenset[TopicPartition]]) -> bool:
        try:
            return self._member.current() == assigned
        except Fenced as error:
            self._give_up(error)
            raise

    def _commit_empty(self) -> None:
        """Commit positions that moved over markers and aborted rows alone: they make no batch, and without this the
        lag would never be 0. With ``latest`` also where a group without offsets begins.
        """
        if self._assigned is not None and not self._used and not self._producer.open and self._read != self._stands:
            self.commit()

    def _check_begun(self) -> None:
        if not self._ready:
            raise ConfigError(
                "the session has handed out nothing yet, so there is nothing to write or to commit. Nothing was sent."
                " Iterate over it first, or use cluster.producer().",
                tag="ILLEGAL_STATE",
            )

    # ---- giving up

    def _abort_early(self) -> None:
        """Abort before others get the partitions, so that they do not wait for this transaction.

        If the brokers do not answer, nothing is lost: what is open is aborted again after the rebalance, or by its
        timeout.
        """
        try:
            self._producer.abort()
        except SemelError as error:
            log.warning("session %r: the abort before a rebalance failed: %s", self._transactional_id, error)

    def _lost(self, error: AbortAndRetry) -> None:
        """Begin again at the group's offsets: the transaction was aborted."""
        self._used = True
        if error.tag == "EXPIRED":
            self._expiries.expired(self._read)
        self._abandon(error.message)
        if error.tag == "FENCED_INSTANCE_ID":
            raise Fenced(
                f"another worker has come with the instance id of this one: {error.message} Nothing of this"
                " transaction is visible. Give each worker an instance id of its own, and stop one of the two.",
                tag=error.tag,
            ) from error
        if error.tag in _NOT_A_MEMBER:
            self._member.join_again()

    def _give_up(self, error: BaseException) -> None:
        """``error`` is the one to see: abort, so that nothing that is committed later holds a part of this."""
        try:
            self._abandon(str(error) or type(error).__name__)
        except SemelError as second:
            error.add_note(f"What was open could not be aborted either: {second}")
            self._forget()

    def _abandon(self, reason: str) -> None:
        """Abort what is open and forget what was read: all of it, never a part."""
        if self._assigned is None:
            return
        if self._used or self._producer.open:
            log.info("session %r aborts what it has not committed: %s", self._transactional_id, reason)
        self._producer.abort()
        if self._reader is not None:
            self._reader.close()
        self._forget()
        if self._listener is not None:
            self._listener.abandoned()
        reached(SessionStep.ABANDONED, self._transactional_id)

    def _forget(self) -> None:
        self._last_known.take(self._reader, self._stands)
        self._assigned = self._reader = None
        self._stands, self._used = {}, False
        self._expiries.forget()

    @property
    def _read(self) -> Mapping[TopicPartition, int]:
        """Behind what was handed out."""
        return self._reader.positions if self._reader is not None else {}

    def close(self) -> None:
        """Abort what was not committed, and leave the group (a static member stays until its session times out)."""
        try:
            if self._reader is not None:
                self._reader.close()
            self._producer.close()
        finally:
            self._forget()
            self._member.close()
