"""The owner of a transactional id. Start reading here.

One transaction (PROTOCOL 3), and the modules that each part is in::

    take_over -> begin -> tickets -> participants write -> accept -> progress, offsets -> commit -> markers
    takeover     transaction         participant           transaction                    ending    markers

Only the owner speaks to the coordinator. It adds all partitions to a transaction before a participant writes. It
commits only when every ticket is back with its receipt or was withdrawn. Its next transaction begins only when the
markers of the last one have been seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence

from semel.errors import AbortAndRetry, Fenced, Retriable, SemelError
from semel.steps import OwnerStep, keep_timing_in_thread, reached
from semel.transaction.end_txn import abort, check_still_owner
from semel.transaction.enlisted import follow
from semel.transaction.group_offsets import await_group_offsets, group_view
from semel.transaction.hand_over import HandOver
from semel.transaction.late_markers import skip_epoch
from semel.transaction.markers.wait import EndedTransaction, wait_for_markers
from semel.transaction.ownership import Ownership, synchronized
from semel.transaction.positions import Positions, ProgressRecords
from semel.transaction.progress.log import ProgressRecord
from semel.transaction.progress.record import Progress
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.states import Event, State
from semel.transaction.transaction import Transaction
from semel.wire.api.transactions import Identity
from semel.wire.client import Client

__all__ = ["Producer"]

_IN_A_TRANSACTION = (State.OPEN, State.COMMITTING, State.ABORTING)


class Producer:
    """Owns a transactional id. Creating it sends nothing; :meth:`take_over` fences the predecessor. Threads take turns.

    ``positions`` is where its positions live. ``timeout_ms`` holds where ``transaction.timeout.ms`` is not set.
    ``on_end`` is called when a transaction has ended, with True if it was committed. It is not called if the outcome is
    unknown. With ``may_have_lost_progress``, the producer continues although the progress of a used id is gone: for a
    caller that is about to set it. One that ``decides_only`` takes over for each batch, and its transactions are short.
    ``clusters`` are others, for whose prepared transactions its own may decide.
    """

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        *,
        scope: str = "producer",
        progress_topic: str = DEFAULT_TOPIC,
        on_end: Callable[[bool], None] | None = None,
        may_have_lost_progress: bool = False,
        positions: Callable[[Ownership], Positions] = ProgressRecords,
        timeout_ms: int = 0,
        decides_only: bool = False,
        clusters: Sequence[Client] = (),
    ) -> None:
        self._on_end = on_end
        self._own = Ownership(
            client,
            transactional_id,
            scope=scope,
            progress_topic=progress_topic,
            decides_only=decides_only,
            others=clusters,
        )
        self._own.may_have_lost_progress = may_have_lost_progress
        self._own.timeout_ms = self._own.timeout_ms or timeout_ms
        self._positions = positions(self._own)
        self._outputs: frozenset[str] = frozenset()
        self._group: str | None = None
        self._transaction: Transaction | None = None
        self._markers: _Background | None = None
        self._committed = False

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            self.close()
        except SemelError as second:
            if error is None or (isinstance(error, AbortAndRetry) and isinstance(second, Fenced)):
                raise  # a retry would fence the new owner of the id
            error.add_note(f"Closing its producer did not go well either: {second}")  # the first one is the one to see

    @property
    def transactional_id(self) -> str:
        """The id that this producer owns."""
        return self._own.transactional_id

    @property
    def timeout_ms(self) -> int:
        """The transaction timeout in milliseconds.

        Before :meth:`take_over` it is 0, unless ``transaction.timeout.ms`` is set.
        """
        return self._own.timeout_ms

    @property
    def age_ms(self) -> float | None:
        """The age of its open transaction in milliseconds, or None. Any thread may ask."""
        return self._own.age_ms if self._own.states.now in _IN_A_TRANSACTION else None

    @property
    def outcome_unknown(self) -> bool:
        """True if its last transaction was to be ended, and no answer has said how it ended."""
        return self._own.states.now in (State.UNKNOWN, State.COMMITTING, State.ABORTING)

    @property
    def next_identities(self) -> set[tuple[int, int]]:
        """Producer id and epoch that the coordinator may have while no other owner has taken the id. There are two: an
        end whose answer was lost may have raised the epoch.
        """
        now = self._own.identity
        return {(now.producer_id, now.epoch), (now.producer_id, now.epoch + 1)}

    @property
    def progress(self) -> Progress | None:
        """The newest progress that is known to be committed under this id, or None."""
        return self._own.committed.progress if self._own.committed else None

    @property
    def decided(self) -> Progress | None:
        """The newest progress of any scope that this owner has read, if it enlists: it has ended all of that."""
        record = self._own.progress_log.enlisting
        return record.progress if record is not None else None

    @synchronized
    def hand_over(self) -> HandOver:
        """Return what makes another process the owner in place of this one, until this one takes over again.

        Raises what :meth:`wait_visible` raises.
        """
        self._wait_visible()
        return HandOver.of(self._own)

    @synchronized
    def receive(self, handed: HandOver) -> None:
        """Be the owner in place of the process that has handed its identity on: instead of :meth:`take_over`."""
        handed.give(self._own)

    @synchronized
    def take_over(self, outputs: Collection[str] = (), group: str | None = None) -> Progress | None:
        """Fence every predecessor, settle what it left, and return its committed progress (PROTOCOL 2).

        ``outputs`` are the topics that will be written, ``group`` is the group whose offsets will be committed.

        Raises :class:`Fenced` if another owner is at work, and :class:`~semel.errors.Unsupported` for a broker that is
        too old. Raises :class:`~semel.errors.ConfigError` for a group with live members, an unfit progress topic, or a
        renamed id. Raises :class:`~semel.errors.DataLoss` for damaged or lost progress and for a lost marker. Raises
        :class:`AbortAndRetry` if a partition or an offset is not settled in time, and :class:`~semel.errors.Retriable`
        if brokers do not answer.
        """
        self._outputs, self._group = frozenset(outputs), group
        self._positions.take_over(self._outputs, group)
        try:
            if group is not None and self.progress is not None:
                self._restore_group(group, self.progress)
        except BaseException:
            # the takeover is incomplete: the next transaction() repeats it
            if self._own.states.now is State.READY:
                self._own.states.move(Event.TAKING_OVER)
            raise
        return self.progress

    def _restore_group(self, group: str, progress: Progress) -> None:
        """Progress is the truth, the group a view of it: where they differ, a transaction of offsets alone writes what
        progress says.
        """
        wanted = group_view(progress, self._own.client)
        try:
            group_offsets = (
                await_group_offsets(
                    self._own, group, wanted.keys(), self._positions.healer(), self._own.previous_producer_ids
                )
                if wanted
                else {}
            )
        except AbortAndRetry:
            # what is pending may be the work of an owner that has come since: an abort with nothing in it is answered
            # by the identity alone
            self._own.begin()
            abort(self._own)
            raise
        if any(group_offsets.get(partition) != offset for partition, offset in wanted.items()):
            with self.transaction() as txn:
                txn.send_offsets(wanted, group)
                txn.commit(progress)

    @synchronized
    def transaction(self) -> Transaction:
        """Begin a new transaction. Wait until the markers of the previous one have been seen. Take the id over first,
        if that has not been done.

        Raises what :meth:`take_over` and :meth:`wait_visible` raise, but after a commit :class:`AbortAndRetry` too: the
        work to run again is the new one. Raises :class:`Fenced`, :class:`~semel.errors.ConfigError` or
        :class:`~semel.errors.Retriable` once the producer is fenced, closed or does not know how its last transaction
        ended, and while one is open. The message says which.
        """
        if self._own.states.now is State.NEW:
            self.take_over(self._outputs, self._group)
        self._wait_visible()
        self._transaction = Transaction(
            self._own, self._positions, on_expired=self._take_over_again, on_end=self._watch
        )
        return self._transaction

    def wait_visible(self) -> None:
        """Wait until the markers of the last transaction have been seen, and raise what that wait raised (PROTOCOL
        3.8).

        Until they are seen, every call waits again, and no transaction begins: its end could settle the last rows the
        wrong way.

        Raises :class:`AbortAndRetry` if a partition stays away or offsets stay pending. Raises
        :class:`~semel.errors.DataLoss` with the partitions whose marker does not come, and :class:`Fenced` if another
        owner is there. After a commit, :class:`Retriable` tagged COMMITTED replaces an error that asks to run the work
        again, because the rows are there.
        """
        try:
            self._wait_visible()
        except (AbortAndRetry, Retriable) as error:
            if not self._committed:
                raise
            raise Retriable(
                f"the last transaction of {self.transactional_id!r} is committed: do not write its rows again."
                " Whether readers see all of them yet is not known. Call wait_visible() again, or begin the next"
                f" transaction, which waits by itself. The cause: {error.message}",
                tag="COMMITTED",
            ) from error

    @synchronized
    def check_owner(self) -> None:
        """Prove that the id is still this producer's, with no transaction open. Raises :class:`Fenced` if it is not.

        The coordinator checks the identity before it answers an empty abort.
        """
        self._wait_visible()
        try:
            check_still_owner(self._own, "since. Nothing was written by this one. Stop one of the two.")
        except Fenced:
            self._own.states.move(Event.FENCED)
            raise

    def _wait_visible(self) -> None:
        self._own.states.check_not_forked()
        follow(self._own)
        waited = self._markers
        if waited is None:
            return
        try:
            following = waited.result()
        except Fenced:
            self._own.states.move(Event.FENCED)
            raise
        if following is not None and self._own.identity == waited.identity:
            with self._own.lock:  # this may be another thread than the owner's
                if self._own.identity == waited.identity:
                    self._own.identity = following
        if self._own.lost_progress and self._committed:
            # it is there now; a record that forgets goes with compaction, and the claim stays
            self._own.progress.claim()
            self._own.lost_progress = False
        if self._markers is waited:  # another thread may have ended another transaction meanwhile
            self._markers = None

    def _watch(self, ended: EndedTransaction) -> None:
        own, now = self._own, self._own.identity

        def wait() -> Identity | None:
            following = None
            heal, former = self._positions.healer(ended), {ended.identity.producer_id}
            wait_for_markers(
                own.client,
                ended.partitions,
                now,
                former,
                last_offsets=ended.last_offsets,
                deadline=own.deadline(),
                heal=heal,
            )
            for group, offsets in ended.offsets.items():
                await_group_offsets(own, group, offsets.keys(), heal, former)
            reached(OwnerStep.MARKERS_SEEN, own.transactional_id)
            if own.skips_epochs:
                following = skip_epoch(own.client, now, own.deadline())
                reached(OwnerStep.EPOCH_SKIPPED, own.transactional_id)
            return following

        self._markers, self._committed = _Background(wait, now), ended.committed
        if self._on_end is not None:
            self._on_end(ended.committed)

    def _take_over_again(self) -> None:
        """Take over the expired id, all of PROTOCOL 2. Resume only if no other owner came between (row 49)."""
        own, before = self._own, self._own.committed
        own.states.move(Event.EXPIRED)
        try:
            self._positions.take_over(self._outputs, self._group)
        except BaseException:
            # what was decided on the progress from before must not be carried into another ownership: only a new start
            # decides again
            if own.states.now is not State.FENCED:
                own.states.move(Event.GIVEN_UP)
            raise
        if _where(own.committed) != _where(before):
            own.states.move(Event.FENCED)
            raise Fenced(
                f"transactional id {self.transactional_id!r} had expired unused, and another owner has used it since."
                " This one has written nothing since then. Stop one of the two."
            )
        own.committed = before

    def close(self) -> None:
        """Abort the open transaction, wait for the last markers, then close. It is closed in any case.

        Raises what :meth:`Transaction.close` and :meth:`wait_visible` raise. Does nothing in a forked child: the
        producer belongs to the parent.
        """
        try:
            if self._own.states.forked:  # it is the parent's, and so is what is open
                return
            if self._transaction is not None:
                self._transaction.close()  # left open it would hold readers back until its timeout
            if self._own.states.now is State.READY and not (self._markers and self._markers.failed):
                self.wait_visible()
        finally:
            self._own.states.move(Event.CLOSED)


def _where(record: ProgressRecord | None) -> tuple[int, int, int] | None:
    return (record.offset, record.producer_id, record.epoch) if record else None


class _Background:
    """Wait in a thread of its own, which never keeps the process alive: the next owner sees the markers for itself.

    The work returns the identity to go on with in place of ``identity``, or None.
    """

    def __init__(self, work: Callable[[], Identity | None], identity: Identity) -> None:
        self._work = work
        self.identity = identity
        self._following: Identity | None = None
        self._error: BaseException | None = None
        self.failed = False
        self._thread = threading.Thread(target=keep_timing_in_thread(self._run), name="semel-markers", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._following = self._work()
        except BaseException as error:  # handed to the caller of result()
            self._error = error

    def result(self) -> Identity | None:
        """Wait, return what the work returned, and raise what it raised. The next call tries again, in the caller's
        thread.
        """
        self._thread.join()
        error, self._error = self._error, None
        if error is not None:
            self.failed = True
            raise error
        return self._work() if self.failed else self._following
