"""Columns: one array of a chunked one, lists whose items are texts, and what a column's values are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["is_json", "is_list", "is_text_or_bytes", "joined_items", "whole"]

_TEXT_OR_BYTES = frozenset(
    {pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()}
)


def whole(column: Any) -> Any:
    """Return a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def is_text_or_bytes(kind: Any) -> bool:
    """Return whether values of this type are text or bytes of any length."""
    return kind in _TEXT_OR_BYTES


def is_list(kind: Any) -> bool:
    """Return whether it is the type of a list."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def is_json(kind: Any) -> bool:
    """Return whether values of this type are texts of JSON: no other type of Arrow holds them as they are."""
    return isinstance(kind, pa.JsonType)


def joined_items(column: Any, items: Any, separator: str, brackets: str = "[]") -> Any:
    """Return the items of each list in brackets. The items are texts, of which none is null. A null list stays one."""
    # flatten drops values under nulls and before a slice
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64())
    kind = pa.int64() if pa.types.is_large_list(column.type) else pa.int32()
    ends = pc.cumulative_sum(lengths).cast(kind)
    parts = type(column).from_arrays(pa.concat_arrays([pa.array([0], kind), ends]), items)
    text = pc.binary_join_element_wise(brackets[0], pc.binary_join(parts, separator), brackets[1], "")
    return pc.if_else(column.is_null(), pa.scalar(None, text.type), text)
