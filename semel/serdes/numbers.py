"""Numbers and booleans as Kafka's serializers write them, the highest byte first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.serdes.columns import whole
from semel.serdes.unfit import TooWide, WrongType

__all__ = ["NUMBERS", "Number"]


@dataclass(frozen=True, slots=True)
class Number:
    """One kind of number: its type in Arrow, and its form in bytes."""

    kind: Any
    form: str

    def write_exact(self, column: Any) -> Any:
        """Write numbers, however many bits their column has. Raise :class:`WrongType` for whole numbers beside others,
        and :class:`TooWide` for those that would change.
        """
        column = whole(column)
        if column.null_count == len(column):
            return pa.nulls(len(column), pa.binary())
        return self.write(_fitting(column, self.kind))

    def write_one(self, value: Any) -> bytes:
        """Write one number as :meth:`write_exact` does."""
        if type(value) not in (int, float, bool):
            raise WrongType(type(value).__name__)
        try:
            return bytes(self.write_exact(pa.array([value]))[0].as_py())
        except OverflowError:
            raise TooWide(f"a number does not fit into {self.kind}") from None

    def write(self, column: Any) -> Any:
        """Write a column of this type."""
        column = column.cast(pa.int8()) if self.kind == pa.bool_() else column
        native = np.dtype(self.form).newbyteorder("=")
        width = native.itemsize
        data = np.frombuffer(column.buffers()[1] or b"", native, len(column), column.offset * width).astype(self.form)
        fixed = pa.Array.from_buffers(pa.binary(width), len(data), [None, pa.py_buffer(data.tobytes())])
        written = fixed.cast(pa.binary())
        return pc.if_else(column.is_valid(), written, pa.scalar(None, pa.binary())) if column.null_count else written

    def read(self, column: Any) -> Any:
        """Read a column of bytes. Raise ``ValueError`` for bytes of another length."""
        width = np.dtype(self.form).itemsize
        if len(column) == column.null_count:
            return pa.nulls(len(column), self.kind)
        lengths = pc.unique(pc.binary_length(column.drop_null())).to_pylist()
        if lengths != [width]:
            raise ValueError(f"a number has {width} bytes, and here are {sorted(lengths)}")
        values = np.frombuffer(b"".join(column.fill_null(b"\0" * width).to_pylist()), self.form)
        native = values.astype(values.dtype.newbyteorder("="))
        return pa.array(native, self.kind, mask=column.is_null().to_numpy(zero_copy_only=False))


def _fitting(column: Any, kind: Any) -> Any:
    """Return the column with this type. Raise :class:`Unfit` for other values, and for those that do not fit."""
    groups = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    if not any(group(kind) and group(column.type) for group in groups):
        raise WrongType(column.type)
    try:
        values = column.cast(kind)
    except pa.ArrowInvalid:
        raise TooWide(f"a number does not fit into {kind}") from None
    # Arrow rounds numbers to fewer bits
    if pa.types.is_floating(kind) and not _same(values.cast(column.type), column):
        raise TooWide(f"a number does not fit into {kind}")
    return values


def _same(left: Any, right: Any) -> bool:
    return pc.all(pc.or_(pc.equal(left, right), pc.is_nan(right))).as_py() is not False


#: By the names of Kafka's serializers.
NUMBERS: Mapping[str, Number] = MappingProxyType(
    {
        "Long": Number(pa.int64(), ">i8"),
        "Integer": Number(pa.int32(), ">i4"),
        "Short": Number(pa.int16(), ">i2"),
        "Double": Number(pa.float64(), ">f8"),
        "Float": Number(pa.float32(), ">f4"),
        "Boolean": Number(pa.bool_(), "i1"),
    }
)
