"""One table or query of a database: its statement, how far it was read, and up to where it may be read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semel.connect.api import SourceBatch, SourceRecord
from semel.connect.connectors.sql_rows import Found, kinds_of, prepare, table_of, values_of
from semel.errors import ConfigError, DataLoss, Retriable
from semel.extras import needs_extras
from semel.settings import NOTHING

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["Progress", "Reading", "Source", "open_engine", "sources_of"]

_JDBC = re.compile(r"jdbc:([^:/?#@\s]{0,40})(?::(.*))?", re.DOTALL)
#: What SQLAlchemy has in the place of JDBC's beginning.
_OF_JDBC = {"postgresql": "postgresql:", "sqlite": "sqlite:///"}
#: Who may still commit a row with an id that was given out already: it has a lock of this kind on the table from before
#: its statement runs until its transaction ends. A row of a partition may be written to any table of its family.
_WRITERS = """
    WITH RECURSIVE family(id) AS (
        SELECT CAST(to_regclass(:name) AS oid)
        UNION SELECT CASE WHEN inhrelid = id THEN inhparent ELSE inhrelid END
        FROM family JOIN pg_inherits ON id IN (inhrelid, inhparent))
    SELECT DISTINCT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND relation IN (SELECT id FROM family) AND granted AND mode IN
      ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""


