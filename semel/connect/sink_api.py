"""The classes that the author of a sink connector imports.

::

    class Printer(SinkConnector):
        config = {"prefix": Setting(str, default="")}
        def task(self): return PrinterTask()

    class PrinterTask(SinkTask):
        def start(self, config, context):
            self.prefix = config["prefix"]
        def put(self, batch):
            for record in batch.records():
                print(self.prefix, record.value)

A task is a member of a consumer group. After ``put`` returns, the offsets of its records may be committed. A target
that keeps offsets itself names them by ``context.offset`` in ``open``, and then each record arrives once.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from semel.records.record_headers import header_pairs
from semel.serdes.columns import is_json, whole
from semel.serdes.schemas import Schema
from semel.serdes.schemas.arrow import schema_of, values_of
from semel.settings import Setting

__all__ = ["ErrantRecordReporter", "SinkBatch", "SinkConnector", "SinkContext", "SinkRecord", "SinkTask", "records_of"]

#: A topic and the number of a partition.
TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """One record. ``topic`` is the one after transformations; ``partition`` and ``offset`` say where it was read.

    Without a schema, a value is what JSON says. ``timestamp`` is in milliseconds.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: Any
    value: Any
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """Records of one partition, in their order, as tables.

    Each table has one topic and one schema: the columns ``topic``, ``partition``, ``offset``, ``timestamp``, ``key``,
    ``value`` and ``headers``. The fields of ``key`` and ``value`` are their schemas. A value without a schema is JSON's
    text, of Arrow's type ``json``. ``topic`` is the one after transformations, ``offset`` where the record was read.

    ``start`` is the first offset that was read for the batch and ``end`` the next one after it. Some offsets between
    them have no record: they were left out, or hold the ends of transactions.
    """

    partition: TopicPartition
    tables: Sequence[pa.Table]
    start: int
    end: int

    @property
    def num_rows(self) -> int:
        """The number of records."""
        return sum(table.num_rows for table in self.tables)

    def records(self) -> Iterator[SinkRecord]:
        """Yield the records one by one."""
        for table in self.tables:
            yield from records_of(table)

    def after(self, offset: int) -> SinkBatch:
        """Return the part of the batch that begins at an offset."""
        if offset <= self.start:
            return self
        kept = [table.slice(int(np.searchsorted(table["offset"].to_numpy(), offset))) for table in self.tables]
        return SinkBatch(self.partition, [table for table in kept if table.num_rows], offset, max(offset, self.end))


def records_of(table: pa.Table) -> Iterator[SinkRecord]:
    """Yield the records of one table."""
    keys, key_schema = _values(table, "key")
    values, value_schema = _values(table, "value")
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    rest = (table[name].to_pylist() for name in ("topic", "partition", "offset", "headers"))
    for topic, index, offset, headers, timestamp, key, value in zip(*rest, times, keys, values, strict=True):
        yield SinkRecord(topic, index, offset, timestamp, key, value, key_schema, value_schema, header_pairs(headers))


def _values(table: pa.Table, name: str) -> tuple[list[Any], Schema | None]:
    """Return the values of a column as Kafka Connect has them, and their schema."""
    column, made = whole(table[name]), table.schema.field(name)
    if is_json(made.type):
        return [None if one is None else json.loads(one) for one in column.storage.to_pylist()], None
    if pa.types.is_null(made.type):
        return [None] * len(column), None
    schema = schema_of(made)
    return values_of(column, schema.but(optional=True)), schema


#: Takes a record that the task cannot write, and why.
ErrantRecordReporter = Callable[[SinkRecord, BaseException], None]


@dataclass(slots=True)
class SinkContext:
    """What a task may ask for. It takes effect after the call of the task that is under way."""

    #: The partitions of this task.
    assignment: Collection[TopicPartition] = ()
    #: Reports a record that the task leaves out. None unless ``errors.tolerance=all``.
    errant_record_reporter: ErrantRecordReporter | None = None
    #: Where the partitions are read from, unless ``open`` says otherwise: what the group has committed.
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    #: The ids of the topics of this task's partitions, set before ``open``: a topic that is made again has another one.
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    paused: set[TopicPartition] = field(default_factory=set)
    #: When offsets are committed at the latest, by the monotonic clock.
    commit_at: float = math.inf
    timeout_ms: int | None = None

    def offset(self, partition: TopicPartition, offset: int) -> None:
        """Read this partition from here on. In ``open`` it replaces what the group has committed."""
        self.offsets[partition] = offset

    def pause(self, *partitions: TopicPartition) -> None:
        """Read no more of these partitions, until they are resumed or assigned again."""
        self.paused |= set(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Read these partitions again."""
        self.paused -= set(partitions)

    def request_commit(self, after_ms: int = 0) -> None:
        """Have offsets committed soon, or after this time. A commit before then ends the request."""
        self.commit_at = min(self.commit_at, time.monotonic() + after_ms / 1000)

    def timeout(self, timeout_ms: int) -> None:
        """Set the pause before the next try, for a ``Retriable`` error that ``put`` is about to raise."""
        self.timeout_ms = timeout_ms


class SinkTask:
    """Writes one share of the records. All calls come from one thread.

    ``put`` may raise :class:`~semel.errors.Retriable`: it gets the same batch again after a pause. Any other error ends
    the task as failed, and its offsets are not committed.
    """

    def start(self, config: Mapping[str, Any], context: SinkContext) -> None:
        """Open the target."""

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Hear of new partitions, before the first record of them. Name their offsets here, if the target has them."""

    def put(self, batch: SinkBatch) -> None:
        """Write records, or keep them until :meth:`flush`."""
        raise NotImplementedError(f"{type(self).__name__} has no method put")

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write all that was put so far. These offsets are committed when it returns."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets that may be committed: all of these after a flush, unless a task says otherwise."""
        self.flush(offsets)
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Hear that these partitions go to another task. Their offsets are committed."""

    def stop(self) -> None:
        """Close the target."""


class SinkConnector:
    """Sink connector: names its settings, and makes its tasks."""

    #: Names and kinds of its own settings: a type for one that must be given, or a :class:`Setting`. A name that ends
    #: in ``.*`` takes all settings that begin so, as one mapping of texts.
    config: ClassVar[Mapping[str, type | Setting]] = {}

    def validate(self, config: Mapping[str, Any]) -> None:
        """Refuse a configuration before it is stored, by :class:`~semel.errors.ConfigError`.

        It is called once each setting by itself is right. A message that begins with a setting's name is shown there.
        Look at no other system here.
        """

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Sequence[Mapping[str, Any]]:
        """Return the configuration of each task, at most ``max_tasks`` of them. By default all have the same."""
        return [config] * max_tasks

    def task(self) -> SinkTask:
        """Make a task."""
        raise NotImplementedError(f"{type(self).__name__} has no method task")

    def task_class_name(self) -> str:
        """Return the value of ``task.class``, which Kafka Connect wants in a task's configuration."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def alter_offsets(self, config: Mapping[str, Any], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Change offsets in the target, before the group's are; None removes one.

        Raise ``ValueError`` to refuse. Return True if no other system keeps offsets, or if they are changed there.
        """
        return False
