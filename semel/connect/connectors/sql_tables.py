"""One table or query of a database: its statement, how far it was read, and up to where it may be read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError, DataLoss, Retriable

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["Progress", "Reading", "Source", "open_engine", "sources_of"]

_JDBC = re.compile(r"jdbc:([^:/?#@\s]{0,40})(?::(.*))?", re.DOTALL)
#: What SQLAlchemy has in the place of JDBC's beginning.
_OF_JDBC = {"postgresql": "postgresql:", "sqlite": "sqlite:///"}
_NOTHING = "Nothing was read or written."
#: Who may still commit a row with an id that was given out already: it has a lock of this kind on the table from before
#: its statement runs until its transaction ends.
_WRITERS = """
    SELECT DISTINCT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND relation = to_regclass(:name) AND granted AND mode IN
      ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""

#: Of the sequence that gives the column its ids: how many of them each session takes at once. No row without one.
_SEQUENCE = """
    SELECT seqcache FROM pg_sequence WHERE seqrelid = CAST(pg_get_serial_sequence(:name, :column) AS regclass)
"""


def open_engine(config: Mapping[str, Any]) -> Engine:
    """Return an engine for ``connection.url``, without a connection. Raise :class:`ConfigError` for a bad URL."""
    try:
        import sqlalchemy as sa
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    except ImportError as missing:
        raise ConfigError(
            f"SqlSource needs {missing.name}, which is not installed. {_NOTHING} Run, in semel's checkout: pip install"
            " '.[database]'",
            tag="DATABASE_EXTRA",
        ) from None
    text = config["connection.url"]
    found = _JDBC.fullmatch(text)
    if found is not None and found[1] in _OF_JDBC:
        text = _OF_JDBC[found[1]] + (found[2] or "")
    elif text.startswith("jdbc:"):
        kind = found[1] if found is not None else ""
        raise ConfigError(  # the rest of it may hold a password
            f"connection.url is of the database {kind!r}, which is not known. Known are jdbc:postgresql: and"
            f" jdbc:sqlite:. {_NOTHING} Give one of these, or the URL of SQLAlchemy for this database.",
            tag="DATABASE",
        )
    try:
        url = sa.make_url(text)
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        if config["connection.user"]:
            url = url.set(username=config["connection.user"])
        if config["connection.password"]:
            url = url.set(password=config["connection.password"])
        engine = sa.create_engine(url, pool_pre_ping=True, pool_size=1)
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
        raise ConfigError(  # the text may hold a password
            f"connection.url cannot be used: {type(error).__name__}. {_NOTHING} Write it as SQLAlchemy does:"
            " postgresql://host:5432/database.",
            tag="DATABASE",
        ) from None
    if engine.dialect.name == "postgresql":
        sa.event.listen(engine, "connect", _in_utc)
    elif engine.dialect.name == "sqlite" and config["mode"].lower() != "incrementing":
        raise ConfigError(
            f"SQLite keeps times as texts of several forms, which do not compare as times. {_NOTHING} Use"
            " mode=incrementing.",
            tag="TIMESTAMP",
        )
    return engine


def _in_utc(connection: Any, _: object) -> None:
    """Compare as UTC, in which offsets are kept: by the server's zone rows would be passed over, or come again."""
    connection.execute("SET TIME ZONE 'UTC'")
    connection.commit()


