"""``SqlSink``: each record once in tables of PostgreSQL or SQLite, by the names of the JDBC sink connector.

The offsets are in a table of the target, in the transaction of their rows. A task resumes at them, whatever its group
has committed.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.api import Setting
from semel.connect.connectors.sinks.refused_records import RecordRefused, locating
from semel.connect.connectors.sql_tables import open_engine
from semel.connect.sink_api import SinkBatch, SinkConnector, SinkContext, SinkTask, TopicPartition, records_of
from semel.errors import ConfigError, Retriable
from semel.serdes.columns import whole
from semel.settings import NOTHING
from semel.steps import SinkTaskStep, reached

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.exc import DBAPIError

    from semel.connect.connectors.sinks.sql_table import TargetTable

__all__ = ["SqlSink", "SqlSinkTask"]

_TOPIC = "${topic}"
#: The class of PostgreSQL's errors for what is too large or too complex.
_LIMIT = "54"


class SqlSink(SinkConnector):
    """Writes records as rows."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        "connection.url": Setting(str, documentation="SQLAlchemy's URL, or one of JDBC for these two."),
        "connection.user": Setting(str, default=""),
        "connection.password": Setting(str, default="", secret=True),
        "table.name.format": Setting(str, default=_TOPIC, documentation="The table; ${topic} is the record's topic."),
        "insert.mode": Setting(str, default="insert", one_of=("insert", "upsert", "update")),
        "pk.mode": Setting(str, default="none", one_of=("none", "kafka", "record_key", "record_value")),
        "pk.fields": Setting(list, default=(), documentation="The columns of the primary key, by pk.mode."),
        "fields.whitelist": Setting(list, default=(), documentation="The fields that are written; all if empty."),
        "delete.enabled": Setting(bool, default=False, documentation="Whether a null value deletes its key's row."),
        "auto.create": Setting(bool, default=False),
        "auto.evolve": Setting(bool, default=False),
        "quote.sql.identifiers": Setting(str, default="always", one_of=("always", "never")),
        "batch.size": Setting(int, default=3000, at_least=1, documentation="The most rows of one statement."),
        "max.retries": Setting(int, default=10, at_least=0),
        "retry.backoff.ms": Setting(int, default=3000, at_least=0),
        "db.timezone": Setting(str, default="UTC", one_of=("UTC",)),
    }

    def validate(self, config: Mapping[str, Any]) -> None:
        """Refuse settings that contradict each other, a URL of another database, and a package that is missing."""
        open_engine(config).dispose()
        mode, keys = config["insert.mode"].lower(), config["pk.mode"].lower()
        if mode != "insert" and keys == "none":
            raise _contradiction(f"insert.mode={mode} needs a primary key, and pk.mode=none has none", "pk.mode")
        if config["delete.enabled"] and keys != "record_key":
            raise _contradiction("delete.enabled=true needs pk.mode=record_key", "pk.mode")
        if keys == "kafka" and len(config["pk.fields"]) not in (0, 3):
            raise _contradiction("pk.mode=kafka needs no pk.fields or three of them", "pk.fields")

    def task(self) -> SinkTask:
        """Make a task."""
        return SqlSinkTask()

    def alter_offsets(self, config: Mapping[str, Any], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Change the offsets in the target."""
        engine = open_engine(config)
        from semel.connect.connectors.sinks.sql_offsets import TargetOffsets

        try:
            kept = TargetOffsets(engine, config["name"])
            kept.prepare()
            kept.change(offsets)
        finally:
            engine.dispose()
        return True


class SqlSinkTask(SinkTask):
    """Writes each batch, and its end as the next offset, in one transaction."""

    def start(self, config: Mapping[str, Any], context: SinkContext) -> None:
        """Connect, and have the table of offsets."""
        self._config, self._context = config, context
        self._engine = open_engine(config)
        from semel.connect.connectors.sinks.sql_offsets import TargetOffsets

        self._kept = TargetOffsets(self._engine, config["name"])
        self._tables: dict[str, TargetTable] = {}
        self._retries = 0
        self._guarded(self._kept.prepare)

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Claim the partitions, and resume at the target's offsets."""
        offsets: dict[TopicPartition, int] = {}
        self._guarded(lambda: offsets.update(self._kept.claim(partitions, self._context.topic_ids)))
        for partition, offset in offsets.items():
            self._context.offset(partition, offset)

    def put(self, batch: SinkBatch) -> None:
        """Write what the target does not have yet."""
        try:
            self._guarded(lambda: self._write(batch, one_by_one=False))
        except ConfigError as error:
            refused = error.tag in ("SINK_RECORD", "SINK_TABLE", "DATABASE")
            if self._context.errant_record_reporter is None or not refused:
                raise
            self._guarded(lambda: self._write(batch, one_by_one=True))
        self._retries = 0

    def stop(self) -> None:
        """Let the database go."""
        if hasattr(self, "_engine"):
            self._engine.dispose()

    # ---- rows

    def _write(self, batch: SinkBatch, *, one_by_one: bool) -> None:
        name = self._config["name"]
        for table, deleted in self._parts(batch):  # definitions change before the transaction of the rows
            with suppress(ConfigError) if one_by_one else nullcontext(), locating(batch.partition, table["offset"]):
                self._fit(table, deleted=deleted)
        with self._kept.locked(batch.partition, batch.end) as (connection, before):
            missing = batch if before is None else batch.after(before)
            for table, deleted in self._parts(missing):
                if one_by_one:
                    self._report_or_write(connection, batch.partition, table, deleted=deleted)
                else:
                    self._rows(connection, batch.partition, table, deleted=deleted)
        reached(SinkTaskStep.TARGET_COMMITTED, name)

    def _parts(self, batch: SinkBatch) -> Iterator[tuple[pa.Table, bool]]:
        """Yield neighbours of which all are to be written, or all are to be deleted."""
        for table in batch.tables:
            nulls = pc.is_null(whole(table["value"])).to_numpy(zero_copy_only=False)
            edges = [0, *(pc.indices_nonzero(nulls[1:] != nulls[:-1]).to_numpy() + 1).tolist(), len(nulls)]
            for start, stop in itertools.pairwise(edges):
                if start < stop:
                    yield table.slice(start, stop - start), bool(nulls[start])

    def _fit(self, table: pa.Table, *, deleted: bool) -> tuple[TargetTable, Any] | None:
        """Return the table of the target and the columns for it; None for rows that are in no table yet."""
        from semel.connect.connectors.sinks.sql_columns import columns_of
        from semel.connect.connectors.sinks.sql_table import TargetTable

        if deleted and not self._config["delete.enabled"]:
            raise RecordRefused(
                "its value is null, and delete.enabled=false",
                "Set delete.enabled=true, or drop such records by a transformation.",
            )
        name = self._config["table.name.format"].replace(_TOPIC, str(table["topic"][0]))
        target = self._tables.get(name)
        if target is None:
            target = self._tables[name] = TargetTable(self._engine, name, self._config)
        columns = columns_of(table, self._config, deleted=deleted)
        return (target, columns) if target.fit(columns, deleted=deleted) else None

    def _rows(self, connection: Connection, partition: TopicPartition, table: pa.Table, *, deleted: bool) -> None:
        with locating(partition, table["offset"]):
            fitted = self._fit(table, deleted=deleted)
            if fitted is not None:
                target, columns = fitted
                target.write(connection, columns, deleted=deleted)

    def _report_or_write(
        self, connection: Connection, partition: TopicPartition, table: pa.Table, *, deleted: bool
    ) -> None:
        """Write each row behind a savepoint, and report those that the database refuses."""
        from sqlalchemy.exc import DBAPIError

        report = self._context.errant_record_reporter
        assert report is not None
        for number, record in enumerate(records_of(table)):
            try:
                with connection.begin_nested():
                    self._rows(connection, partition, table.slice(number, 1), deleted=deleted)
            except DBAPIError as error:
                if _is_away(error):
                    raise
                report(record, _refusal(_first_line(error)))
            except ConfigError as error:
                report(record, error)

    # ---- errors

    def _guarded(self, work: Any) -> None:
        """Have work done. What may succeed later is :class:`Retriable`, up to ``max.retries`` in a row."""
        from sqlalchemy.exc import DBAPIError

        try:
            work()
        except DBAPIError as error:
            said = _first_line(error)
            if _is_away(error) and self._retries < self._config["max.retries"]:
                self._retries += 1
                self._context.timeout(self._config["retry.backoff.ms"])
                raise Retriable(
                    f"the target database does not answer: {said}. Nothing is lost. The batch is written again.",
                    tag="DATABASE",
                ) from None
            raise _refusal(said) from None  # its further lines, and its own text, show rows


def _first_line(error: DBAPIError) -> str:
    return next(iter(str(error.orig or "").splitlines()), type(error).__name__).rstrip(". ")


def _refusal(said: str) -> ConfigError:
    return ConfigError(
        f"the target database refused to write: {said:.300}. Nothing of this batch was written. Correct the table, the"
        " records or the login's rights, and restart the task.",
        tag="DATABASE",
    )


def _is_away(error: DBAPIError) -> bool:
    """Return whether it may succeed later. PostgreSQL calls a limit that a row exceeds an error of operation, too."""
    from sqlalchemy.exc import OperationalError

    if str(getattr(error.orig, "sqlstate", "") or "").startswith(_LIMIT):
        return False
    return isinstance(error, OperationalError) or error.connection_invalidated


def _contradiction(what: str, name: str) -> ConfigError:
    return ConfigError(f"{what}. {NOTHING} Correct {name}.", tag="WRONG_VALUE")
