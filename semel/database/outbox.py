"""``Outbox``: units of database rows and Kafka rows, each decided by the database's COMMIT (DESIGN rule 13).

The steps: prepare; lock and check the owner row; write the user's rows and the prepared text; COMMIT, which is the
decision; EndTxn; forget the text. If the process stops in between, the next recovery ends the unit by the state of the
database.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from semel.cluster import Cluster
from semel.database.ledger import DatabaseTransaction, Ledger, Newest
from semel.database.unit import OutboxUnit
from semel.errors import AbortAndRetry, ConfigError, Fenced, Retriable, SemelError
from semel.steps import OutboxStep, reached
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.producer import Mode
from semel.transaction.two_phase.recovery import Recovered, is_newer
from semel.wire.api.describe_transactions import TransactionDescription
from semel.wire.api.transactions import Identity
from semel.wire.deadline import Deadline

__all__ = ["Outbox"]

log = logging.getLogger("semel.database")

#: Time to find out what became of a COMMIT that the database has not answered.
_PATIENCE_MS = 60_000


class Outbox:
    """The owner of ``prefix``, in one process, one unit at a time. Threads take turns.

    ``engine`` is an SQLAlchemy engine of PostgreSQL or SQLite. ``two_phase`` as for
    :meth:`~semel.cluster.Cluster.producer`. Creating it sends nothing. The first unit recovers a predecessor's units,
    and stops that predecessor: its next COMMIT is refused.
    """

    def __init__(self, engine: Engine, cluster: Cluster, prefix: str, *, two_phase: Mode = True) -> None:
        self._cluster = cluster
        self._prefix = prefix
        if not two_phase:
            raise ConfigError(
                f"two_phase={two_phase!r} prepares nothing, and an outbox needs that. Nothing was sent. Give True, or"
                ' "bounded".',
                tag="WRONG_VALUE",
            )
        self._producer = cluster.producer(prefix, two_phase=two_phase)
        self._ledger = Ledger(engine, prefix)
        #: The number of this owner; None if a recovery is due first.
        self._number: int | None = None
        #: True once this outbox has been the owner: then only recover() takes over from another owner.
        self._owned = False
        self._fenced = False
        #: The newest unit that this outbox has decided since its last recovery.
        self._last: Identity | None = None
        #: Held for a unit, and for a recovery.
        self._turn = threading.Lock()
        #: The thread that holds it.
        self._thread: int | None = None

    @property
    def prefix(self) -> str:
        """The prefix that it owns."""
        return self._prefix

    def recover(self, *, older_database: bool = False) -> Recovered:
        """End a predecessor's units: commit those that the database has, abort the rest. The first unit does it too.

        Raise :class:`ConfigError` tagged OUTBOX_OLDER_DATABASE if Kafka has committed a unit that the database does not
        have. Say ``older_database`` once its rows are there. Raise :class:`Retriable` if database or brokers do not
        answer. Raise :class:`~semel.errors.DataLoss` for units that were decided and are lost, once all others are
        ended. Read :meth:`pending` then, and :meth:`forget` them.
        """
        self._ledger.check_not_forked()
        with self._taking_turns():
            self._fenced = self._owned = False
            return self._recover(older_database=older_database)

    @contextmanager
    def _taking_turns(self) -> Iterator[None]:
        """Wait for the units of other threads. Raise :class:`ConfigError` in the middle of a unit of this thread."""
        if self._thread == threading.get_ident():
            raise ConfigError(
                f"a unit of the outbox {self._prefix!r} is open already in this thread. Nothing was written. End it"
                " first, or make another outbox with a prefix of its own.",
                tag="ILLEGAL_STATE",
            )
        with self._turn:
            self._thread = threading.get_ident()
            try:
                yield
            finally:
                self._thread = None

    def _recover(self, *, older_database: bool = False) -> Recovered:
        self._number = self._last = None
        number = -1

        def decide(open_units: Sequence[TransactionDescription]) -> list[Prepared]:
            # first stop all other owners' decisions, then read the decisions
            nonlocal number
            with self._database_errors():
                if not self._ledger.has_owner():
                    self._check_first_time(len(open_units), older_database=older_database)
                self._ledger.ensure_tables()
                number = self._raise_number()
                texts = self._ledger.texts()
                self._check_newest(texts, older_database=older_database)
            reached(OutboxStep.TEXTS_READ, self._prefix)
            return texts

        recovered = self._cluster.recover(self._prefix, decide)
        with self._database_errors():
            self._ledger.forget(recovered.committed)
        reached(OutboxStep.RECOVERED, self._prefix)
        self._number = number
        return recovered

    def _check_first_time(self, unit_count: int, *, older_database: bool) -> None:
        """Refuse a database that has never had this prefix, if Kafka has units of it."""
        committed = () if older_database else self._cluster.committed_units(self._prefix)
        if self._ledger.has_owner():  # another process has just begun, and these are its units
            return
        if unit_count:
            raise self._other_database(unit_count)
        for unit in committed:
            raise self._older_database(unit)

    def _check_newest(self, texts: Sequence[Prepared], *, older_database: bool) -> None:
        """Refuse a database that lacks a unit which Kafka has committed. No other owner decides a unit now."""
        committed = self._cluster.committed_units(self._prefix)
        newest = self._ledger.newest()
        if newest is None or older_database:
            self._ledger.take_as_newest([*(prepared.identity for prepared in texts), *committed])
            return
        for unit in committed:
            if is_newer(unit, newest.get(unit.transactional_id)):
                raise self._older_database(unit)

    def _older_database(self, unit: Identity) -> ConfigError:
        return ConfigError(
            f"Kafka has committed a unit of the outbox {self._prefix!r} that this database does not have"
            f" ({unit.transactional_id!r}, epoch {unit.epoch}). It is an older copy, or another database. Nothing was"
            " written. (1) Give the newest one. (2) Add the missing rows from Kafka, then call"
            " recover(older_database=True). (3) Take another prefix.",
            tag="OUTBOX_OLDER_DATABASE",
        )

    def _other_database(self, count: int) -> ConfigError:
        """Return the error for units of which this database knows nothing: it cannot say which were decided."""
        return ConfigError(
            f"{count} units of the prefix {self._prefix!r} are prepared in Kafka, and this database has never had an"
            " outbox of that prefix. Nothing was changed. (1) Give the database that decided them. (2) Is it lost? End"
            " them yourself: `semel txn commit` or `semel txn abort`. (3) For a new outbox take another prefix.",
            tag="OUTBOX_OTHER_DATABASE",
        )

    def _raise_number(self) -> int:
        """Raise the number. After the first time, raise it only while it is this outbox's: a living successor is not
        stopped.
        """
        if not self._owned:
            number = self._ledger.raise_number()
            self._owned = True
            return number
        with self._noting_fenced():
            raised = self._ledger.raise_own_number()
            if raised is None:
                raise Fenced(
                    f"another outbox has taken over the prefix {self._prefix!r}. Nothing was written, and what this"
                    " one had decided is ended by that one. Run one process with this prefix, not two."
                )
            return raised

    def pending(self) -> list[Prepared]:
        """Return the units that are decided and not known to be visible in Kafka."""
        with self._database_errors():
            self._ledger.ensure_tables()
            return self._ledger.texts()

    def forget(self, prepared: Prepared) -> None:
        """Remove a unit from :meth:`pending`: a lost one, after you have written its Kafka rows again."""
        with self._database_errors():
            self._ledger.forget([prepared])

    @contextmanager
    def unit(self, *, version: int | None = None) -> Iterator[OutboxUnit]:
        """Begin a unit. When the block ends, its rows are in the database and visible in Kafka, or in neither.

        With ``version`` it is written once: the same number again is skipped (``unit.skipped``), a lower one refused. A
        unit of another thread is waited for. Raise :class:`AbortAndRetry` if nothing of it was written: run it again.
        Raise :class:`Fenced` if another owner has come. Raise :class:`Retriable` tagged COMMIT_PENDING if it is decided
        and the brokers do not answer: do not write it again. Errors of the block or of its rows are raised unchanged,
        and nothing is written.
        """
        self._ledger.check_not_forked()
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise ConfigError(
                f"the version of a unit is {version!r:.100}, and not a whole number. Nothing was written. Give whole"
                " numbers that rise, or no version.",
                tag="OUTBOX_VERSION",
            )
        with self._taking_turns():
            if self._fenced:
                raise Fenced(
                    f"another outbox has taken over the prefix {self._prefix!r}. Nothing was written. Stop one of the"
                    " two; recover() takes it back."
                )
            if self._number is None:
                self._recover()
            yield from self._run(version)

    def close(self) -> None:
        """Close the producer. The next owner recovers the decided units."""
        self._producer.close()

    def _run(self, version: int | None) -> Iterator[OutboxUnit]:
        assert self._number is not None
        with self._ledger.work() as work:
            with self._noting_fenced():
                newest = self._ledger.read_owner(work, self._number)
            if self._last is not None and not self._ledger.has_unit(work, self._last):
                raise self._older_database(self._last)
            self._check_version(version, newest.version)
            reached(OutboxStep.BEGUN, self._prefix)
            skipped = version is not None and version == newest.version
            unit = OutboxUnit(work.session, self._producer.transaction, newest.progress, skipped=skipped)
            try:
                yield unit
                if skipped:
                    return
                work.session.commit()  # flush: the database refuses bad rows before anything is prepared
                prepared = unit._prepare()
            except BaseException as error:
                unit._discard(error)
                raise
            self._decide(work, prepared, Newest(newest.version if version is None else version, unit.progress))
        if prepared is not None:
            self._finish(prepared)

    def _check_version(self, version: int | None, newest: int | None) -> None:
        if version is not None and newest is not None and version < newest:
            raise ConfigError(
                f"unit {version} of the outbox {self._prefix!r} is older than the newest one, {newest}. Nothing was"
                " written. Versions only rise; a batch that begins from 0 again needs a prefix of its own.",
                tag="OUTBOX_VERSION",
            )

    def _decide(self, work: DatabaseTransaction, prepared: Prepared | None, newest: Newest) -> None:
        """Write the decision. Return when it is durable."""
        number, self._number = self._number, None  # after any interruption here, the next unit recovers
        assert number is not None
        try:
            with self._noting_fenced():
                self._ledger.lock_owner(work, number, newest)
            if prepared is not None:
                self._ledger.write(work, prepared)
        except (SemelError, SQLAlchemyError) as error:
            work.connection.invalidate() if _broken(error) else work.connection.rollback()
            if self._abort(prepared, error):
                self._number = number
            if isinstance(error, SemelError):
                raise
            raise AbortAndRetry(
                f"the database refused the unit ({_briefly(error)}). Nothing of it is in the database, and its Kafka"
                " rows are aborted. Run it again.",
                tag="NOT_DECIDED",
            ) from error
        reached(OutboxStep.DECISION_SENT, self._prefix)
        try:
            work.connection.commit()
        except SQLAlchemyError as error:
            number = self._settle(prepared, error)
        reached(OutboxStep.DECIDED, self._prefix)
        self._number = number
        self._last = prepared.identity if prepared is not None else self._last

    def _settle(self, prepared: Prepared | None, lost: SQLAlchemyError) -> int:
        """Find out what became of a COMMIT without a good answer. Return the number of this owner if the unit is
        decided.

        The number is raised before the text is read: then that COMMIT cannot happen later.
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
                        f"the database has not said whether it has committed the unit ({_briefly(error)}). It is not"
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
        if not decided:
            if self._abort(prepared, lost):
                self._number = number
            raise AbortAndRetry(
                f"the database has not committed the unit ({_briefly(lost)}). Nothing of it is in the database, and its"
                " Kafka rows are aborted. Run it again.",
                tag="NOT_DECIDED",
            ) from lost
        return number

    def _abort(self, prepared: Prepared | None, raised: BaseException) -> bool:
        """Abort an undecided unit. Return True if nothing is left open."""
        if prepared is None:
            return True
        try:
            self._producer.abort(prepared)
        except SemelError as second:  # a successor may have ended it; if not, the next recovery will
            raised.add_note(f"The prepared Kafka transaction was not aborted here: {second}")
            return False
        return True

    def _finish(self, prepared: Prepared) -> None:
        """Commit the Kafka rows after the decision."""
        number, self._number = self._number, None
        try:
            self._producer.commit(prepared)
        except Retriable as error:
            raise Retriable(
                "the unit is decided, and its rows are in the database. Kafka does not show its rows yet"
                f" ({error.message:.200}). Do not write it again: the next unit, or recover(), commits them.",
                tag="COMMIT_PENDING",
            ) from error
        try:
            self._ledger.forget([prepared])
        except DBAPIError as error:  # a second end is harmless: the next recovery forgets the text
            log.warning("the text of an ended unit of %r was not removed: %s", self._prefix, _briefly(error))
            return
        self._number = number

    @contextmanager
    def _noting_fenced(self) -> Iterator[None]:
        try:
            yield
        except Fenced:
            self._fenced = True
            raise

    @contextmanager
    def _database_errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise Retriable(
                f"the database does not answer the outbox {self._prefix!r} ({_briefly(error)}). Nothing was written."
                " Look at the database, then call again.",
                tag="DATABASE_AWAY",
            ) from error


def _broken(error: Exception) -> bool:
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _briefly(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return f"{type(cause).__name__}: {str(cause).partition(chr(10))[0]:.150}"