@dataclass(frozen=True, slots=True)
class Source:
    """A table, or a query without a table."""

    topic: str
    table: str
    query: str
    columns: tuple[str, ...]

    @property
    def partition(self) -> dict[str, str]:
        """The source partition, by the JDBC source's names."""
        return {"query": "query"} if self.query else {"protocol": "1", "table": self.table}

    @property
    def title(self) -> str:
        """Its name in messages."""
        return "the query" if self.query else f"table {self.table}"

    def clause(self) -> Any:
        """Return the table or query to select from."""
        import sqlalchemy as sa

        columns: list[Any] = [sa.column(name) for name in self.columns]
        if self.query:
            return sa.text(self.query).columns(*columns).subquery("semel_query")
        schema, _, name = self.table.rpartition(".")
        return sa.table(name, *columns, schema=schema or None)

    def check_ids(self, engine: Engine) -> bool:
        """Return whether every transaction that may still write a lower id can be seen.

        Raises :class:`ConfigError` for a replica, which does not see who writes, and for sessions that keep ids for
        later.
        """
        import sqlalchemy as sa

        if engine.dialect.name != "postgresql" or self.query:
            return engine.dialect.name == "sqlite"
        with engine.connect() as connection:
            replica = bool(connection.execute(sa.text("SELECT pg_is_in_recovery()")).scalar())
            given = {"name": self._quoted, "column": self.columns[0]}
            cache = connection.execute(sa.text(_SEQUENCE), given).scalar()
        if replica or (cache or 1) > 1:
            why = (
                "this server is a replica, which does not see who writes"
                if replica
                else f"each session takes {cache} ids at once, and may use a low one much later"
            )
            remedy = "Connect to the primary." if replica else "Run: ALTER SEQUENCE … CACHE 1"
            raise ConfigError(f"rows of {self.title} could be passed over: {why}. {_NOTHING} {remedy}", tag="LATE_ROWS")
        return cache is not None

    @property
    def _quoted(self) -> str:
        return ".".join(f'"{part}"' for part in self.table.split("."))

    def check(self, engine: Engine) -> None:
        """Raise :class:`ConfigError` for a table, a column or a database that is not there."""
        import sqlalchemy as sa
        from sqlalchemy.exc import DBAPIError

        clause = self.clause()
        try:
            with engine.connect() as connection:
                connection.execute(sa.select(*clause.c).select_from(clause).limit(0))
        except DBAPIError as error:
            text = str(error.orig).splitlines()
            raise ConfigError(
                f"{self.title} cannot be read: {text[0] if text else type(error.orig).__name__}. {_NOTHING} Correct the"
                " connector's properties, or the login's rights.",
                tag="DATABASE",
            ) from None


def sources_of(config: Mapping[str, Any]) -> list[Source]:
    """Return the sources of a configuration. Raise :class:`ConfigError` if it contradicts itself."""
    mode = config["mode"].lower()
    columns: list[str] = []
    for kind in ("timestamp", "incrementing"):
        if kind in mode.split("+"):
            name = config[f"{kind}.column.name"]
            if not name:
                raise ConfigError(f"mode={mode} needs {kind}.column.name. {_NOTHING} Give it.", tag="MISSING_OPTION")
            columns.append(name)
    tables, query = list(config["table.whitelist"]), config["query"]
    if bool(tables) == bool(query):
        raise ConfigError(f"Give one of table.whitelist and query. {_NOTHING}", tag="MISSING_OPTION")
    if query:
        return [Source(config["topic.prefix"], "", query, tuple(columns))]
    return [
        Source(f"{config['topic.prefix']}{table.rpartition('.')[2]}", table, "", tuple(columns)) for table in tables
    ]


