"""Numbers as bytes: single longs, and columns of numbers in cells of 9 bytes.

A cell is a byte for its kind (nothing, whole number, float) and 8 bytes for the number. Entries of aggregations and the
values of repartition topics before them are made of cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["EMPTY", "FLOAT", "INTEGER", "cell_fields", "cell_numbers", "items", "read_cells", "write_cells"]

EMPTY, INTEGER, FLOAT = 0, 1, 2


def items(array: Any) -> list[bytes]:
    """Return each item of an array as its bytes."""
    raw, size = array.tobytes(), array.dtype.itemsize
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def cell_fields(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the fields of an array that has a cell for each name."""
    return [field for name in names for field in ((f"{name} kind", "u1"), (name, ">i8"))]


def cell_numbers(bits: Any, kinds: Any, *, floats: bool) -> Any:
    """Return the numbers of cells: all as floats, or all as whole numbers."""
    if not floats:
        return bits.astype(np.int64)
    as_float = np.ascontiguousarray(bits).view(">f8").astype(np.float64)
    return np.where(kinds == FLOAT, as_float, bits.astype(np.float64))


def read_cells(cells: Any, name: str, missing: Any = False) -> Any:
    """Return the cells of one name as a column: of floats if one of them is a float."""
    kinds = cells[f"{name} kind"]
    numbers = cell_numbers(cells[name], kinds, floats=bool((kinds == FLOAT).any()))
    return pa.array(numbers, mask=missing | (kinds == EMPTY))


def write_cells(cells: Any, name: str, column: Any) -> None:
    """Write a column of numbers into the cells of one name."""
    floats = pa.types.is_floating(column.type)
    numbers = column.cast(pa.float64() if floats else pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    cells[name] = numbers.astype(">f8").view(">i8") if floats else numbers
    cells[f"{name} kind"] = np.where(there, FLOAT if floats else INTEGER, EMPTY)
