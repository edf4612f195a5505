"""The writer of a stream whose tasks are handed rows: Spark 4.0. Each row is a Python object, which costs about 10 µs.

A task collects them to Arrow batches, and goes on as with those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from semel.spark.version_guard import Sealed
from semel.spark.writer.data_source_writer import PartMessage, StreamWriter
from semel.spark.writer.task import write_part

__all__ = ["RowStreamWriter", "batches_of"]

#: Rows of one Arrow batch.
_ROWS = 10_000
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TYPES: Mapping[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": _HEADERS,
}


class SealedRowStreamWriter(Sealed, DataSourceStreamWriter):
    """The writer in a task."""

    what = "the plan of this sink"

    def write(self, iterator: Iterator[Row]) -> PartMessage:
        """Write the rows of one task."""
        return PartMessage.of(write_part(self.unpack(), batches_of(iterator)))


class RowStreamWriter(StreamWriter, DataSourceStreamWriter):
    """The writer in the driver's processes."""

    def __reduce__(self) -> tuple[object, ...]:
        return SealedRowStreamWriter, self.sealed()

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Never called: tasks get the sealed writer."""
        raise NotImplementedError


def batches_of(rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of the columns that a record takes."""
    while some := list(islice(rows, _ROWS)):
        names = list(some[0].__fields__)
        columns = dict(zip(names, zip(*some, strict=True), strict=True))
        arrays = {name: _column(name, values) for name, values in columns.items()}
        yield pa.RecordBatch.from_pydict({name: array for name, array in arrays.items() if array is not None})


def _column(name: str, values: Sequence[Any]) -> pa.Array | None:
    if name in ("key", "value"):
        first = next((value for value in values if value is not None), b"")
        return pa.array(values, pa.string() if isinstance(first, str) else pa.binary())
    if name == "timestamp":
        values = [_utc(value) for value in values]
    elif name == "headers":
        values = [None if value is None else [header.asDict() for header in value] for value in values]
    return pa.array(values, _TYPES[name]) if name in _TYPES else None


def _utc(value: datetime | None) -> datetime | None:
    """Return the moment. Spark hands out the time of the session's zone, without the zone."""
    return None if value is None else value.astimezone(UTC)
