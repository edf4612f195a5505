"""``FileSink``: each record once in files of JSON lines, CSV or Parquet, by the names of the S3 sink connector.

A file holds the values of one partition from its first offset to its last. It appears whole. A task resumes after the
last file of its partition, whatever its group has committed. What keeps a task that is late from writing, and what a
name says, depends on the place: a folder (``places``), or a bucket of S3 (``bucket``).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.api import Setting
from semel.connect.connectors.sinks.bucket import BucketPlace
from semel.connect.connectors.sinks.file_formats import FORMATS
from semel.connect.connectors.sinks.places import FolderPlace, PartitionFiles, Place
from semel.connect.sink_api import SinkBatch, SinkConnector, SinkContext, SinkTask, TopicPartition
from semel.errors import ConfigError, Retriable
from semel.records.codecs import Codec
from semel.serdes.columns import whole
from semel.settings import NOTHING
from semel.steps import SinkTaskStep, reached

__all__ = ["FileSink", "FileSinkTask"]

log = logging.getLogger("semel.connect")

#: The pause before a file whose time is over is tried again.
_RETRY_MS = 1000
_EXTENSIONS = "|".join(sorted({one.extension for one in FORMATS.values()}))


class FileSink(SinkConnector):
    """Writes values to files."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        "path": Setting(str, documentation="A folder that all tasks reach, as a path or file:///…, or s3://bucket/…"),
        "topics.dir": Setting(str, default="topics", documentation="The folder of all topics, below path."),
        "format.class": Setting(str, default="JsonFormat", one_of=tuple(FORMATS)),
        "flush.size": Setting(int, at_least=1, documentation="The records of a file."),
        "rotate.interval.ms": Setting(
            int, default=-1, at_least=1, also=-1, documentation="The most time of a file, by its records' timestamps."
        ),
        "rotate.schedule.interval.ms": Setting(
            int, default=-1, at_least=1, also=-1, documentation="The most time that a record waits for its file."
        ),
        "behavior.on.null.values": Setting(str, default="fail", one_of=("fail", "ignore")),
        "store.url": Setting(str, default=None, documentation="The address of a store that speaks S3's API."),
        "s3.region": Setting(str, default=None),
        "aws.access.key.id": Setting(str, default=None),
        "aws.secret.access.key": Setting(str, default=None, secret=True),
        "parquet.codec": Setting(str, default="snappy", one_of=tuple(one.name.lower() for one in Codec)),
    }

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Sequence[Mapping[str, Any]]:
        """Return the same for each. Raise :class:`ConfigError` for a path of another system."""
        _place(config)
        return [config] * max_tasks

    def task(self) -> SinkTask:
        """Make a task."""
        return FileSinkTask()

    def alter_offsets(self, config: Mapping[str, Any], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Say yes: what was written before a file's end is never written again."""
        place = _place(config)
        for partition in offsets:
            try:
                place.forget(partition)
            except OSError as error:
                raise _refused(error) from error
        return True


class FileSinkTask(SinkTask):
    """Keeps records until a file is full."""

    def start(self, config: Mapping[str, Any], context: SinkContext) -> None:
        """Remember the settings."""
        self._config, self._context, self._place = config, context, _place(config)
        self._open: dict[TopicPartition, _Partition] = {}

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Resume after the last file of each partition."""
        self._open = {}
        self._own({topic for topic, _ in partitions})
        extension = FORMATS[self._config["format.class"]].extension
        for topic, index in partitions:
            made = _Partition(self._place.files((topic, index), extension), (topic, index), self._config, self._context)
            self._open[topic, index] = made
            try:
                end = made.end()
            except OSError as error:
                raise _refused(error) from error
            if end > self._context.positions.get((topic, index), 0):
                self._context.offset((topic, index), end)

    def put(self, batch: SinkBatch) -> None:
        """Keep the records. Write each file that is full."""
        partition = self._open[batch.partition]
        try:
            for table in batch.tables:
                partition.add(self._values(table))
        except OSError as error:
            raise Retriable(
                f"a file cannot be written: {error.strerror or error}. Nothing is lost. The batch is put again. Look at"
                " the folder of path.",
                tag="FILE_SINK",
            ) from error

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Write files whose time is over. Return the offsets whose records are in files."""
        for partition in self._open.values():
            try:
                partition.rotate()
            except OSError as error:
                log.warning("a file of %s cannot be written, and is tried again: %s", self._config["name"], error)
                self._context.request_commit(_RETRY_MS)
        return {one: at if (first := self._open[one].first) is None else first for one, at in offsets.items()}

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is in no file: the next task reads it again."""
        self._open = {}

    def _own(self, topics: Collection[str]) -> None:
        """Mark the topics' folders as this connector's. Raise :class:`ConfigError` if one is another's."""
        name = self._config["name"]
        for find in (self._place.owner, partial(self._place.mark_owner, name=name)):  # mark none if one is another's
            for topic in sorted(topics):
                try:
                    other = find(topic)
                except OSError as error:
                    raise _refused(error) from error
                if other not in (None, name):
                    raise ConfigError(
                        f"the folder {self._place!s:.200}/{topic:.100} belongs to connector {other!r:.200}. {NOTHING}"
                        " Give this connector a path or topics.dir of its own.",
                        tag="FILE_SINK_OWNER",
                    )

    def _values(self, table: pa.Table) -> pa.Table:
        nulls = whole(table["value"]).is_null()
        if not pc.any(nulls).as_py():
            return table
        if self._config["behavior.on.null.values"] == "fail":
            at = table["offset"].filter(nulls)[0]
            raise ConfigError(
                f"the record at offset {at} has a null value, and behavior.on.null.values=fail. The record was not put"
                " into the target. Set behavior.on.null.values=ignore, or drop such records by a transformation.",
                tag="SINK_RECORD",
            )
        return table.filter(pc.invert(nulls))


class _Partition:
    """The records of one partition that are in no file yet."""

    def __init__(
        self, files: PartitionFiles, partition: TopicPartition, config: Mapping[str, Any], context: SinkContext
    ) -> None:
        self._files, self._partition, self._config, self._context = files, partition, config, context
        self._format = FORMATS[config["format.class"]]
        self._kept: list[pa.Table] = []
        self._count = self._began_ms = self._next = 0
        #: When the first record that is kept came, by the monotonic clock.
        self._since = 0.0
        #: Set once the file ends here, until it is written.
        self._full = False

    @property
    def first(self) -> int | None:
        """The offset of the first record that is in no file."""
        return int(self._kept[0]["offset"][0].as_py()) if self._kept else None

    def end(self) -> int:
        """Take the partition over, and return the offset after its last file, or 0."""
        return self._files.open(self._context.positions.get(self._partition, 0))

    def add(self, table: pa.Table) -> None:
        """Keep records, and write files that are full. What was kept before is left out: a batch may come again."""
        table = table.slice(int(np.searchsorted(table["offset"].to_numpy(), self._next)))
        while True:
            if self._full or (self._kept and table.num_rows and _kind(table) != _kind(self._kept[0])):
                self._full = True
                self._write()
            if not table.num_rows:
                break
            table = table.slice(self._keep(table))
        self.rotate()

    def rotate(self) -> None:
        """Write what is kept, if its time is over. Ask for a commit at that time if not."""
        interval = self._config["rotate.schedule.interval.ms"]
        if interval < 0 or not self._kept:
            return
        left_ms = interval - (time.monotonic() - self._since) * 1000
        if left_ms > 0:
            self._context.request_commit(math.ceil(left_ms))
            return
        self._full = True
        self._write()

    def _keep(self, table: pa.Table) -> int:
        """Keep records until the file is full. Return how many."""
        times = table["timestamp"].cast(pa.int64()).fill_null(0).to_numpy()
        if not self._kept:
            self._began_ms, self._since = int(times[0]), time.monotonic()
        count, interval = (
            min(table.num_rows, self._config["flush.size"] - self._count),
            self._config["rotate.interval.ms"],
        )
        late = np.flatnonzero(times[:count] >= self._began_ms + interval) if interval > 0 else np.array([], np.int64)
        if len(late):
            count = int(late[0])
        self._full = len(late) > 0 or self._count + count == self._config["flush.size"]
        if count:
            part = table.slice(0, count)
            self._kept.append(part)
            self._count += count
            self._next = int(part["offset"][-1].as_py()) + 1
        return int(count)

    def _write(self) -> None:
        """Write the records that are kept as one file."""
        first, last, name = self._kept[0]["offset"][0].as_py(), self._next - 1, self._config["name"]
        field = self._kept[0].schema.field("value").with_nullable(True)
        column = pa.chunked_array([chunk for one in self._kept for chunk in one["value"].chunks], field.type)
        data = self._format.data(whole(column), field, self._config["parquet.codec"])
        self._files.write(first, last, data, lambda: reached(SinkTaskStep.ROWS_SENT, name))
        reached(SinkTaskStep.TARGET_COMMITTED, self._config["name"])
        self._kept, self._count, self._full = [], 0, False
        self._context.request_commit()


def _kind(table: pa.Table) -> Any:
    return table.schema.field("value").type


def _place(config: Mapping[str, Any]) -> Place:
    """Return the folder of all topics. Raise :class:`ConfigError` for a path of another system."""
    url, topics = urlsplit(config["path"]), str(config["topics.dir"])
    if url.scheme == "s3" and url.netloc:
        return BucketPlace(url.netloc, "/".join(filter(None, (url.path.strip("/"), topics))), config, _EXTENSIONS)
    path = Path(unquote(url.path) if url.scheme == "file" else config["path"])
    if url.scheme not in ("", "file") or url.netloc or not path.is_absolute():
        raise ConfigError(
            f"path={config['path']!s:.200} is no folder that this sink writes to. {NOTHING} Give an absolute path, or"
            " file:///…, of a file system that all tasks reach, or s3://bucket/prefix.",
            tag="FILE_SINK",
        )
    return FolderPlace(path / topics, _EXTENSIONS)


def _refused(error: OSError) -> ConfigError | Retriable:
    if isinstance(error, ConnectionError):
        return Retriable(
            f"the store of path does not answer: {error.strerror}. Nothing was written. The task tries again.",
            tag="FILE_SINK",
        )
    return ConfigError(
        f"the folder of path cannot be used: {error.strerror or error}. Nothing was written. Correct path, or its"
        " rights.",
        tag="FILE_SINK",
    )
