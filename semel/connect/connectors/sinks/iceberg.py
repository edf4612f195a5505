"""``IcebergSink``: each record once in a table of Iceberg, with the offsets in the snapshot of its rows.

A commit adds the rows of one partition, and the next offset in the summary of its snapshot (``iceberg_offsets``). The
catalog takes it only on the snapshot that the task has read. After another commit, of whatever program, the task reads
again: if its offset has moved, another task has the partition, and this one is fenced.

pyiceberg would try a commit again on a newer snapshot by itself, with the offsets of the older one. This sink commits
once for each look. It deletes no file after a refusal: a catalog may have taken a commit that it says it refused.
"""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import pyarrow as pa

from semel.connect.api import Setting
from semel.connect.connectors.sinks.buffered import BUFFERED, BufferedSinkTask, PartitionTarget, refused
from semel.connect.connectors.sinks.iceberg_catalog import CATALOG, catalog_errors, check_catalog, load_catalog
from semel.connect.connectors.sinks.iceberg_offsets import Entry, SnapshotOffsets
from semel.connect.connectors.sinks.table_rows import unfit
from semel.connect.connectors.sinks.tables import NO_OFFSET, PartitionTable
from semel.connect.sink_api import SinkConnector, SinkContext, SinkTask, TopicPartition
from semel.errors import ConfigError
from semel.settings import NOTHING
from semel.wire.backoff import Backoff

__all__ = ["IcebergSink", "IcebergSinkTask"]

