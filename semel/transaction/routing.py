"""The output partition of each row, and the rows of each partition apart: Kafka's own rule, for all rows at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.errors import ConfigError
from semel.records.arrays import array, nulls, numbers
from semel.records.columns import is_bytes, reordered
from semel.records.partitioner import partition_for

__all__ = ["by_partition", "check_columns", "plain_columns", "targets", "with_partitions"]

#: What rows may have; only ``value`` is a must.
_COLUMNS = {"headers", "key", "partition", "timestamp", "value"}
#: Chunks are joined where they are more than these and have fewer rows than these.
_FEW_CHUNKS, _SMALL_CHUNK = 16, 4096


def targets(
    topic: str, rows: pa.Table | pa.RecordBatch, partitions: int, sticky: int, *, keys: bool = True
) -> npt.NDArray[np.int64]:
    """Return the partition of each row: the one in its column ``partition``, else its key's (murmur2), else ``sticky``.

    Without ``keys`` the key decides nothing. Raises :class:`ConfigError` for a partition that the topic does not have.
    """
    named = _whole(rows.column("partition")).cast(pa.int64()) if "partition" in rows.schema.names else None
    if named is not None and not named.null_count:
        target = numbers(named)
    else:
        target = (
            _by_key(rows, partitions, sticky)
            if keys and "key" in rows.schema.names
            else np.full(rows.num_rows, sticky, np.int64)
        )
        if named is not None:
            target = np.where(nulls(named), target, numbers(named))
    wrong = target[(target < 0) | (target >= partitions)]
    if len(wrong):
        raise ConfigError(
            f"a row names {topic}-{wrong[0]}, and the topic has {partitions} partitions. None of these rows was sent,"
            " and nothing of the batch is visible. Correct the rows, or add partitions. If partition is the column"
            " of the source, which says where a row was read: drop it, and the key decides.",
            tag="UNKNOWN_PARTITION",
        )
    return target


def _by_key(rows: pa.Table | pa.RecordBatch, partitions: int, sticky: int) -> npt.NDArray[np.int64]:
    return partition_for(_whole(rows.column("key")), partitions, sticky).astype(np.int64)


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def check_columns(rows: pa.Table | pa.RecordBatch) -> None:
    """Raise :class:`ConfigError` for what is no table, and for a column without a use: a header or a partition may be
    misspelt there.
    """
    if not isinstance(rows, pa.Table | pa.RecordBatch):
        raise ConfigError(
            f"{type(rows).__name__} is no pyarrow Table or RecordBatch. Nothing of it was sent. Give a table with a"
            " column value, such as"
            ' pa.table({"value": ["one", "two"]}).',
            tag="NO_TABLE",
        )
    extra = sorted(set(rows.schema.names) - _COLUMNS)
    if extra:
        raise ConfigError(
            f"column {extra[0]!r} is not a Kafka record field. None of these rows was sent. The columns are"
            f" {', '.join(sorted(_COLUMNS))}: rename or drop the other.",
            tag="EXTRA_COLUMN",
        )


def plain_columns(rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """Return the same rows with keys and values as text or bytes of any length: no dictionaries, no fixed sizes."""
    schema = rows.schema
    for name in {"key", "value"} & set(schema.names):
        index = schema.get_field_index(name)
        kind = schema.field(index).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        kind = pa.binary() if pa.types.is_fixed_size_binary(kind) else kind
        schema = schema.set(index, schema.field(index).with_type(kind))
    return rows if schema is rows.schema else rows.cast(schema)


def with_partitions(rows: pa.Table | pa.RecordBatch, target: npt.NDArray[np.int64]) -> pa.Table | pa.RecordBatch:
    """Return the same rows, each with its partition in the column ``partition``."""
    rest = rows.drop_columns(["partition"]) if "partition" in rows.schema.names else rows
    return rest.append_column("partition", array(target.astype(np.int32), pa.int32()))


def by_partition(
    rows: pa.Table | pa.RecordBatch, target: npt.NDArray[np.int64]
) -> list[tuple[int, pa.Table | pa.RecordBatch]]:
    """Return the rows of each partition, in their order. Text and bytes are views: they are not copied."""
    if (target == target[0]).all():
        return [(int(target[0]), rows)]
    # numpy sorts 16-bit integers by counting, several times as fast as longer ones
    order = np.argsort(target.astype(np.int16) if target.max() < 1 << 15 else target, kind="stable")
    ordered, target = _ordered(rows, order), target[order]
    starts = [0, *(np.flatnonzero(np.diff(target)) + 1).tolist()]
    return [(int(target[start]), ordered.slice(start, end - start)) for start, end in pairwise([*starts, len(target)])]


def _ordered(rows: pa.Table | pa.RecordBatch, order: npt.NDArray[np.int64]) -> pa.Table:
    names, indices = rows.schema.names, array(order, pa.int64())
    columns = [
        reordered(_in_few_chunks(column), name, order) if is_bytes(column.type) else column.take(indices)
        for name, column in zip(names, rows.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, names)


def _in_few_chunks(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Join small chunks: what is encoded for each partition is handed the buffers of all chunks."""
    many = isinstance(column, pa.ChunkedArray) and column.num_chunks > _FEW_CHUNKS
    if not many or len(column) > column.num_chunks * _SMALL_CHUNK:
        return column
    return column.cast(pa.large_binary()).combine_chunks()
