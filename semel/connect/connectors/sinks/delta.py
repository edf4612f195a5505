"""``DeltaSink``: each record once in a table of Delta Lake, with the offsets in the commit of its rows.

A commit adds the rows of one partition, and an *application transaction* of Delta: the next offset of that partition.
A task commits on the version of the table in which it has found its offset. Delta refuses the commit if another one has
moved that offset since, so a task that was frozen adds nothing. Commits of other partitions do not hinder it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa

from semel.connect.api import Setting
from semel.connect.connectors.sinks.buffered import BUFFERED, BufferedSinkTask, PartitionTarget, refused
from semel.connect.connectors.sinks.delta_rows import delta_rows, fitted_fields
from semel.connect.connectors.sinks.objects import S3, Objects, bucket_of
from semel.connect.connectors.sinks.places import folder_of
from semel.connect.sink_api import SinkConnector, SinkTask, TopicPartition
from semel.errors import ConfigError, Fenced
from semel.extras import needs_extras

__all__ = ["DeltaSink", "DeltaSinkTask"]

#: A part of the identity of an application transaction: the offset that a user has set.
_SET = "set"
_NONE = -1
_RETENTION = "delta.setTransactionRetentionDuration"
#: Of the library's errors: another commit moved the same offset; rows break a rule of the table.
_REFUSED, _INVALID = "Concurrent transaction failed", "Invalid data found"


class DeltaSink(SinkConnector):
    """Adds rows to tables of Delta Lake."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        "path": Setting(str, documentation="A folder that all tasks reach, as a path or file:///…, or s3://bucket/…"),
        "table.name.format": Setting(
            str, default="${topic}", documentation="The folder of a topic's table below path."
        ),
        "auto.create": Setting(bool, default=False),
        "auto.evolve": Setting(bool, default=False),
        **S3,
        **BUFFERED,
    }

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Sequence[Mapping[str, Any]]:
        """Return the same for each. Raise :class:`ConfigError` for a path of another system."""
        _storage(config)
        _library()
        return [config] * max_tasks

    def task(self) -> SinkTask:
        """Make a task."""
        return DeltaSinkTask()

    def alter_offsets(self, config: Mapping[str, Any], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Set the offsets in the tables, before the group's are changed."""
        try:
            for partition, offset in offsets.items():
                _Table(config, partition, "").set_offset(_NONE if offset is None else offset)
        except OSError as error:
            raise refused(error) from error
        return True


class DeltaSinkTask(BufferedSinkTask):
    """Keeps records until there are enough for a commit."""

    def own(self, topics: Collection[str]) -> None:
        """Check that a bucket's store has the conditional writes that Delta's commits need."""
        bucket = bucket_of(self._config["path"])
        if bucket is not None:
            Objects(bucket[0], self._config).check_conditional(
                "/".join(filter(None, (bucket[1], ".semel/conditional")))
            )

    def target(self, partition: TopicPartition) -> PartitionTarget:
        """Return the table of a partition."""
        return _Table(self._config, partition, self._context.topic_ids.get(partition[0], ""))


class _Table:
    """The table of one topic, as the task of one partition sees it."""

    def __init__(self, config: Mapping[str, Any], partition: TopicPartition, topic_id: str) -> None:
        self._config, self._partition, self._topic_id = config, partition, topic_id
        topic, index = partition
        folder, self._options = _storage(config)
        name = str(config["table.name.format"]).replace("${topic}", topic)
        self._uri = f"{folder}/{name}"
        self._app = f"semel-connect/{config['name']}/{topic}/{index}"
        self._library = _library()
        #: The offset as the task knows it, and the newest one that it was about to commit.
        self._at: int | None = None
        self._sent: int | None = None

    def open(self, position: int) -> int:
        with self._errors():
            table = self._found()
            if table is None:
                return 0
            self._check_kept(table)
            self._at = table.transaction_version(self._app)
            if self._at is not None:
                self._check_topic(table, self._at)
        return max(0, self._at or 0)

    def write(self, first: int, last: int, column: Any, field: pa.Field, before: Callable[[], None]) -> None:
        with self._errors():
            rows = delta_rows(column, field)
            table = self._found() or self._created(rows.schema)
            self._check_kept(table)
            at = table.transaction_version(self._app)
            if at is not None and at == self._sent == last + 1:  # the answer was lost
                self._at = at
                return
            if at != self._at:
                raise self._fenced()
            rows, evolves = self._fitted(rows, pa.schema(table.schema().to_arrow()))
            self._sent = last + 1
            before()
            self._library.write_deltalake(
                table,
                rows,
                mode="append",
                schema_mode="merge" if evolves else None,
                commit_properties=self._properties(last + 1, self._topic_id),
            )
            self._at = last + 1

    def set_offset(self, offset: int) -> None:
        """Set the offset, as REST does."""
        with self._errors():
            table = self._found()
            if table is None:
                return
            table.create_write_transaction(
                [], "append", table.schema(), commit_properties=self._properties(offset, _SET)
            )

    def _found(self) -> Any:
        """Return the newest version of the table, or None."""
        try:
            return self._library.DeltaTable(self._uri, storage_options=self._options)
        except self._library.exceptions.TableNotFoundError:
            return None

    def _created(self, schema: pa.Schema) -> Any:
        if not self._config["auto.create"]:
            raise ConfigError(
                f"there is no table of Delta at {self._uri:.200}. The record was not put into the target. Create it, or"
                " set auto.create=true.",
                tag="SINK_TABLE",
            )
        return self._library.DeltaTable.create(self._uri, schema, mode="ignore", storage_options=self._options)

    def _fitted(self, rows: pa.Table, there: pa.Schema) -> tuple[pa.Table, bool]:
        """Return the rows with the types of the table, and whether the table gets more columns."""
        try:
            fields, more = fitted_fields(rows.schema, there)
        except pa.ArrowInvalid as error:
            raise self._unfit(error) from error
        if more and not self._config["auto.evolve"]:
            raise ConfigError(
                f"the table at {self._uri:.200} lacks the column {more[0]:.60}. The record was not put into the target."
                " Add it, set auto.evolve=true, or leave the field out by a transformation.",
                tag="SINK_TABLE",
            )
        lacks = [one for one in there if one.name not in rows.column_names]
        try:
            rows = rows.cast(pa.schema(fields))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._unfit(error) from error
        for one in lacks:
            rows = rows.append_column(pa.field(one.name, one.type), pa.nulls(rows.num_rows, one.type))
        return rows, bool(more)

    def _properties(self, offset: int, topic: str) -> Any:
        """Return what a commit carries: the next offset, and the topic that it is of."""
        carried = {self._app: offset, f"{self._app}#{topic}": offset} if topic else {self._app: offset}
        made = [self._library.Transaction(app, version) for app, version in carried.items()]
        return self._library.CommitProperties(app_transactions=made)

    def _check_kept(self, table: Any) -> None:
        """Refuse a table that forgets offsets."""
        if _RETENTION in table.metadata().configuration:
            raise ConfigError(
                f"the table at {self._uri:.200} forgets application transactions ({_RETENTION}). Nothing more was"
                " written. Unset that property: the offsets of this sink are such transactions.",
                tag="SINK_TABLE",
            )

    def _check_topic(self, table: Any, at: int) -> None:
        """Refuse an offset of another topic. One that a user has set is of this one."""
        if not self._topic_id or table.transaction_version(f"{self._app}#{self._topic_id}") is not None:
            return
        if table.transaction_version(f"{self._app}#{_SET}") != at:
            raise ConfigError(
                f"connector {self._config['name']} has written records of another topic {self._partition[0]}: it was"
                " made again, or is of another cluster. Nothing more was written. Stop the connector, and set or remove"
                " its offsets by REST, so that they say where this topic is read from.",
                tag="SINK_TOPIC",
            )

    def _fenced(self) -> Fenced:
        return Fenced(
            f"another task has committed rows of {self._partition[0]}-{self._partition[1]} to the table. Nothing of"
            " this commit was written by this task. Nothing: the task that has the partition writes it.",
            tag="SINK_FENCED",
        )

    def _unfit(self, error: Exception) -> ConfigError:
        said = " ".join(str(error).split())
        return ConfigError(
            f"a record does not fit the table at {self._uri:.150}: {said:.150}. The record was not put into the target."
            " Change the table, or the record by a transformation.",
            tag="SINK_RECORD",
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the library's errors into refusals, and into ``OSError`` where a second try may help."""
        exceptions = self._library.exceptions
        try:
            yield
        except exceptions.CommitFailedError as error:
            if _REFUSED in str(error):
                raise self._fenced() from error
            raise OSError(errno.EAGAIN, f"a commit to {self._uri:.100} was refused: {error!s:.150}") from error
        except (exceptions.SchemaMismatchError, exceptions.DeltaProtocolError) as error:
            raise self._unfit(error) from error
        except exceptions.DeltaError as error:
            if _INVALID in str(error):
                raise self._unfit(error) from error
            raise OSError(errno.EIO, f"the table at {self._uri:.100}: {error!s:.150}") from error


def _library() -> Any:
    with needs_extras("DeltaSink", "connect,delta"):
        import deltalake
        import deltalake.exceptions
    return deltalake


def _storage(config: Mapping[str, Any]) -> tuple[str, dict[str, str] | None]:
    """Return the folder of all tables, and the login of a bucket. Raise :class:`ConfigError` for another system."""
    bucket = bucket_of(config["path"])
    if bucket is None:
        return str(folder_of(config["path"])), None
    named = {
        "AWS_ENDPOINT_URL": config["store.url"],
        "AWS_REGION": config["s3.region"],
        "AWS_ACCESS_KEY_ID": config["aws.access.key.id"],
        "AWS_SECRET_ACCESS_KEY": config["aws.secret.access.key"],
        "AWS_ALLOW_HTTP": "true" if str(config["store.url"]).startswith("http:") else None,
    }
    return "/".join(filter(None, ("s3:/", *bucket))), {name: one for name, one in named.items() if one is not None}