@dataclass(frozen=True, slots=True)
class Progress:
    """The position in a table: the last time in microseconds, and the last id."""

    timestamp_us: int | None = None
    incrementing: int | None = None

    @classmethod
    def of(cls, offset: Mapping[str, Any] | None) -> Progress:
        """Parse an offset. Raise :class:`DataLoss` for the offset of something else."""
        given = offset or {}
        ms, nanos, number = (given.get(name) for name in ("timestamp", "timestamp_nanos", "incrementing"))
        if any(not (value is None or type(value) is int) for value in (ms, nanos, number)):
            raise DataLoss(
                f"the offset {dict(given)!r:.200} is not one of SqlSource. Nothing was read. Another connector may have"
                " used this name: give this one a name of its own.",
                tag="OFFSET_DAMAGED",
            )
        if ms is None:
            return cls(None, number)
        return cls(ms * 1000 + (nanos or 0) // 1000 % 1000, number)

    @property
    def offset(self) -> dict[str, int]:
        """The offset as it is stored, in the JDBC source's form."""
        made = {} if self.incrementing is None else {"incrementing": self.incrementing}
        if self.timestamp_us is not None:
            made |= {
                "timestamp": self.timestamp_us // 1000,
                "timestamp_nanos": self.timestamp_us % 1_000_000 * 1000,
            }
        return made


class Reading:
    """Reads one source, batch by batch."""

    def __init__(self, engine: Engine, source: Source, config: Mapping[str, Any], progress: Progress) -> None:
        self._engine, self.source, self._config, self._progress = engine, source, config, progress
        self._timed = "timestamp" in config["mode"].lower().split("+")
        self._counted = "incrementing" in config["mode"].lower().split("+")
        self._careful = engine.dialect.name == "postgresql" and not self._timed and not source.query
        #: Up to which id nothing can appear any more, once those who were writing then have ended.
        self._horizon: int | None = None
        self._writing: set[str] = set()

    @property
    def waits(self) -> bool:
        """True if rows wait for concurrent writers."""
        return bool(self._writing)

    def next_rows(self) -> tuple[list[str], list[Any]]:
        """Return the names of the columns, and the next rows. Without new rows the list is empty."""
        import sqlalchemy as sa

        with self._engine.connect() as connection:
            if self._careful and not self._settled(connection):
                return [], []
            clause = self.source.clause()
            statement = sa.select(sa.text("*")).select_from(clause)
            statement = statement.where(*self._bounds(clause)).order_by(*clause.c)
            most = self._config["batch.max.rows"]
            found = connection.execute(statement.limit(most))
            names, rows = list(found.keys()), list(found.fetchall())
            if self._timed and not self._counted and len(rows) == most:
                rows = self._whole_moments(
                    connection, lambda moment: statement.where(clause.c[0] == moment), names, rows
                )
        if self._careful and len(rows) < most:
            self._horizon = None  # all up to it is read
        return names, rows

    def _whole_moments(
        self, connection: Connection, whole: Callable[[Any], Any], names: Sequence[str], rows: list[Any]
    ) -> list[Any]:
        """Return the rows without the last time, of which more may come: the next batch begins after a time, and would
        skip them. If all rows have one time, return all rows of that time, by the statement that ``whole`` makes.
        """
        times = [self._value(dict(zip(names, row, strict=True)), self._config["timestamp.column.name"]) for row in rows]
        kept = [row for row, moment in zip(rows, times, strict=True) if moment != times[-1]]
        return kept or list(connection.execute(whole(times[-1])).fetchall())

    def advance(self, names: Sequence[str], rows: Sequence[Any]) -> dict[str, int]:
        """Move past these rows, and return their offset."""
        last = dict(zip(names, rows[-1], strict=True))
        moment = number = None
        if self._timed:
            moment = _microseconds(self._value(last, self._config["timestamp.column.name"]))
        if self._counted:
            number = self._value(last, self._config["incrementing.column.name"])
            if type(number) is not int:
                raise ConfigError(
                    f"{self.source.title} has {number!r:.100} in its incrementing column. Nothing of this batch is"
                    " visible. It must be a whole number, and not null.",
                    tag="INCREMENTING",
                )
        self._progress = Progress(moment, number)
        return self._progress.offset

    def _settled(self, connection: Connection) -> bool:
        """Return whether rows may be read: no transaction can add one up to the horizon."""
        import sqlalchemy as sa

        if self._horizon is None:
            (column,) = (clause := self.source.clause()).c
            highest = sa.select(sa.func.max(column)).select_from(clause).where(*self._bounds(clause))
            found = connection.execute(highest).scalar()
            if found is None:
                return False
            self._horizon, self._writing = int(found), self._writers(connection)
        elif self._writing:
            self._writing &= self._writers(connection)
        connection.rollback()  # a snapshot that is taken from here on
        return not self._writing

    def _writers(self, connection: Connection) -> set[str]:
        import sqlalchemy as sa

        if connection.execute(sa.text("SELECT pg_is_in_recovery()")).scalar():
            raise Retriable(
                f"the database of {self.source.title} is a replica now, which does not see who writes. Nothing more was"
                " read. Have connection.url lead to the primary.",
                tag="LATE_ROWS",
            )
        found = connection.execute(sa.text(_WRITERS), {"name": self.source._quoted})
        return {str(row[0]) for row in found}

    def _bounds(self, clause: Any) -> list[Any]:
        import sqlalchemy as sa

        if not self._timed:
            (number,) = clause.c
            bounds = [] if self._progress.incrementing is None else [number > self._progress.incrementing]
            return bounds if self._horizon is None else [*bounds, number <= self._horizon]
        moment = clause.c[0]
        now = datetime.fromtimestamp(time.time() - self._config["timestamp.delay.interval.ms"] / 1000, UTC)
        bounds = [moment < now.replace(tzinfo=None)]
        if self._progress.timestamp_us is not None:
            last = datetime(1970, 1, 1) + timedelta(microseconds=self._progress.timestamp_us)
            later = moment > last
            if self._counted and self._progress.incrementing is not None:
                later = sa.or_(later, sa.and_(moment == last, clause.c[1] > self._progress.incrementing))
            bounds.append(later)
        return bounds

    def _value(self, row: Mapping[str, Any], name: str) -> Any:
        return row.get(name, row.get(name.lower()))


def _microseconds(value: Any) -> int:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise ConfigError(
            f"the timestamp column holds {value!r:.100}. Nothing of this batch is visible. It must be a timestamp, and"
            " not null.",
            tag="TIMESTAMP",
        )
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return int((value - datetime(1970, 1, 1)) // timedelta(microseconds=1))
