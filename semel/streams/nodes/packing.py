"""The values of repartition topics before an aggregation: only the columns of numbers that it needs.

Each column is a cell. A count needs none: its values are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from semel.errors import ConfigError
from semel.streams.cells import cell_fields, read_cells, write_cells

__all__ = ["pack_nothing", "packing", "unpacking"]


def pack_nothing(rows: Any) -> Any:
    """Values of no bytes; null where the row has a null in its place, which an aggregation leaves out."""
    values = pa.array([b""], pa.binary()).take(pa.array(np.zeros(rows.num_rows, np.int64)))
    if "value" in rows.schema.names and rows["value"].null_count:
        return pa.array(values.to_pylist(), pa.binary(), mask=rows["value"].is_null().to_numpy(zero_copy_only=False))
    return values


def packing(columns: Sequence[str], name: str) -> Callable[[Any], Any]:
    """Return a function that packs these columns into values. It raises :class:`ConfigError` for a column that is
    missing or holds no numbers.
    """
    form = np.dtype(cell_fields(columns))

    def pack(rows: Any) -> Any:
        packed = np.zeros(rows.num_rows, form)
        for column in columns:
            write_cells(packed, column, _numbers(rows, column, name))
        raw = pa.Array.from_buffers(pa.binary(form.itemsize), len(packed), [None, pa.py_buffer(packed.tobytes())])
        return raw.cast(pa.binary())

    return pack


def unpacking(columns: Sequence[str]) -> Callable[[Any], Any]:
    """Return a function that unpacks them into a dictionary of columns."""
    form = np.dtype(cell_fields(columns))

    def unpack(values: Any) -> dict[str, Any]:
        packed = np.frombuffer(b"".join(values.to_pylist()), form)
        return {column: read_cells(packed, column) for column in columns}

    return unpack


def _numbers(rows: Any, column: str, name: str) -> Any:
    if column not in rows.schema.names:
        raise ConfigError(
            f"{name} needs column {column!r}, and the rows have {', '.join(rows.schema.names)}. Nothing of this"
            " transaction is visible. Make it in map_batches.",
            tag="NO_COLUMN",
        )
    values = rows[column]
    kind = values.type
    if not pa.types.is_floating(kind) and not pa.types.is_integer(kind):
        raise ConfigError(
            f"column {column!r} of {name} has the type {kind}, and only numbers can be added up. Nothing of this"
            " transaction is visible. Cast it in map_batches.",
            tag="COLUMN_TYPE",
        )
    return values