def open_engine(config: Mapping[str, Any]) -> Engine:
    """Return an engine for ``connection.url``, without a connection. Raise :class:`ConfigError` for a bad URL."""
    with needs_extras("a connector of SQL", "database", NOTHING):
        import sqlalchemy as sa
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    text = config["connection.url"]
    found = _JDBC.fullmatch(text)
    if found is not None and found[1] in _OF_JDBC:
        text = _OF_JDBC[found[1]] + (found[2] or "")
    elif text.startswith("jdbc:"):
        kind = found[1] if found is not None else ""
        raise ConfigError(  # the rest of it may hold a password
            f"connection.url is of the database {kind!r}, which is not known. Known are jdbc:postgresql: and"
            f" jdbc:sqlite:. {NOTHING} Give one of these, or the URL of SQLAlchemy for this database.",
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
        more = {"use_native_hstore": False} if url.get_backend_name() == "postgresql" else {}
        engine = sa.create_engine(url, pool_pre_ping=True, pool_size=1, hide_parameters=True, **more)
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
        raise ConfigError(  # the text may hold a password
            f"connection.url cannot be used: {type(error).__name__}. {NOTHING} Write it as SQLAlchemy does:"
            " postgresql://host:5432/database.",
            tag="DATABASE",
        ) from None
    if engine.dialect.name == "postgresql":
        sa.event.listen(engine, "connect", _in_utc)
    elif engine.dialect.name == "sqlite" and config.get("mode", "incrementing").lower() != "incrementing":
        raise ConfigError(
            f"SQLite keeps times as texts of several forms, which do not compare as times. {NOTHING} Use"
            " mode=incrementing.",
            tag="TIMESTAMP",
        )
    return engine


def _in_utc(connection: Any, _: object) -> None:
    """Compare as UTC, in which offsets are kept: by the server's zone rows would be passed over, or come again."""
    connection.execute("SET TIME ZONE 'UTC'")
    connection.execute("SET DateStyle TO 'ISO'")
    prepare(connection)
    connection.commit()


@dataclass(frozen=True, slots=True)
class Source:
    """A table, or a query without a table."""

    topic: str
    table: str
    query: str
    #: Columns of times: the first that is not null is the time of a row.
    times: tuple[str, ...]
    #: The column of ids, or an empty text.
    number: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns by which it is read."""
        return (*self.times, self.number) if self.number else self.times

    def moment(self, clause: Any) -> Any:
        """Return the time of a row, of what :meth:`clause` gives."""
        import sqlalchemy as sa

        columns = [clause.c[name] for name in self.times]
        return columns[0] if len(columns) == 1 else sa.func.coalesce(*columns)

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
            plain = self.query.replace(":", "\\:")  # SQLAlchemy would take :x for a value that it is given
            return sa.text(plain).columns(*columns).subquery("semel_query")
        schema, _, name = self.table.rpartition(".")
        return sa.table(name, *columns, schema=schema or None)

    @property
    def quoted(self) -> str:
        """Its name in SQL."""
        return ".".join(f'"{part}"' for part in self.table.split("."))


def sources_of(config: Mapping[str, Any]) -> list[Source]:
    """Return the sources of a configuration. Raise :class:`ConfigError` if it contradicts itself."""
    mode = config["mode"].lower()
    for kind in mode.split("+"):
        if not config[f"{kind}.column.name"]:
            raise ConfigError(f"mode={mode} needs {kind}.column.name. {NOTHING} Give it.", tag="MISSING_OPTION")
    times = tuple(config["timestamp.column.name"]) if "timestamp" in mode.split("+") else ()
    number = config["incrementing.column.name"] if "incrementing" in mode.split("+") else ""
    tables, query = list(config["table.whitelist"]), config["query"]
    if bool(tables) == bool(query):
        raise ConfigError(f"Give one of table.whitelist and query. {NOTHING}", tag="MISSING_OPTION")
    if query:
        return [Source(config["topic.prefix"], "", query, times, number)]
    topics = {table: f"{config['topic.prefix']}{table.rpartition('.')[2]}" for table in tables}
    return [Source(topic, table, "", times, number) for table, topic in topics.items()]


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

    @classmethod
    def initial(cls, config: Mapping[str, Any]) -> Progress:
        """Return the position that ``timestamp.initial`` names: that time itself is read where ids tell rows apart."""
        mode, given = config["mode"].lower().split("+"), config["timestamp.initial"]
        if given is None or "timestamp" not in mode:
            return cls()
        moment = time.time_ns() // 1000 if given < 0 else given * 1000
        return cls(moment, -1 if "incrementing" in mode else None)


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
        self._declared = _declared(engine, source)

    @property
    def waits(self) -> bool:
        """True if rows wait for concurrent writers."""
        return bool(self._writing)

    def next_rows(self) -> Found | None:
        """Return the next rows, or None."""
        import sqlalchemy as sa

        with self._engine.connect() as connection:
            if self._careful and not self._settled(connection):
                return None
            clause = self.source.clause()
            statement = sa.select(sa.text("*")).select_from(clause)
            statement = statement.where(*self._bounds(clause)).order_by(*self._order(clause))
            most = self._config["batch.max.rows"]
            found = connection.execute(statement.limit(most))
            assert found.cursor is not None
            kinds = kinds_of(found.cursor.description or (), self._engine.dialect.name, self._declared)
            names, rows = list(found.keys()), list(found.fetchall())
            if self._timed and not self._counted and len(rows) == most:
                rows = self._whole_moments(
                    connection, lambda moment: statement.where(self.source.moment(clause) == moment), names, rows
                )
        if self._careful and len(rows) < most:
            self._horizon = None  # all up to it is read
        return Found(names, kinds, rows) if rows else None

    def _whole_moments(
        self, connection: Connection, whole: Callable[[Any], Any], names: Sequence[str], rows: list[Any]
    ) -> list[Any]:
        """Return the rows without the last time, of which more may come: the next batch begins after a time, and would
        skip them. If all rows have one time, return all rows of that time, by the statement that ``whole`` makes.
        """
        times = [_moment(self._time(dict(zip(names, row, strict=True)))) for row in rows]
        kept = [row for row, moment in zip(rows, times, strict=True) if moment != times[-1]]
        return kept or list(connection.execute(whole(times[-1])).fetchall())

    def polled(self, found: Found) -> SourceBatch | list[SourceRecord]:
        """Move past these rows. Return them as a table, or one by one if the database does not say their types."""
        offset, source = self._advance(found), self.source
        values = values_of(found)
        if values is None:
            return SourceBatch(source.topic, self._table(found), source.partition, offset)
        return [SourceRecord(source.topic, value, source.partition, offset) for value in values]

    def _table(self, found: Found) -> pa.Table:
        """Return the rows as a table."""
        named = [name for name in found.names if name.lower() in {one.lower() for one in self.source.columns}]
        places = {name: found.names.index(name) for name in named}
        return table_of(
            found, self.source.title, lambda row: ", ".join(f"{name}={row[place]}" for name, place in places.items())
        )

    def _advance(self, found: Found) -> dict[str, int]:
        """Move past these rows, and return their offset."""
        last = dict(zip(found.names, found.rows[-1], strict=True))
        moment = number = None
        if self._timed:
            moment = _microseconds(self._time(last))
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
        found = connection.execute(sa.text(_WRITERS), {"name": self.source.quoted})
        return {str(row[0]) for row in found}

    def _bounds(self, clause: Any) -> list[Any]:
        import sqlalchemy as sa

        if not self._timed:
            (number,) = clause.c
            last_id = self._progress.incrementing
            bounds = [number.is_not(None) if last_id is None else number > last_id]
            return bounds if self._horizon is None else [*bounds, number <= self._horizon]
        moment = self.source.moment(clause)
        now = datetime.fromtimestamp(time.time() - self._config["timestamp.delay.interval.ms"] / 1000, UTC)
        bounds = [moment < now.replace(tzinfo=None), *(column.is_not(None) for column in self._order(clause))]
        if self._progress.timestamp_us is not None:
            last = datetime(1970, 1, 1) + timedelta(microseconds=self._progress.timestamp_us)
            later = moment > last
            if self._counted and self._progress.incrementing is not None:
                number = clause.c[self.source.number]
                later = sa.or_(later, sa.and_(moment == last, number > self._progress.incrementing))
            bounds.append(later)
        return bounds

    def _order(self, clause: Any) -> list[Any]:
        """Return what rows are read in the order of."""
        times = [self.source.moment(clause)] if self._timed else []
        return [*times, clause.c[self.source.number]] if self._counted else times

    def _time(self, row: Mapping[str, Any]) -> Any:
        """Return the time of a row: that of the first column that has one."""
        times = (self._value(row, name) for name in self.source.times)
        return next((one for one in times if one is not None), None)

    def _value(self, row: Mapping[str, Any], name: str) -> Any:
        return row.get(name, row.get(name.lower()))


def _declared(engine: Engine, source: Source) -> dict[str, Any]:
    """Return the types of a table's columns in SQLite, where a row does not say them. It drops the fraction of whole
    numbers in a DECIMAL column, and has times as texts.
    """
    import sqlalchemy as sa

    if engine.dialect.name != "sqlite" or source.query:
        return {}
    schema, _, name = source.table.rpartition(".")
    columns = sa.inspect(engine).get_columns(name, schema=schema or None)
    # newer releases of SQLAlchemy do not count floats among the numerics
    kinds: tuple[tuple[Any, Any], ...] = (
        ((sa.Integer, sa.Boolean), pa.int64()),
        ((sa.Numeric, sa.Float), pa.float64()),
        (sa.LargeBinary, pa.binary()),
        ((sa.String, sa.Date, sa.DateTime, sa.Time, sa.JSON), pa.string()),
    )
    return {str(one["name"]): kind for one in columns for group, kind in kinds if isinstance(one["type"], group)}


def _moment(value: Any) -> Any:
    """Return a time that the database gave as text as Python's. A day alone is none: rows of it may still come."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) and ":" in value else value
    except ValueError:
        return value


def _microseconds(value: Any) -> int:
    value = _moment(value)
    if not isinstance(value, datetime):
        raise ConfigError(
            f"the timestamp column holds {value!r:.100}. Nothing of this batch is visible. It must be a timestamp, and"
            " not null.",
            tag="TIMESTAMP",
        )
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return int((value - datetime(1970, 1, 1)) // timedelta(microseconds=1))
