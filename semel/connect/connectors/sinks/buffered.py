"""Sinks that keep records until there are enough for a file, or for a commit of a table.

The target of a partition says how far it reaches, and takes what follows. It is asked when the task gets the partition,
and the task resumes there, whatever its group has committed.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.api import Setting
from semel.connect.connectors.sinks.refused_records import RecordRefused, locating
from semel.connect.sink_api import SinkBatch, SinkContext, SinkTask, TopicPartition
from semel.errors import ConfigError, Retriable
from semel.serdes.columns import whole
from semel.steps import SinkTaskStep, reached

__all__ = ["BUFFERED", "BufferedSinkTask", "PartitionTarget", "refused"]

log = logging.getLogger("semel.connect")

FOLDER = "the folder of path"
#: The pause before what is due is tried again.
_RETRY_MS = 1000
#: Settings of all of them, by the names of the S3 sink connector.
BUFFERED: Mapping[str, Setting] = MappingProxyType(
    {
        "flush.size": Setting(int, at_least=1, documentation="The records of a file."),
        "rotate.interval.ms": Setting(
            int, default=-1, at_least=1, also=-1, documentation="The most time of a file, by its records' timestamps."
        ),
        "rotate.schedule.interval.ms": Setting(
            int, default=-1, at_least=1, also=-1, documentation="The most time that a record waits for its file."
        ),
        "behavior.on.null.values": Setting(str, default="fail", one_of=("fail", "ignore")),
    }
)


class PartitionTarget(Protocol):
    """What one partition's records go to, as one task writes them."""

    def open(self, position: int) -> int:
        """Take the partition over from other tasks. Return the offset after its last record, or 0.

        ``position`` is where the group reads from.
        """

    def write(self, first: int, last: int, column: Any, field: pa.Field, before: Callable[[], None]) -> None:
        """Write the values of these offsets, once, all or none. ``before`` is called before they can be seen.

        Raises :class:`Fenced` if another task has the partition, ``OSError`` if it may be tried again, and
        :class:`RecordRefused` for a value that does not fit, by its row.
        """


class BufferedSinkTask(SinkTask):
    """Keeps records until there are enough. A class of its own says what they go to."""

    #: Where records go, in messages.
    place: ClassVar[str] = FOLDER

    def start(self, config: Mapping[str, Any], context: SinkContext) -> None:
        """Remember the settings."""
        self._config, self._context = config, context
        self._open: dict[TopicPartition, _Partition] = {}

    def target(self, partition: TopicPartition) -> PartitionTarget:
        """Return what a partition's records go to."""
        raise NotImplementedError(f"{type(self).__name__} has no method target")

    def own(self, topics: Collection[str]) -> None:
        """Check that the topics' targets are this connector's. By default they are."""

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Resume after what each partition's target has."""
        self._open = {}
        try:
            self.own({topic for topic, _ in partitions})
            for partition in partitions:
                made = _Partition(self.target(partition), partition, self._config, self._context)
                self._open[partition] = made
                end = made.end()
                if end > self._context.positions.get(partition, 0):
                    self._context.offset(partition, end)
        except OSError as error:
            raise refused(error, self.place) from error

    def put(self, batch: SinkBatch) -> None:
        """Keep the records. Write what is full."""
        partition = self._open[batch.partition]
        try:
            for table in batch.tables:
                with locating(batch.partition, table["offset"]):
                    written = self._values(table)
                partition.add(written)
        except OSError as error:
            raise Retriable(
                f"a file cannot be written: {error.strerror or error}. Nothing is lost. The batch is put again. Look at"
                f" {self.place.removesuffix(',')}.",
                tag="FILE_SINK",
            ) from error

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Write what is due by its time. Return the offsets whose records are written."""
        for partition in self._open.values():
            try:
                partition.rotate()
            except OSError as error:
                log.warning("a file of %s cannot be written, and is tried again: %s", self._config["name"], error)
                self._context.request_commit(_RETRY_MS)
        return {one: at if (first := self._open[one].first) is None else first for one, at in offsets.items()}

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is not written: the next task reads it again."""
        self._open = {}

    def _values(self, table: pa.Table) -> pa.Table:
        nulls = whole(table["value"]).is_null()
        if not pc.any(nulls).as_py():
            return table
        if self._config["behavior.on.null.values"] == "fail":
            raise RecordRefused(
                "its value is null, and behavior.on.null.values=fail",
                "Set behavior.on.null.values=ignore, or drop such records by a transformation.",
                int(pc.index(nulls, True).as_py()),
            )
        return table.filter(pc.invert(nulls))


class _Partition:
    """The records of one partition that are in no file yet."""

    def __init__(
        self, target: PartitionTarget, partition: TopicPartition, config: Mapping[str, Any], context: SinkContext
    ) -> None:
        self._target, self._partition, self._config, self._context = target, partition, config, context
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
        return self._target.open(self._context.positions.get(self._partition, 0))

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
        offsets = pa.chunked_array([chunk for one in self._kept for chunk in one["offset"].chunks])
        with locating(self._partition, offsets):
            self._target.write(first, last, whole(column), field, lambda: reached(SinkTaskStep.ROWS_SENT, name))
        reached(SinkTaskStep.TARGET_COMMITTED, self._config["name"])
        self._kept, self._count, self._full = [], 0, False
        self._context.request_commit()


def _kind(table: pa.Table) -> Any:
    return table.schema.field("value").type


def refused(error: OSError, place: str = FOLDER) -> ConfigError | Retriable:
    """Return the error for a target that cannot be opened."""
    if isinstance(error, ConnectionError):
        return Retriable(
            f"{place} does not answer: {_said(error)}. Nothing was written. The task tries again.",
            tag="FILE_SINK",
        )
    return ConfigError(
        f"{place} cannot be used: {_said(error)}. Nothing was written. Correct its setting, or its rights.",
        tag="FILE_SINK",
    )


def _said(error: OSError) -> str:
    """Return what is wrong, and with which file or folder."""
    if error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
