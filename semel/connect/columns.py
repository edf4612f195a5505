"""Columns of Arrow from a database's values where its types do not say what they are.

A column has one type. Values of several *shapes*, each a tuple or a text, are JSON's texts in it, and none is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import accumulate
from typing import Any
from uuid import UUID

import pyarrow as pa

from semel.errors import ConfigError
from semel.serdes.json_value import json_text

__all__ = ["UNREADABLE", "column_of"]

#: A column of a batch that says of a row why it could not be read, as a sentence; null where it could.
UNREADABLE = "semel.unreadable"

Shape = Any
_SIMPLE = frozenset({str, bytes, float, bool})
_NULL, _JSON, _WHOLE, _STRUCT, _LIST = "null", "json", "whole", "struct", "list"


def column_of(values: Sequence[Any], name: str) -> Any:
    """Return one column. Values of several types are JSON's texts in it."""
    shape = _common(values)
    return _built(values, _JSON if shape is None else shape, name)


def _common(values: Sequence[Any]) -> Shape | None:
    """Return the one shape of all values, column by column; None where they have several, or may have."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) != 1:
        return None if kinds else _NULL
    (kind,) = kinds
    if kind in _SIMPLE:
        return kind
    there = [value for value in values if value is not None]
    if kind is int:
        return _WHOLE if min(there) >= -(2**63) and max(there) < 2**63 else None
    if kind is dict:
        if len(set(map(tuple, there))) != 1:
            return None
        fields = [(name, _common([value[name] for value in there])) for name in there[0]]
        return None if any(one is None for _, one in fields) else (_STRUCT, tuple(fields))
    if kind is list:
        items = _common([one for value in there for one in value])
        return None if items is None else (_LIST, items)
    shapes = set(map(_shape, there))
    return shapes.pop() if len(shapes) == 1 else None


def _shape(value: Any) -> Shape:
    kind = type(value)
    if value is None:
        return _NULL
    if kind in _SIMPLE:
        return kind
    if kind is int:
        return _WHOLE if -(2**63) <= value < 2**63 else _JSON
    if isinstance(value, Mapping):
        return _STRUCT, tuple((name, _shape(one)) for name, one in value.items())
    if kind is list or kind is tuple:
        shape: Shape | None = _NULL
        for one in value:
            shape = _merged(shape, _shape(one))
            if shape is None:
                return _JSON
        return _LIST, shape
    if kind is Decimal:  # Arrow gives all of a column one scale
        return (kind, value.as_tuple().exponent) if value.is_finite() else _JSON
    if kind is datetime:
        return kind, value.tzinfo is None
    return kind


def _merged(left: Shape, right: Shape) -> Shape | None:
    """Return the shape that holds both; None where a value would change. A null has no type of its own."""
    if left == right or right == _NULL:
        return left
    if left == _NULL:
        return right
    if not (isinstance(left, tuple) and isinstance(right, tuple) and left[0] == right[0]):
        return None
    if left[0] == _LIST:
        items = _merged(left[1], right[1])
        return None if items is None else (_LIST, items)
    if left[0] != _STRUCT or [name for name, _ in left[1]] != [name for name, _ in right[1]]:
        return None
    fields = [_merged(one, other) for (_, one), (_, other) in zip(left[1], right[1], strict=True)]
    if None in fields:
        return None
    return _STRUCT, tuple((name, one) for (name, _), one in zip(left[1], fields, strict=True))


def _built(values: Sequence[Any], shape: Shape, name: str) -> Any:
    try:
        return _array(values, shape)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise ConfigError(
            f"a {name} cannot be written ({error!s:.200}). Nothing of this poll is visible. Give text, numbers,"
            " booleans, bytes, times, lists or dictionaries with text as keys.",
            tag="WRONG_TYPE",
        ) from None


def _array(values: Sequence[Any], shape: Shape) -> Any:
    if shape == _NULL:
        return pa.nulls(len(values))
    if shape == _JSON:
        texts = [None if value is None else json_text(value) for value in values]
        return pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
    if shape == _WHOLE:
        return pa.array(values, pa.int64())
    if shape is UUID:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    if not isinstance(shape, tuple) or shape[0] not in (_STRUCT, _LIST):
        return pa.array(values)
    mask = pa.array([value is None for value in values], pa.bool_())
    if shape[0] == _LIST:
        lists = [value or () for value in values]
        offsets = pa.array([0, *accumulate(map(len, lists))], pa.int32())
        items = _array([one for items in lists for one in items], shape[1])
        return pa.ListArray.from_arrays(offsets, items, mask=mask)
    if not all(type(name) is str for name, _ in shape[1]):
        raise TypeError("a dictionary has a key that is no text")
    if not shape[1]:
        return pa.array(values, pa.struct([]))
    parts = [_array([None if value is None else value[name] for value in values], one) for name, one in shape[1]]
    return pa.StructArray.from_arrays(parts, [name for name, _ in shape[1]], mask=mask)
