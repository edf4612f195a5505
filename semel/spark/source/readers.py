"""The readers of ``format("semel")``: what Spark plans and reads, batch and streaming.

Spark makes and pickles readers freely, in processes of its own: one plans a batch query, one lives as long as a
streaming query runs, and Python workers read, each of them many tasks one after the other, with the connections that it
has. So a reader holds its options only, makes what it needs when it is used, and travels sealed
(:mod:`semel.spark.version_guard`). Not promised: an order of rows between Kafka's partitions, and within one only while
it is read by one task (DESIGN rule 11).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceReader, InputPartition

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.read import Range, Reader, check_ranges
from semel.records.timestamps import TimestampOverflow
from semel.spark.jvm.versions.planner import Limits
from semel.spark.source.batch_ranges import split_into_tasks
from semel.spark.source.options import SourceOptions
from semel.spark.source.stream import StreamPlan
from semel.spark.source.topics import SourceTopics
from semel.spark.source_offset import SourceOffset, as_dict, parse
from semel.spark.version_guard import SealedPartition, SealedReader, pack
from semel.spark.worker_client import client
from semel.wire.client import Client

__all__ = ["BatchReader", "Slice", "StreamPlanner", "columns"]

_COLUMNS = [
    t.StructField("key", t.BinaryType()),
    t.StructField("value", t.BinaryType()),
    t.StructField("topic", t.StringType()),
    t.StructField("partition", t.IntegerType()),
    t.StructField("offset", t.LongType()),
    t.StructField("timestamp", t.TimestampType()),
    t.StructField("timestampType", t.IntegerType()),
]
_HEADERS = t.StructField(
    "headers", t.ArrayType(t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())]))
)


def columns(options: SourceOptions) -> t.StructType:
    """Return the columns of Spark's ``kafka`` source."""
    return t.StructType([*_COLUMNS, _HEADERS] if options.headers else _COLUMNS)


# ---- in tasks


@dataclass(frozen=True)
class Slice(InputPartition):
    """The input of one task: ranges of partitions that are all different."""

    ranges: tuple[Range, ...]

    def __reduce__(self) -> tuple[object, ...]:
        return SealedPartition, pack(self.ranges)


@dataclass(frozen=True, slots=True)
class _Reading:
    """All that a task needs to know of its source."""

    config: ClientConfig
    read_committed: bool
    headers: bool
    fail_on_data_loss: bool
    timestamp_overflow: TimestampOverflow

    @classmethod
    def of(cls, options: SourceOptions) -> _Reading:
        return cls(
            options.config,
            options.read_committed,
            options.headers,
            options.fail_on_data_loss,
            options.timestamp_overflow,
        )

    def rows(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow record batches.

        Where there is nothing to plan Spark makes up a partition of its own, which is empty.
        """
        if isinstance(partition, SealedPartition):  # a slice that has travelled
            wanted = partition.unpack()
        elif isinstance(partition, Slice):
            wanted = partition.ranges
        else:
            return iter(())
        reader = Reader(
            client(self.config),
            wanted,
            read_committed=self.read_committed,
            headers=self.headers,
            fail_on_data_loss=self.fail_on_data_loss,
            timestamp_overflow=self.timestamp_overflow,
        )
        return iter(reader)


# ---- batch


class BatchReader(DataSourceReader):
    """Reads what is there when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._start, self._end = options.for_batch()
        self._reading = _Reading.of(options)

    def __reduce__(self) -> tuple[object, ...]:
        return SealedReader, pack(self._reading.rows)

    def partitions(self) -> list[InputPartition]:
        """One for each Kafka partition that has many rows to read, one for several that have few, or more where that
        was asked for.
        """
        options = self._options
        with Client(options.config) as client:
            topics = SourceTopics(client, options)
            selected = topics.select()
            starts, ends = topics.starts(selected, self._start), topics.ends(selected, self._end)
            _check_forwards(starts, ends)
            ranges = [
                Range(name, selected[name, index], index, starts[name, index], ends[name, index])
                for name, index in sorted(selected)
            ]
            checked = check_ranges(
                client, [one for one in ranges if one.size > 0], fail_on_data_loss=options.fail_on_data_loss
            )
        tasks = split_into_tasks(checked.ranges, options.min_partitions, options.max_records, options.min_records)
        return [Slice(ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one partition."""
        return self._reading.rows(partition)


def _check_forwards(starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]) -> None:
    wrong = sorted(partition for partition, start in starts.items() if start > ends[partition])
    if wrong:
        topic, index = wrong[0]
        raise ConfigError(
            f"{topic}-{index} would be read from offset {starts[wrong[0]]} to {ends[wrong[0]]}, which is before that."
            " Nothing was read. Change where to start or where to end.",
            tag="WRONG_VALUE",
        )


# ---- streaming


class StreamPlanner:
    """Plans the micro-batches of one run of a query, for the reader of the Spark that runs (:class:`BatchPlanner`)."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reading = _Reading.of(options)
        options.for_stream()
        self._client: Client | None = None
        self._plan: StreamPlan | None = None

    def _planning(self) -> StreamPlan:
        if self._plan is None:
            self._client = Client(self._options.config)
            self._plan = StreamPlan(self._client, self._options)
        return self._plan

    def sealed(self) -> tuple[object, ...]:
        """Return what travels to tasks in place of the reader."""
        return SealedReader, pack(self._reading.rows)

    @property
    def limits(self) -> Limits:
        """The limits of the options."""
        return self._options.limits

    def initial(self) -> dict[str, Any]:
        """Return where a new query starts, marked as such."""
        return as_dict(self._planning().initial())

    def next_end(self, start: dict[str, Any], limits: Limits) -> dict[str, Any]:
        """Return where the next batch ends."""
        return as_dict(self._planning().advance(_offset(start), limits))

    def reported(self) -> dict[str, Any] | None:
        """Return where the topics ended when the last batch was planned."""
        reported = self._planning().reported
        return as_dict(reported) if reported is not None else None

    def freeze(self) -> None:
        """Take what is there now as all there is."""
        self._planning().freeze()

    def tasks(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""
        return [Slice(ranges) for ranges in self._planning().tasks(_offset(start), _offset(end))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one partition."""
        return self._reading.rows(partition)

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()


def _offset(given: dict[str, Any]) -> SourceOffset:
    return parse(json.dumps(given))
