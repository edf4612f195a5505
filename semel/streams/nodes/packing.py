"""The values of repartition topics before an aggregation: only the columns of numbers that it needs.

Each column is a byte that tells its kind (nothing, whole number, float) and 8 bytes. A count needs none: its values are
empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from semel.errors import ConfigError

__all__ = ["pack_nothing", "packing", "unpacking"]

_EMPTY, _INTEGER, _FLOAT = 0, 1, 2


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
    form = _form(columns)

    def pack(rows: Any) -> Any:
        packed = np.zeros(rows.num_rows, form)
        for column in columns:
            _pack(packed, rows, column, name)
        raw = pa.Array.from_buffers(pa.binary(form.itemsize), len(packed), [None, pa.py_buffer(packed.tobytes())])
        return raw.cast(pa.binary())

    return pack


def unpacking(columns: Sequence[str]) -> Callable[[Any], Any]:
    """Return a function that unpacks them into a dictionary of columns."""
    form = _form(columns)

    def unpack(values: Any) -> dict[str, Any]:
        packed = np.frombuffer(b"".join(values.to_pylist()), form)
        found = {}
        for column in columns:
            kinds, bits = packed[f"{column} kind"], packed[column]
            if (kinds == _FLOAT).any():
                floats = np.ascontiguousarray(bits).view(">f8").astype(np.float64)
                numbers = np.where(kinds == _FLOAT, floats, bits.astype(np.float64))
            else:
                numbers = bits.astype(np.int64)
            found[column] = pa.array(numbers, mask=kinds == _EMPTY)
        return found

    return unpack


def _form(columns: Sequence[str]) -> Any:
    return np.dtype([field for name in columns for field in ((f"{name} kind", "u1"), (name, ">i8"))])


def _pack(packed: Any, rows: Any, column: str, name: str) -> None:
    if column not in rows.schema.names:
        raise ConfigError(
            f"{name} needs column {column!r}, and the rows have {', '.join(rows.schema.names)}. Nothing of this"
            " transaction is visible. Make it in map_batches.",
            tag="NO_COLUMN",
        )
    values = rows[column]
    kind = values.type
    floats = pa.types.is_floating(kind)
    if not floats and not pa.types.is_integer(kind):
        raise ConfigError(
            f"column {column!r} of {name} has the type {kind}, and only numbers can be added up. Nothing of this"
            " transaction is visible. Cast it in map_batches.",
            tag="COLUMN_TYPE",
        )
    numbers = values.cast(pa.float64() if floats else pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    there = values.is_valid().to_numpy(zero_copy_only=False)
    packed[column] = numbers.astype(">f8").view(">i8") if floats else numbers
    packed[f"{column} kind"] = np.where(there, _FLOAT if floats else _INTEGER, _EMPTY)
