"""Numbers and booleans as Kafka's serializers write them, the highest byte first: ``LongConverter`` and the others.

Python's numbers have no width: ``IntegerConverter`` takes whole numbers that fit into 32 bits, ``FloatConverter`` those
that 32 bits hold exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.converters.nested import whole
from semel.connect.converters.plain import Converter
from semel.errors import ConfigError

__all__ = ["NUMBERS"]


def _number(name: str, kind: Any, written: str) -> Converter:
    def convert(column: Any, field: pa.Field) -> Any:
        column = whole(column)
        if column.null_count == len(column):
            return pa.nulls(len(column), pa.binary())
        values = _fitting(column, kind, f"{name}Converter", field.name)
        values = values.cast(pa.int8()) if kind == pa.bool_() else values
        native = np.dtype(written).newbyteorder("=")
        buffer, width = values.buffers()[1] or b"", native.itemsize
        data = np.frombuffer(buffer, native, len(values), values.offset * width).astype(written)
        fixed = pa.Array.from_buffers(pa.binary(width), len(data), [None, pa.py_buffer(data.tobytes())])
        return pc.if_else(column.is_null(), pa.scalar(None, pa.binary()), fixed.cast(pa.binary()))

    return convert


def _fitting(column: Any, kind: Any, converter: str, name: str) -> Any:
    """Return the column with this type. Raise :class:`ConfigError` for other values, and for those that do not fit."""
    groups = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    if not any(group(kind) and group(column.type) for group in groups):
        raise ConfigError(
            f"a {name} is {column.type}, and {converter} writes {kind}. Nothing of this poll is visible. Choose another"
            f" {name}.converter.",
            tag="WRONG_TYPE",
        )
    try:
        values = column.cast(kind)
    except pa.ArrowInvalid:
        values = None
    # Arrow rounds numbers to fewer bits
    if values is None or (pa.types.is_floating(kind) and not _same(values.cast(column.type), column)):
        raise ConfigError(
            f"a {name} does not fit into {kind}, which {converter} writes. Nothing of this poll is visible. Choose a"
            f" wider {name}.converter.",
            tag="WRONG_TYPE",
        )
    return values


def _same(left: Any, right: Any) -> bool:
    return pc.all(pc.or_(pc.equal(left, right), pc.is_nan(right))).as_py() is not False


#: By the first part of the names of their classes.
NUMBERS: Mapping[str, Converter] = MappingProxyType(
    {
        name: _number(name, kind, written)
        for name, kind, written in (
            ("Long", pa.int64(), ">i8"),
            ("Integer", pa.int32(), ">i4"),
            ("Short", pa.int16(), ">i2"),
            ("Double", pa.float64(), ">f8"),
            ("Float", pa.float32(), ">f4"),
            ("Boolean", pa.bool_(), "i1"),
        )
    }
)
