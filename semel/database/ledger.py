"""The owner row and the prepared texts: the right to decide, and the decisions.

An owner that raises the number of the owner row stops all older owners. Each unit locks the row by its own number, in
the transaction whose COMMIT is the decision. If the number has changed, no row is found, and nothing is committed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select, bindparam, delete, inspect, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.orm import Session

from semel.database.dialects import dialect_of
from semel.database.tables import FIRST_FORMAT, FORMAT, metadata, newest_units, owners, prepared_texts
from semel.errors import AbortAndRetry, ConfigError, Fenced, Retriable, Unsupported
from semel.steps import OutboxStep, reached
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.transactions import Identity

__all__ = ["DatabaseTransaction", "Ledger", "Newest"]

#: The columns that identify a prepared transaction among the texts.
_KEY = ("transactional_id", "producer_id", "epoch")
_MAX_PREFIX_BYTES = 500  # a key of an index; PostgreSQL allows 2,700 bytes


@dataclass(frozen=True, slots=True)
class Newest:
    """The state that the newest unit left in the owner row: its version, and the progress of its source."""

    version: int | None
    progress: str | None


@dataclass(frozen=True, slots=True)
class DatabaseTransaction:
    """A transaction of the database: the session for the user's rows, and the connection around it."""

    connection: Connection
    session: Session