_TABLES, _TOPIC = "iceberg.tables", "${topic}"
_CATALOG, _CREATED = f"{CATALOG}*", "iceberg.tables.auto-create-props.*"
#: How often a commit is tried that meets others. Then the task tries again, as after other errors that may pass.
_TRIES = 10
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class IcebergSink(SinkConnector):
    """Adds rows to tables of Iceberg."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        _TABLES: Setting(list, documentation="The table, as namespace.name; ${topic} is the topic that was read."),
        "iceberg.catalog": Setting(str, default="iceberg", documentation="The name of the catalog."),
        _CATALOG: Setting(str, default=None, secret=True, documentation="pyiceberg's settings of the catalog."),
        "iceberg.tables.auto-create-enabled": Setting(bool, default=False),
        _CREATED: Setting(str, default=None, documentation="Properties of a table that is made."),
        "iceberg.tables.evolve-schema-enabled": Setting(bool, default=False),
        **BUFFERED,
    }

    def validate(self, config: Mapping[str, Any]) -> None:
        """Refuse what no task could use: a catalog that was not tried, and several tables for each record."""
        check_catalog(config[_CATALOG])
        tables = config[_TABLES]
        if len(tables) != 1 or "." not in tables[0].replace(_TOPIC, ""):
            raise ConfigError(
                f"{_TABLES}={','.join(tables):.200} is not one table, as namespace.name or namespace.{_TOPIC}."
                f" {NOTHING} Name one: each record goes to one table.",
                tag="WRONG_VALUE",
            )

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Sequence[Mapping[str, Any]]:
        """Return the same for each. The catalog's own tables are made here, before tasks do it at a time."""
        _catalog(config)
        return [config] * max_tasks

    def task(self) -> SinkTask:
        """Make a task."""
        return IcebergSinkTask()

    def alter_offsets(self, config: Mapping[str, Any], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Set the offsets in the tables, before the group's are changed."""
        catalog = _catalog(config)
        try:
            for partition, offset in offsets.items():
                _Table(catalog, config, partition, "").set_offset(NO_OFFSET if offset is None else offset)
        except OSError as error:
            raise refused(error, IcebergSinkTask.place) from error
        return True


class IcebergSinkTask(BufferedSinkTask):
    """Keeps records until there are enough for a commit."""

    place = f"the catalog of {CATALOG}uri, or its warehouse,"

    def start(self, config: Mapping[str, Any], context: SinkContext) -> None:
        """Open the catalog."""
        super().start(config, context)
        self._catalog = _catalog(config)

    def target(self, partition: TopicPartition) -> PartitionTarget:
        """Return the table of a partition."""
        return _Table(self._catalog, self._config, partition, self._context.topic_ids.get(partition[0], ""))

    def stop(self) -> None:
        """Close the catalog."""
        if hasattr(self, "_catalog"):
            self._catalog.close()


class _Table(PartitionTable[Any]):
    """A table of Iceberg. Summaries of its snapshots have the offsets."""

    create, evolve = "iceberg.tables.auto-create-enabled", "iceberg.tables.evolve-schema-enabled"
    times = True

    def __init__(self, catalog: Any, config: Mapping[str, Any], partition: TopicPartition, topic_id: str) -> None:
        topic, self._index = partition
        self._catalog, self._name = catalog, str(config[_TABLES][0]).replace(_TOPIC, topic)
        super().__init__(config, partition, topic_id, f"table of Iceberg {self._name:.200}")
        self._offsets = SnapshotOffsets(config["name"], topic)

    def set_offset(self, offset: int) -> None:
        """Set the offset, as REST does."""
        with self._errors():
            table = self._found()
            pauses = _pauses()
            while table is not None and not self._commits(table, [], Entry(offset, "")):
                time.sleep(pauses.next())
                table = self._found()

    def _errors(self) -> AbstractContextManager[None]:
        return catalog_errors(self._title)

    def _found(self) -> Any:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog.load_table(self._name)
        except NoSuchTableError:
            return None

    def _made(self, schema: pa.Schema) -> Any:
        self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        return self._catalog.create_table_if_not_exists(self._name, schema, properties=self._config[_CREATED])

    def _schema(self, table: Any) -> pa.Schema:
        return table.schema().as_arrow()

    def _offset(self, table: Any) -> int | None:
        entry = self._offsets.of(table.metadata, self._index)
        return None if entry is None else entry.next

    def _is_of_topic(self, table: Any) -> bool:
        entry = self._offsets.of(table.metadata, self._index)
        return entry is None or entry.topic_id in ("", self._topic_id)

    def _append(self, table: Any, rows: pa.Table, offset: int, *, evolves: bool) -> None:
        if evolves:  # a commit of its own: it may fail, or be another task's
            with table.update_schema() as update:
                update.union_by_name(rows.schema)
            table = self._reread(table)
            if self._is_there(table, offset):
                return
        files, shape, pauses = _written(table, rows), _shape(table), _pauses()
        for _ in range(_TRIES):
            if self._commits(table, files, Entry(offset, self._topic_id)):
                return
            time.sleep(pauses.next())
            table = self._reread(table)
            if self._is_there(table, offset):
                return
            if _shape(table) != shape:  # the files are of another schema or partitioning
                break
        raise OSError(errno.EAGAIN, f"other commits to the {self._title} hinder those of this task")

    def _reread(self, table: Any) -> Any:
        """Return the newest version of a table that was there."""
        found = self._found()
        if found is None or found.metadata.table_uuid != table.metadata.table_uuid:
            raise self._fenced()
        return found

    def _commits(self, table: Any, files: Sequence[Any], entry: Entry) -> bool:
        """Commit files and an offset on this version of the table. Return False if there is a newer one."""
        from pyiceberg.exceptions import CommitFailedException

        transaction = _transaction(table)
        summary = self._offsets.summary(table.metadata, self._index, entry)
        with transaction.update_snapshot(snapshot_properties=summary).fast_append() as append:
            for one in files:
                append.append_data_file(one)
        transaction.set_properties(self._offsets.properties(table.metadata, self._index, entry))
        try:
            transaction.commit_transaction()
        except CommitFailedException:
            return False
        return True


def _written(table: Any, rows: pa.Table) -> list[Any]:
    """Write the files of rows, which are in no snapshot yet. Raise :class:`RecordRefused` for rows that do not fit."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    try:
        return list(_dataframe_to_data_files(table.metadata, rows, table.io, write_uuid=uuid.uuid4()))
    except ValueError as error:
        raise unfit(error, None) from error


def _shape(table: Any) -> tuple[int, int]:
    return table.metadata.current_schema_id, table.metadata.default_spec_id


def _transaction(table: Any) -> Any:
    """Return a transaction that commits on this version of the table, and on no other."""
    from pyiceberg.table import Transaction
    from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSpecId, AssertTableUUID

    schema, spec = _shape(table)
    # The snapshot is the library's own requirement. A column that goes would take the values of these rows with it.
    version = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertCurrentSchemaId.model_validate({"current-schema-id": schema}),
        AssertDefaultSpecId.model_validate({"default-spec-id": spec}),
    )

    class Once(Transaction):
        def commit_transaction(self) -> Any:
            """Commit, without a second try and without deleting files."""
            return table.catalog.commit_table(table, (*self._requirements, *version), self._updates)

    return Once(table, autocommit=False)


def _pauses() -> Backoff:
    return Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, jitter=0.5)


def _catalog(config: Mapping[str, Any]) -> Any:
    """Return the catalog of a configuration."""
    try:
        return load_catalog(config["iceberg.catalog"], config[_CATALOG])
    except OSError as error:
        raise refused(error, IcebergSinkTask.place) from error
