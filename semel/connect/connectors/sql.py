"""``SqlSource``: rows of tables or of a query, by the names of the JDBC source connector.

``mode=incrementing`` reads rows with a higher id than before. An id is given out before its row is committed, so a
lower one may appear later. PostgreSQL says who has begun to write to a table: the source sees the highest id, waits
until all of those have ended, and reads up to it; then nothing below it can appear any more. SQLite has one writer at a
time. Other databases do not tell, and a warning says so.

``mode=timestamp`` and ``timestamp+incrementing`` read rows whose time is later. What is committed late with an earlier
time is passed over, in any database: set ``timestamp.delay.interval.ms`` to more than the longest transaction takes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from semel.connect.api import Polled, Setting, SourceConnector, SourceTask, TaskContext
from semel.connect.connectors.sql_checks import check_nulls, check_there, late_rows
from semel.connect.connectors.sql_tables import Progress, Reading, open_engine, sources_of
from semel.errors import ConfigError, Retriable

__all__ = ["SqlSource", "SqlSourceTask"]

log = logging.getLogger("semel.connect")

_BY_TIME = "no database reports who is about to write a time", ""
#: A poll does not wait longer than this.
_WAIT_S = 0.5


class SqlSource(SourceConnector):
    """Reads tables, shared out over its tasks, or one query."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        "connection.url": Setting(str, documentation="SQLAlchemy's URL, or one of JDBC for these two."),
        "connection.user": Setting(str, default=""),
        "connection.password": Setting(str, default="", secret=True),
        "mode": Setting(str, one_of=("incrementing", "timestamp", "timestamp+incrementing")),
        "incrementing.column.name": Setting(str, default=""),
        "timestamp.column.name": Setting(list, default=(), documentation="The first that is not null counts."),
        "timestamp.initial": Setting(
            int,
            default=None,
            at_least=-1,
            documentation="Without an offset, read what is later than this, in ms; -1 is now.",
        ),
        "timestamp.delay.interval.ms": Setting(int, default=0, at_least=0),
        "table.whitelist": Setting(list, default=(), documentation="Tables, each as it is or with its schema."),
        "validate.non.null": Setting(
            bool, default=True, documentation="Whether columns of ids and times that may be null are refused."
        ),
        "query": Setting(str, default="", documentation="A SELECT in the place of tables."),
        "topic.prefix": Setting(str, documentation="Before each table's name; the whole topic of a query."),
        "poll.interval.ms": Setting(int, default=5000, at_least=0),
        "batch.max.rows": Setting(int, default=1000, at_least=1),
    }

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Sequence[Mapping[str, Any]]:
        """Share the tables out. Raises :class:`ConfigError` for a database that cannot be reached, or lacks one."""
        sources = sources_of(config)
        engine = open_engine(config)
        try:
            for source in sources:
                check_there(engine, source)
                if config["validate.non.null"] and source.table:
                    check_nulls(engine, source, config["mode"].lower())
            counted = config["mode"].lower() == "incrementing"
            late = [late_rows(engine, source) for source in sources] if counted else [_BY_TIME]
        finally:
            engine.dispose()
        for why, _ in filter(None, late):
            kind = "id" if counted else "time"
            log.warning(
                "%s: rows that are committed late, with a lower %s than rows that were read, are missed", why, kind
            )
        if config["query"]:
            return [config]
        tables = list(config["table.whitelist"])
        count = min(max_tasks, len(tables))
        return [{**config, "table.whitelist": tables[number::count]} for number in range(count)]

    def task(self) -> SourceTask:
        """Make a task."""
        return SqlSourceTask()

    def exactly_once_support(self, config: Mapping[str, Any]) -> bool | None:
        """Say yes where late rows are waited for. Raises :class:`ConfigError` for a table where they cannot be."""
        from sqlalchemy.exc import DBAPIError

        url = config["connection.url"].removeprefix("jdbc:")
        known = url.startswith(("postgresql", "sqlite"))
        if not known or config["mode"].lower() != "incrementing" or config["query"]:
            return None
        sources = sources_of(config)
        engine = open_engine(config)
        try:
            late = [late_rows(engine, source) for source in sources]
        except DBAPIError:  # nothing can be read either: it is asked again before anything is
            return True
        finally:
            engine.dispose()
        for why, remedy in filter(None, late):
            raise ConfigError(
                f"exactly.once.support=required, but {why}. Nothing was read or written. (1) {remedy}. (2) Use"
                " exactly.once.support=requested: rows that are committed late may be missed.",
                tag="LATE_ROWS",
            )
        return True

    def alter_offsets(self, config: Mapping[str, Any], offsets: Sequence[tuple[Any, Any]]) -> bool:
        """Check that they name tables or a query."""
        for partition, offset in offsets:
            if not partition.keys() & {"table", "query"}:
                raise ValueError("Partition objects should contain the key 'table' or 'query'")
            if offset is not None and not offset.keys() & {"incrementing", "timestamp"}:
                raise ValueError("Offset objects should either be null or contain 'incrementing' or 'timestamp'")
        return True


class SqlSourceTask(SourceTask):
    """Reads its tables in turn."""

    def start(self, config: Mapping[str, Any], context: TaskContext) -> None:
        """Connect, and resume at the offsets."""
        self._config = config
        self._engine = open_engine(config)
        self._readings = [
            Reading(self._engine, source, config, _progress(config, context.offset(source.partition)))
            for source in sources_of(config)
        ]
        self._due = dict.fromkeys(range(len(self._readings)), 0.0)
        self._turn = 0

    def poll(self) -> Polled:
        """Give the next rows of the next table that has some."""
        for _ in self._readings:
            index, self._turn = self._turn, (self._turn + 1) % len(self._readings)
            if time.monotonic() < self._due[index]:
                continue
            rows = self._read(self._readings[index])
            if rows is not None:
                return rows
            waits = self._readings[index].waits
            self._due[index] = time.monotonic() + (_WAIT_S if waits else self._config["poll.interval.ms"] / 1000)
        time.sleep(max(0.0, min(_WAIT_S, min(self._due.values()) - time.monotonic())))
        return None

    def stop(self) -> None:
        """Let the database go."""
        if hasattr(self, "_engine"):
            self._engine.dispose()

    def _read(self, reading: Reading) -> Polled:
        from sqlalchemy.exc import DBAPIError, OperationalError

        try:
            found = reading.next_rows()
        except (OperationalError, DBAPIError) as error:
            if isinstance(error, OperationalError) or error.connection_invalidated:
                raise Retriable(
                    f"the database of {reading.source.title} does not answer: {_first_line(error)} Nothing more was"
                    " read. The task starts again from its committed offsets.",
                    tag="DATABASE",
                ) from error
            raise ConfigError(
                f"the database refused to read {reading.source.title}: {_first_line(error)} Nothing of it was written."
                " Correct the connector's properties, or the login's rights.",
                tag="DATABASE",
            ) from error
        if found is None:
            return None
        return reading.polled(found)


def _progress(config: Mapping[str, Any], offset: Mapping[str, Any] | None) -> Progress:
    return Progress.initial(config) if offset is None else Progress.of(offset)


def _first_line(error: BaseException) -> str:
    """Return the driver's own words, without the statement and its values."""
    original = getattr(error, "orig", None) or error
    return f"{str(original).splitlines()[0] if str(original) else type(original).__name__}."