class Ledger:
    """The database's knowledge of one prefix."""

    def __init__(self, engine: Engine, prefix: str) -> None:
        self._engine = engine
        self._dialect = dialect_of(engine)
        self._prefix = prefix
        self._holder = f"{uuid.uuid4()}"
        self._process = os.getpid()
        mine = owners.c.prefix == prefix
        # build these once, not for each unit
        self._newest = select(owners.c.number, owners.c.version, owners.c.progress, owners.c.holder).where(mine)
        self._shared = self._newest.with_for_update(read=True)
        self._noted = (
            update(owners)
            .where(mine & (owners.c.number == bindparam("of")))
            .values(version=bindparam("unit"), progress=bindparam("read"))
        )
        self._written = prepared_texts.insert()
        newest = self._dialect.insert(newest_units)
        self._noted_newest = newest.on_conflict_do_update(
            index_elements=[newest_units.c.transactional_id],
            set_={name: newest.excluded[name] for name in ("producer_id", "epoch")},
        )
        self._last = select(newest_units.c.producer_id, newest_units.c.epoch).where(
            newest_units.c.transactional_id == bindparam("of")
        )
        self._forgotten = delete(prepared_texts).where(
            *(prepared_texts.c[name] == bindparam(f"_{name}") for name in _KEY)
        )
        if len(prefix.encode()) > _MAX_PREFIX_BYTES:
            raise ConfigError(
                f"the prefix of the outbox is longer than {_MAX_PREFIX_BYTES} bytes. Nothing was written. Give it a"
                " shorter name.",
                tag="WRONG_VALUE",
            )

    @property
    def one_writer(self) -> bool:
        """Whether the database has one writer at a time."""
        return self._dialect.one_writer

    def check_not_forked(self) -> None:
        """Raise :class:`ConfigError` in a child of the process that this outbox was made in."""
        if self._process != os.getpid():
            raise ConfigError(
                f"the outbox {self._prefix!r} was made in process {self._process}, and this is a fork of it. Nothing"
                " was written. Make an engine and an outbox in each process, each with a prefix of its own.",
                tag="FORKED",
            )

    def ensure_tables(self) -> None:
        """Create missing tables.

        Raise :class:`ConfigError` if that is not allowed, or if the database can lose a COMMIT.
        """
        with self._transaction() as connection:
            self._dialect.check_durable(connection)
        try:
            metadata.create_all(self._engine)
        except (IntegrityError, ProgrammingError):  # another process may have done it at the same moment
            try:
                metadata.create_all(self._engine)
            except ProgrammingError as error:
                raise ConfigError(
                    f"the tables {', '.join(sorted(metadata.tables))} are not there, and this login may not create"
                    f" them ({_first_line(error)}). Nothing was written. Create them: semel.database.metadata"
                    " describes both.",
                    tag="OUTBOX_TABLES",
                ) from error

    def has_owner(self) -> bool:
        """Return True if an outbox of this prefix has been here. Creates nothing."""
        with self._engine.connect() as connection:
            return (
                inspect(connection).has_table(owners.name)
                and connection.execute(self._newest).one_or_none() is not None
            )

    def raise_number(self) -> int:
        """Become the owner, and return its number. No older owner commits a unit after that.

        Raise :class:`Retriable` if an older owner holds the row and does not release it.
        """
        insert = self._dialect.insert(owners).values(prefix=self._prefix, format=FORMAT, number=1, holder=self._holder)
        raised = insert.on_conflict_do_update(
            index_elements=[owners.c.prefix], set_={"number": owners.c.number + 1, "holder": self._holder}
        ).returning(owners.c.number, owners.c.format)
        try:
            with self._transaction() as connection:
                self._dialect.check_durable(connection)
                self._dialect.bound_wait(connection)
                number, stored = connection.execute(raised).one()
                if stored not in (FIRST_FORMAT, FORMAT):
                    raise Unsupported(
                        f"the tables of the outbox have format {stored}, and this semel knows {FORMAT}. Nothing was"
                        " written. Use the newer semel that made them.",
                        tag="OUTBOX_FORMAT",
                    )
                connection.commit()
        except DBAPIError as error:
            if not _lock_refused(error):
                raise
            raise Retriable(
                f"the owner row of the outbox {self._prefix!r} is locked, so its last unit may still be committed."
                f" Nothing was written. {self._dialect.blockers(self._engine)}.",
                tag="OUTBOX_LOCKED",
            ) from error
        reached(OutboxStep.OWNER_RAISED, self._prefix)
        return int(number)

    def raise_own_number(self) -> int | None:
        """Raise the number again, and return it. None if another outbox has raised it since.

        Then a COMMIT whose answer was lost is done, or will never be: its transaction held the row.
        """
        mine = (owners.c.prefix == self._prefix) & (owners.c.holder == self._holder)
        raised = update(owners).where(mine).values(number=owners.c.number + 1).returning(owners.c.number)
        with self._transaction() as connection:
            self._dialect.bound_wait(connection)
            number: int | None = connection.execute(raised).scalar_one_or_none()
            connection.commit()
        return number

    def texts(self) -> list[Prepared]:
        """Return the texts that are decided and not forgotten yet."""
        with self._engine.connect() as connection:
            texts = connection.execute(
                select(prepared_texts.c.text).where(prepared_texts.c.prefix == self._prefix)
            ).scalars()
            return [Prepared.parse(one) for one in texts]

    def newest(self) -> dict[str, Identity] | None:
        """Return the newest decided unit of each id. None for tables of an older semel, which do not say."""
        with self._engine.connect() as connection:
            stored = connection.execute(select(owners.c.format).where(owners.c.prefix == self._prefix)).scalar_one()
            rows = connection.execute(select(newest_units).where(newest_units.c.prefix == self._prefix))
            identities = {
                row.transactional_id: Identity(row.transactional_id, row.producer_id, row.epoch) for row in rows
            }
            return identities if stored == FORMAT else None

    def take_as_newest(self, units: Collection[Identity]) -> None:
        """Take these as the newest decided units of their ids."""
        with self._transaction() as connection:
            for unit in units:
                connection.execute(self._noted_newest, self._row(unit))
            connection.execute(update(owners).where(owners.c.prefix == self._prefix).values(format=FORMAT))
            connection.commit()

    def _row(self, unit: Identity) -> dict[str, object]:
        return {**dict(zip(_KEY, astuple(unit), strict=True)), "prefix": self._prefix}

    def has(self, prepared: Prepared) -> bool:
        """Return True if the transaction is decided."""
        with self._engine.connect() as connection:
            where = (prepared_texts.c[name] == value for name, value in _key(prepared).items())
            rows = connection.execute(select(prepared_texts.c.prefix).where(*where))
            return rows.scalar_one_or_none() is not None

    def forget(self, ended: Collection[Prepared]) -> None:
        """Remove the texts of ended transactions."""
        if not ended:
            return
        keys = [{f"_{name}": value for name, value in _key(prepared).items()} for prepared in ended]
        with self._transaction() as connection:
            self._dialect.may_forget_late(connection)
            connection.execute(self._forgotten, keys)
            connection.commit()
        reached(OutboxStep.FORGOTTEN, self._prefix)

    @contextmanager
    def work(self) -> Iterator[DatabaseTransaction]:
        """Begin the transaction of a unit. It is rolled back unless ``connection.commit()`` is called."""
        with (
            self._transaction() as connection,
            # a savepoint: the user's calls on the session do not end the transaction, and objects stay readable
            Session(connection, join_transaction_mode="create_savepoint", expire_on_commit=False) as session,
        ):
            yield DatabaseTransaction(connection, session)

    def read_owner(self, work: DatabaseTransaction, number: int) -> Newest:
        """Return the state that the newest unit left. Raise :class:`Fenced` if another owner has come."""
        row = self._own_row(work, self._newest, number)
        return Newest(row.version, row.progress)

    def _own_row(self, work: DatabaseTransaction, statement: Select[Any], number: int) -> Row[Any]:
        row = work.connection.execute(statement).one_or_none()
        if row is None or row.holder != self._holder:
            raise self._fenced()
        if row.number != number:
            raise AbortAndRetry(
                f"a COMMIT of another unit of the outbox {self._prefix!r} was not answered, so the units beside it are"
                " begun again. Nothing of this unit is in the database, and its Kafka rows are aborted. Run it again.",
                tag="NOT_DECIDED",
            )
        return row

    def has_unit(self, work: DatabaseTransaction, unit: Identity) -> bool:
        """Return True if this is the newest decided unit of its id: it is not in an older copy of the database."""
        row = work.connection.execute(self._last, {"of": unit.transactional_id}).one_or_none()
        return row is not None and (row.producer_id, row.epoch) == (unit.producer_id, unit.epoch)

    def lock_owner(self, work: DatabaseTransaction, number: int, newest: Newest | None) -> None:
        """Lock the owner row until COMMIT, and write the unit's version and progress. With None the lock is shared
        with other units, and kept from other owners. Raise :class:`Fenced` if another owner has come.
        """
        self._dialect.check_before_lock(work.connection)  # the user may have changed a setting in between
        if newest is None:
            self._own_row(work, self._shared, number)
        else:
            noted = {"of": number, "unit": newest.version, "read": newest.progress}
            if work.connection.execute(self._noted, noted).rowcount != 1:
                raise self._fenced()
        reached(OutboxStep.OWNER_LOCKED, self._prefix)

    def write(self, work: DatabaseTransaction, prepared: Prepared) -> None:
        """Write the text that ends the unit's Kafka rows, as a part of the user's transaction."""
        row = self._row(prepared.identity)
        work.connection.execute(self._written, {**row, "text": str(prepared)})
        work.connection.execute(self._noted_newest, row)
        reached(OutboxStep.TEXT_WRITTEN, self._prefix)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        connection, transaction = self._dialect.begin(self._engine)
        with connection:
            try:
                yield connection
            finally:
                if transaction.is_active:
                    transaction.rollback()

    def _fenced(self) -> Fenced:
        return Fenced(
            f"another outbox has taken over the prefix {self._prefix!r}. Nothing of this unit is in the database, and"
            " its Kafka rows are aborted. Run one process with this prefix, not two.",
        )


def _key(prepared: Prepared) -> dict[str, object]:
    return dict(zip(_KEY, astuple(prepared.identity), strict=True))


def _lock_refused(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", "") == "55P03" or "database is locked" in str(error.orig)


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).partition("\n")[0]
