"""Differences of PostgreSQL and SQLite: how a transaction begins, how long locks are held, what is durable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol

from sqlalchemy import Connection, Engine, RootTransaction, Table, text
from sqlalchemy.dialects import postgresql, sqlite

from semel.errors import ConfigError, Unsupported

__all__ = ["Dialect", "dialect_of"]

#: PostgreSQL ends a session that is silent for this long between its lock on the row of its claim and its COMMIT. No
#: user code runs in between, so such a process is frozen, and its successor waits for it. After psycopg's
#: ``executemany`` PostgreSQL does not count, until another statement has followed.
_SILENT_MS = 10_000
#: The wait of a successor for that lock. It is longer than the former.
_LOCK_MS = 20_000
_FULL = 2  # SQLite's synchronous=FULL; EXTRA is 3


class Dialect(Protocol):
    """A kind of database."""

    #: Whether a second writer waits until the first one has ended.
    one_writer: ClassVar[bool]

    def insert(self, table: Table) -> Any:
        """Return an INSERT that knows ON CONFLICT."""

    def begin(self, engine: Engine) -> tuple[Connection, RootTransaction]:
        """Connect, and begin a transaction."""

    def check_durable(self, connection: Connection) -> None:
        """Raise :class:`ConfigError` if a COMMIT that was answered could be lost."""

    def check_before_lock(self, connection: Connection) -> None:
        """Check as :meth:`check_durable`, and make sure that this transaction cannot hold its next lock for long, even
        if it freezes.
        """

    def bound_wait(self, connection: Connection) -> None:
        """Wait for the next lock no longer than for a frozen unit."""

    def may_forget_late(self, connection: Connection) -> None:
        """Let this transaction's COMMIT be answered before it is durable."""

    def blockers(self, engine: Engine) -> str:
        """Name the sessions that hold a lock on the owner row, for a message."""


def dialect_of(engine: Engine) -> Dialect:
    """Return the dialect of a database. Raise :class:`Unsupported` for other databases, :class:`ConfigError` for an
    engine without transactions.
    """
    if engine.dialect.is_async:
        raise ConfigError(
            f"{engine.dialect.driver!r} is an asynchronous driver, and an ordinary one is needed. Nothing was written."
            " Name another, such as postgresql+psycopg, in the URL or for sqlalchemy.create_engine. From asyncio, call"
            " in a thread (asyncio.to_thread).",
            tag="DATABASE_KIND",
        )
    dialects: dict[str, Callable[[], Dialect]] = {"postgresql": _PostgreSQL, "sqlite": _SQLite}
    if engine.dialect.name not in dialects:
        raise Unsupported(
            f"rows cannot be written exactly once to the database {engine.dialect.name!r}. Nothing was written. Use"
            " PostgreSQL or SQLite.",
            tag="DATABASE_KIND",
        )
    levels = (
        engine.get_execution_options().get("isolation_level"),
        getattr(engine.dialect, "_on_connect_isolation_level", None),
    )
    if "AUTOCOMMIT" in levels:
        raise ConfigError(
            "the engine has isolation_level=AUTOCOMMIT, so each statement would be committed by itself. Nothing was"
            " written. Give an engine without it.",
            tag="DATABASE_AUTOCOMMIT",
        )
    return dialects[engine.dialect.name]()


def _check_setting(name: str, value: object, wanted: str, *, good: bool) -> None:
    if not good:
        raise ConfigError(
            f"the database has {name}={value}, so it can lose a COMMIT that it has answered. Nothing was written. Set"
            f" {name}={wanted} for these connections.",
            tag="DATABASE_NOT_DURABLE",
        )


class _PostgreSQL:
    one_writer: ClassVar[bool] = False

    def insert(self, table: Table) -> postgresql.Insert:
        return postgresql.insert(table)

    def begin(self, engine: Engine) -> tuple[Connection, RootTransaction]:
        connection = engine.connect()
        return connection, connection.begin()

    _SETTINGS = ("synchronous_commit", "fsync", "full_page_writes")
    _ASKED = "SELECT " + ", ".join(f"current_setting('{name}')" for name in _SETTINGS)

    def check_durable(self, connection: Connection) -> None:
        self._check(connection.exec_driver_sql(self._ASKED).one())

    def check_before_lock(self, connection: Connection) -> None:
        bounded = f"{self._ASKED}, set_config('idle_in_transaction_session_timeout', '{_SILENT_MS}', true)"
        self._check(connection.exec_driver_sql(bounded).one())

    def _check(self, values: Iterable[object]) -> None:
        for name, value in zip(self._SETTINGS, values, strict=False):
            _check_setting(name, value, "on", good=value != "off")

    def bound_wait(self, connection: Connection) -> None:
        connection.execute(text("SELECT set_config('lock_timeout', :ms, true)"), {"ms": str(_LOCK_MS)})

    def may_forget_late(self, connection: Connection) -> None:
        connection.execute(text("SELECT set_config('synchronous_commit', 'off', true)"))

    def blockers(self, engine: Engine) -> str:
        asked = text(
            "SELECT DISTINCT a.pid, a.application_name, host(a.client_addr), a.state, a.xact_start"
            " FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
            " WHERE l.relation = to_regclass('semel_outbox_owner') AND l.mode IN ('RowExclusiveLock', 'RowShareLock')"
            " AND l.pid <> pg_backend_pid()"
        )
        with engine.connect() as connection:
            rows = connection.execute(asked).all()
        sessions = "; ".join(
            f"process {pid} ({name or 'no application_name'} from {address or 'a local socket'}, {state} since {since})"
            for pid, name, address, state, since in rows
        )
        return f"Blocked by {sessions or 'a session that is gone now'}. Ended by SELECT pg_terminate_backend(<process>)"


class _SQLite:
    one_writer: ClassVar[bool] = True

    def insert(self, table: Table) -> sqlite.Insert:
        return sqlite.insert(table)

    def begin(self, engine: Engine) -> tuple[Connection, RootTransaction]:
        """Begin by BEGIN IMMEDIATE: Python's driver begins late, and a later lock can be refused."""
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")  # the driver begins nothing
        try:
            transaction = connection.begin()
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        except BaseException:
            connection.close()
            raise
        return connection, transaction

    def check_durable(self, connection: Connection) -> None:
        files = {name: file for _, name, file in connection.exec_driver_sql("PRAGMA database_list")}
        _check_setting("database", ":memory:", "a file", good=bool(files.get("main")))
        synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
        _check_setting("synchronous", synchronous, "FULL", good=synchronous >= _FULL)
        journal = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
        _check_setting("journal_mode", journal, "WAL", good=journal not in ("memory", "off"))

    def check_before_lock(self, connection: Connection) -> None:
        """Check the durability alone. A frozen process keeps its lock: there is no server to take it away."""
        self.check_durable(connection)

    def bound_wait(self, connection: Connection) -> None:
        """Do nothing: the driver's ``timeout`` bounds the wait."""

    def may_forget_late(self, connection: Connection) -> None:
        """Do nothing: there is no such setting for one transaction."""

    def blockers(self, engine: Engine) -> str:
        return "Blocked by a process that has the file open and writes. End it (`fuser` or `lsof` on the file names it)"
