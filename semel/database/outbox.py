"""``Outbox``: units of database rows and Kafka rows, each decided by the database's COMMIT (DESIGN rule 13).

The steps: prepare; lock and check the owner row; write the user's rows and the prepared text; COMMIT, which is the
decision; EndTxn; forget the text. If the process stops in between, the next recovery ends the unit by the state of the
database.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from semel.cluster import Cluster
from semel.database.failures import briefly, database_errors, is_broken, is_refusal
from semel.database.ledger import DatabaseTransaction, Ledger, Newest
from semel.database.takeover import Takeover, older_database_error
from semel.database.turns import Turns
from semel.database.unit import OutboxUnit
from semel.errors import AbortAndRetry, ConfigError, Fenced, Retriable, SemelError
from semel.steps import OutboxStep, reached
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.producer import Mode, TwoPhaseProducer
from semel.transaction.two_phase.recovery import Recovered
from semel.wire.api.transactions import Identity
from semel.wire.deadline import Deadline

__all__ = ["Outbox"]

log = logging.getLogger("semel.database")

#: Time to find out what became of a COMMIT that the database has not answered.
_PATIENCE_MS = 60_000


@dataclass(slots=True)
class _Worker:
    """The ids of the units that run one after the other, and the newest unit that they have decided since the last
    recovery.
    """

    producer: TwoPhaseProducer
    last: Identity | None = None


@dataclass(slots=True)
class _Doubt:
    """Whether it is known how a unit ended, and that nothing of it is left open."""

    over: bool = False


class Outbox:
    """The owner of ``prefix``, in one process. Threads take turns: up to ``workers`` units run at a time.

    ``engine`` is an SQLAlchemy engine of PostgreSQL or SQLite. ``two_phase`` as for
    :meth:`~semel.cluster.Cluster.producer`. Creating it sends nothing. The first unit recovers a predecessor's units,
    and stops that predecessor: its next COMMIT is refused. Raise :class:`ConfigError` for several workers on SQLite,
    which has one writer at a time.
    """

    def __init__(
        self, engine: Engine, cluster: Cluster, prefix: str, *, two_phase: Mode = True, workers: int = 1
    ) -> None:
        self._prefix = prefix
        if not two_phase:
            raise ConfigError(
                f"two_phase={two_phase!r} prepares nothing, and an outbox needs that. Nothing was sent. Give True, or"
                ' "bounded".',
                tag="WRONG_VALUE",
            )
        self._ledger = Ledger(engine, prefix)
        _check_workers(workers, one_writer=self._ledger.one_writer)
        self._workers = [_Worker(cluster.producer(prefix, two_phase=two_phase)) for _ in range(workers)]
        self._turns = Turns(prefix, self._workers)
        #: The number of this owner; None if a recovery is due first.
        self._number: int | None = None
        self._takeover = Takeover(cluster, self._ledger, prefix)
        self._fenced = False
        #: Held for a change of the number.
        self._renumbering = threading.Lock()

    @property
    def prefix(self) -> str:
        """The prefix that it owns."""
        return self._prefix

    @property
    def workers(self) -> int:
        """The most units that run at a time."""
        return len(self._workers)

    def recover(self, *, older_database: bool = False) -> Recovered:
        """End a predecessor's units: commit those that the database has, abort the rest. The first unit does it too.

        Raise :class:`ConfigError` tagged OUTBOX_OLDER_DATABASE if Kafka has committed a unit that the database does not
        have. Say ``older_database`` once its rows are there. Raise :class:`Retriable` if database or brokers do not
        answer. Raise :class:`~semel.errors.DataLoss` for units that were decided and are lost, once all others are
        ended. Read :meth:`pending` then, and :meth:`forget` them.
        """
        self._ledger.check_not_forked()
        with self._turns.all():
            self._fenced = self._takeover.owned = False
            return self._recover(older_database=older_database)

    @contextmanager
    def _taking_turns(self, *, alone: bool) -> Iterator[tuple[_Worker, int]]:
        """Wait for a turn, and yield its worker and the owner's number. A recovery that is due runs before it."""
        while not alone:
            with self._turns.one() as worker:
                self._check_not_fenced()
                number = self._number
                if number is not None:
                    yield worker, number
                    return
            with self._turns.all():
                self._be_owner()
        with self._turns.all() as workers:
            yield workers[0], self._be_owner()

    def _be_owner(self) -> int:
        self._check_not_fenced()
        if self._number is None:
            self._recover()
        assert self._number is not None
        return self._number

    def _check_not_fenced(self) -> None:
        if self._fenced:
            raise Fenced(
                f"another outbox has taken over the prefix {self._prefix!r}. Nothing was written. Stop one of the"
                " two; recover() takes it back."
            )

    def _recover(self, *, older_database: bool = False) -> Recovered:
        self._number = None
        for worker in self._workers:
            worker.last = None
        with self._noting_fenced():
            number, recovered = self._takeover.run(older_database=older_database)
        self._number = number
        return recovered

    def pending(self) -> list[Prepared]:
        """Return the units that are decided and not known to be visible in Kafka."""
        with database_errors(self._prefix):
            self._ledger.ensure_tables()
            return self._ledger.texts()

    def forget(self, prepared: Prepared) -> None:
        """Remove a unit from :meth:`pending`: a lost one, after you have written its Kafka rows again."""
        with database_errors(self._prefix):
            self._ledger.forget([prepared])

    @contextmanager
    def unit(self, *, version: int | None = None) -> Iterator[OutboxUnit]:
        """Begin a unit. When the block ends, its rows are in the database and visible in Kafka, or in neither.

        With ``version`` it is written once: the same number again is skipped (``unit.skipped``), a lower one refused. A
        unit waits for a worker; one with a version runs alone. Raise :class:`AbortAndRetry` if nothing of it was
        written: run it again. Raise :class:`Fenced` if another owner has come. Raise :class:`Retriable` tagged
        COMMIT_PENDING if it is decided and the brokers do not answer: do not write it again. Errors of the block or of
        its rows are raised unchanged, and nothing is written.
        """
        self._ledger.check_not_forked()
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise ConfigError(
                f"the version of a unit is {version!r:.100}, and not a whole number. Nothing was written. Give whole"
                " numbers that rise, or no version.",
                tag="OUTBOX_VERSION",
            )
        alone = version is not None or self.workers == 1
        with self._taking_turns(alone=alone) as (worker, number):
            yield from self._run(version, worker, number, alone=alone)

    def close(self) -> None:
        """Close the producers. The next owner recovers the decided units."""
        for worker in self._workers:
            worker.producer.close()

    def _run(self, version: int | None, worker: _Worker, number: int, *, alone: bool) -> Iterator[OutboxUnit]:
        with self._ledger.work() as work:
            with self._noting_fenced():
                newest = self._ledger.read_owner(work, number)
            if worker.last is not None and not self._ledger.has_unit(work, worker.last):
                raise older_database_error(self._prefix, worker.last)
            self._check_version(version, newest.version)
            reached(OutboxStep.BEGUN, self._prefix)
            skipped = version is not None and version == newest.version
            unit = OutboxUnit(work.session, worker.producer.transaction, newest.progress, skipped=skipped)
            try:
                yield unit
                if skipped:
                    return
                if not alone and unit.progress != newest.progress:
                    raise self._progress_side_by_side()
                work.session.commit()  # flush: the database refuses bad rows before anything is prepared
                prepared = unit._prepare()
            except BaseException as error:
                unit._discard(error)
                raise
            written = Newest(newest.version if version is None else version, unit.progress) if alone else None
            with self._in_doubt() as doubt:
                self._decide(work, worker, number, prepared, written, doubt)
                doubt.over = True
        if prepared is not None:
            with self._in_doubt() as doubt:
                doubt.over = self._finish(worker, prepared)

    @contextmanager
    def _in_doubt(self) -> Iterator[_Doubt]:
        """Let the next unit recover, unless the block clears the doubt: after any interruption here, too."""
        doubt = _Doubt()
        try:
            yield doubt
        finally:
            if not doubt.over:
                with self._renumbering:
                    self._number = None

    def _progress_side_by_side(self) -> ConfigError:
        return ConfigError(
            f"a unit of the outbox {self._prefix!r} has set unit.progress, and {self.workers} workers write side by"
            " side. Nothing of the unit was written. Give the unit a version, or make the outbox with workers=1.",
            tag="ILLEGAL_STATE",
        )

    def _check_version(self, version: int | None, newest: int | None) -> None:
        if version is not None and newest is not None and version < newest:
            raise ConfigError(
                f"unit {version} of the outbox {self._prefix!r} is older than the newest one, {newest}. Nothing was"
                " written. Versions only rise; a batch that begins from 0 again needs a prefix of its own.",
                tag="OUTBOX_VERSION",
            )

    def _decide(
        self,
        work: DatabaseTransaction,
        worker: _Worker,
        number: int,
        prepared: Prepared | None,
        newest: Newest | None,
        doubt: _Doubt,
    ) -> None:
        """Write the decision. Return when it is durable."""
        try:
            with self._noting_fenced():
                self._ledger.lock_owner(work, number, newest)
            if prepared is not None:
                self._ledger.write(work, prepared)
        except (SemelError, SQLAlchemyError) as error:
            work.connection.invalidate() if is_broken(error) else work.connection.rollback()
            doubt.over = self._abort(worker, prepared, error)
            if isinstance(error, SemelError):
                raise
            raise AbortAndRetry(
                f"the database refused the unit ({briefly(error)}). Nothing of it is in the database, and its Kafka"
                " rows are aborted. Run it again.",
                tag="NOT_DECIDED",
            ) from error
        reached(OutboxStep.DECISION_SENT, self._prefix)
        try:
            work.connection.commit()
        except SQLAlchemyError as error:
            if is_refusal(error):
                doubt.over = self._abort(worker, prepared, error)
                raise
            self._settle(worker, prepared, error, doubt)
        reached(OutboxStep.DECIDED, self._prefix)
        worker.last = prepared.identity if prepared is not None else worker.last

    def _settle(self, worker: _Worker, prepared: Prepared | None, lost: SQLAlchemyError, doubt: _Doubt) -> None:
        """Find out what became of a COMMIT without a good answer. Return if the unit is decided.

        The number is raised before the text is read: then that COMMIT cannot happen later. Units that run beside it
        are run again.
        """
        if prepared is None:
            raise lost
        deadline = Deadline(_PATIENCE_MS)
        while True:
            try:
                number = self._ledger.raise_own_number()
                decided = number is not None and self._ledger.has(prepared)
                break
            except DBAPIError as error:
                if deadline.passed:
                    raise Retriable(
                        f"the database has not said whether it has committed the unit ({briefly(error)}). It is not"
                        " known whether it was committed. The next unit, or recover(), finds out. Then write it again"
                        " only with the version that it had.",
                        tag="OUTCOME_UNKNOWN",
                    ) from lost
                deadline.pause()
        if number is None:
            self._fenced = True
            raise Fenced(
                f"another outbox has taken over the prefix {self._prefix!r} while a COMMIT was not answered. It is not"
                " known whether the unit was committed; the new owner has ended its Kafka rows as the database says."
            )
        with self._renumbering:  # another unit may have raised it further, or have asked for a recovery
            self._number = max(self._number, number) if self._number is not None else None
        if not decided:
            doubt.over = self._abort(worker, prepared, lost)
            raise AbortAndRetry(
                f"the database has not committed the unit ({briefly(lost)}). Nothing of it is in the database, and its"
                " Kafka rows are aborted. Run it again.",
                tag="NOT_DECIDED",
            ) from lost

    def _abort(self, worker: _Worker, prepared: Prepared | None, raised: BaseException) -> bool:
        """Abort an undecided unit. Return True if nothing is left open."""
        if prepared is None:
            return True
        try:
            worker.producer.abort(prepared)
        except SemelError as second:  # a successor may have ended it; if not, the next recovery will
            raised.add_note(f"The prepared Kafka transaction was not aborted here: {second}")
            return False
        return True

    def _finish(self, worker: _Worker, prepared: Prepared) -> bool:
        """Commit the Kafka rows after the decision. Return False if its text is left for the next recovery."""
        try:
            worker.producer.commit(prepared)
        except Retriable as error:
            raise Retriable(
                "the unit is decided, and its rows are in the database. Kafka does not show its rows yet"
                f" ({error.message:.200}). Do not write it again: the next unit, or recover(), commits them.",
                tag="COMMIT_PENDING",
            ) from error
        try:
            self._ledger.forget([prepared])
        except DBAPIError as error:  # a second end is harmless: the next recovery forgets the text
            log.warning("the text of an ended unit of %r was not removed: %s", self._prefix, briefly(error))
            return False
        return True

    @contextmanager
    def _noting_fenced(self) -> Iterator[None]:
        try:
            yield
        except Fenced:
            self._fenced = True
            raise


def _check_workers(workers: int, *, one_writer: bool) -> None:
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1 or (one_writer and workers > 1):
        why = "SQLite has one writer at a time" if one_writer else "a whole number of at least 1 is needed"
        raise ConfigError(
            f"an outbox with workers={workers!r:.100} cannot be made: {why}. Nothing was written. Leave it out"
            " for one worker.",
            tag="WRONG_VALUE",
        )
