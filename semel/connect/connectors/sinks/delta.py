"""``DeltaSink``: each record once in a table of Delta Lake, with the offsets in the commit of its rows.

A commit adds the rows of one partition, and an *application transaction* of Delta: the next offset of that partition.
Delta refuses the commit if another one has moved that offset since, so a task that was frozen adds nothing. Commits of
other partitions do not hinder it.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa

from semel.connect.api import Setting
from semel.connect.connectors.sinks.buffered import BUFFERED, BufferedSinkTask, PartitionTarget, refused
from semel.connect.connectors.sinks.objects import S3, Objects, bucket_of, check_client
from semel.connect.connectors.sinks.places import folder_of
from semel.connect.connectors.sinks.table_rows import unfit
from semel.connect.connectors.sinks.tables import NO_OFFSET, PartitionTable
from semel.connect.sink_api import SinkConnector, SinkTask, TopicPartition
from semel.errors import ConfigError
from semel.extras import needs_extras
from semel.settings import NOTHING

__all__ = ["DeltaSink", "DeltaSinkTask"]

#: A part of the identity of an application transaction: the offset that a user has set.
_SET = "set"
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

    def validate(self, config: Mapping[str, Any]) -> None:
        """Refuse a path of another system, and a package that is missing."""
        _storage(config)
        _library()
        check_client(config["path"])

    def task(self) -> SinkTask:
        """Make a task."""
        return DeltaSinkTask()

    def alter_offsets(self, config: Mapping[str, Any], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Set the offsets in the tables, before the group's are changed."""
        try:
            for partition, offset in offsets.items():
                _Table(config, partition, "").set_offset(NO_OFFSET if offset is None else offset)
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


class _Table(PartitionTable[Any]):
    """A table of Delta. Application transactions of its commits are the offsets."""

    def __init__(self, config: Mapping[str, Any], partition: TopicPartition, topic_id: str) -> None:
        topic, index = partition
        folder, self._options = _storage(config)
        name = str(config["table.name.format"]).replace("${topic}", topic)
        self._uri = f"{folder}/{name}"
        super().__init__(config, partition, topic_id, f"table of Delta at {self._uri:.200}")
        self._app = f"semel-connect/{config['name']}/{topic}/{index}"
        self._library = _library()

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
        try:
            return self._library.DeltaTable(self._uri, storage_options=self._options)
        except self._library.exceptions.TableNotFoundError:
            return None

    def _made(self, schema: pa.Schema) -> Any:
        return self._library.DeltaTable.create(self._uri, schema, mode="ignore", storage_options=self._options)

    def _schema(self, table: Any) -> pa.Schema:
        return pa.schema(table.schema().to_arrow())

    def _offset(self, table: Any) -> int | None:
        """Return the offset. Raise :class:`ConfigError` for a table that forgets it."""
        if _RETENTION in table.metadata().configuration:
            raise ConfigError(
                f"the table at {self._uri:.200} forgets application transactions ({_RETENTION}). Nothing more was"
                " written. Unset that property: the offsets of this sink are such transactions.",
                tag="SINK_TABLE",
            )
        found: int | None = table.transaction_version(self._app)
        return found

    def _is_of_topic(self, table: Any) -> bool:
        """Return False for an offset of another topic. One that a user has set is of this one."""
        if table.transaction_version(f"{self._app}#{self._topic_id}") is not None:
            return True
        return bool(table.transaction_version(f"{self._app}#{_SET}") == self._at)

    def _append(self, table: Any, rows: pa.Table, offset: int, *, evolves: bool) -> None:
        self._library.write_deltalake(
            table,
            rows,
            mode="append",
            schema_mode="merge" if evolves else None,
            commit_properties=self._properties(offset, self._topic_id),
        )

    def _properties(self, offset: int, topic: str) -> Any:
        """Return what a commit carries: the next offset, and the topic that it is of."""
        carried = {self._app: offset, f"{self._app}#{topic}": offset} if topic else {self._app: offset}
        made = [self._library.Transaction(app, version) for app, version in carried.items()]
        return self._library.CommitProperties(app_transactions=made)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        exceptions = self._library.exceptions
        try:
            yield
        except exceptions.CommitFailedError as error:
            if _REFUSED in str(error):
                raise self._fenced() from error
            raise OSError(errno.EAGAIN, f"a commit to {self._uri:.100} was refused: {error!s:.150}") from error
        except (exceptions.SchemaMismatchError, exceptions.DeltaProtocolError) as error:
            raise unfit(error, None) from error
        except exceptions.DeltaError as error:
            if _INVALID in str(error):
                raise unfit(error, None) from error
            raise OSError(errno.EIO, f"the table at {self._uri:.100}: {error!s:.150}") from error


def _library() -> Any:
    with needs_extras("DeltaSink", "connect,delta", NOTHING):
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
