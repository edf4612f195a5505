"""Decoded records in the columns of Spark's ``kafka`` source: same names, order and types (DESIGN section 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from semel.records.arrays import array, repeated, validity
from semel.wire.metadata import TopicPartition

__all__ = ["Columns", "schema"]

_FIELDS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("timestampType", pa.int32()),
]
_HEADERS = pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
_PLAIN, _WITH_HEADERS = pa.schema(_FIELDS), pa.schema([*_FIELDS, _HEADERS])


def schema(*, headers: bool) -> Any:
    """Return the schema of a reader's batches, with or without the column ``headers``."""
    return _WITH_HEADERS if headers else _PLAIN


class Columns:
    """Adds the topic and partition to the records that :func:`semel.records.decode.decode` returns."""

    def __init__(self, partition: TopicPartition, *, headers: bool) -> None:
        self._partition = partition
        self._headers = headers
        self._constant = self._repeat(0)

    def arrange(self, decoded: Any) -> Any:
        """Return the record batch with all columns in Spark's order."""
        count = decoded.num_rows
        if count > len(self._constant[0]):
            self._constant = self._repeat(count)
        # the two columns are the same in each batch: slices of one array cost nothing
        topic, index = (column.slice(0, count) for column in self._constant)
        columns = [decoded.column("key"), decoded.column("value"), topic, index]
        columns += [decoded.column(name) for name in ("offset", "timestamp", "timestampType")]
        if self._headers:
            columns.append(_null_if_empty(decoded.column("headers")))
        return pa.RecordBatch.from_arrays(columns, schema=schema(headers=self._headers))

    def _repeat(self, count: int) -> tuple[Any, Any]:
        topic, index = self._partition
        return repeated(topic, count), array(np.full(count, index, np.int32), pa.int32())


def _null_if_empty(lists: Any) -> Any:
    """Return lists with null for empty: Spark's source gives null for a record without headers."""
    if not len(lists):
        return lists
    offsets = np.frombuffer(lists.buffers()[1], np.int32)[lists.offset : lists.offset + len(lists) + 1]
    present = validity(offsets[1:] == offsets[:-1])
    return pa.Array.from_buffers(lists.type, len(lists), [present, pa.py_buffer(offsets)], children=[lists.values])
