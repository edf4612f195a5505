"""A column of Arrow as Avro's bytes, without a loop over its values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.serdes.avro.options import AvroOptions
from semel.serdes.avro.schema import FIXED_SIZE, is_enum, is_union
from semel.serdes.columns import is_list, whole
from semel.serdes.java_text import without_zone
from semel.serdes.json_value import unscaled
from semel.serdes.schemas.arrow import filled
from semel.serdes.schemas.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from semel.serdes.text import as_bytes, checked_text
from semel.serdes.unfit import Mismatch

__all__ = ["avro_column", "can_write"]

_NULL, _VALUE = b"\x00", b"\x02"
_BINARY = pa.large_binary()
_END = pa.scalar(b"", _BINARY)


def can_write(schema: Schema, options: AvroOptions) -> bool:
    """Return whether columns of a schema are written here: all but choices, enumerations and fixed bytes."""
    parts = [one for one in (schema.keys, schema.values, *(field.schema for field in schema.fields)) if one]
    plain = not (is_union(schema) or is_enum(schema, options) or FIXED_SIZE in (schema.parameters or {}))
    return plain and all(can_write(one, options) for one in parts)


def avro_column(column: Any, field: pa.Field, schema: Schema, options: AvroOptions) -> Any:
    """Return the bytes of each value; null for a null. ``schema`` is the one of the field.

    Raises :class:`Mismatch` for a null that may not be.
    """
    column = whole(column)
    empty = column.is_null()
    made = _part(column, field, schema, options, empty)
    if schema.type is Type.BYTES and not schema.optional:  # Confluent writes bytes alone as they are
        made = as_bytes(whole(column)).cast(_BINARY) if schema.logical is None else _bytes_of(column, schema)
    return pc.if_else(empty, pa.scalar(None, _BINARY), made)


def _part(column: Any, field: pa.Field, schema: Schema, options: AvroOptions, above: Any) -> Any:
    """Return the bytes of each value, with the choice of null where it is optional. ``above`` is true where the value
    around this one is null: nothing of this one is used there.
    """
    if not (options.null_stays and schema.optional):
        column = filled(column, field)
    missing = column.is_null()
    if not schema.optional and pc.any(pc.and_not(missing, above)).as_py():
        raise Mismatch(f"does not fit: its field {field.name:.60} is null, and its schema is not optional")
    made = pc.fill_null(_value(column, schema, options), _END)
    if not schema.optional:
        return made
    null, value = (_NULL, _VALUE) if schema.default is None else (_VALUE, _NULL)
    first = pc.if_else(missing, pa.scalar(null, _BINARY), pa.scalar(value, _BINARY))
    return _joined(first, pc.if_else(missing, _END, made))


def _value(column: Any, schema: Schema, options: AvroOptions) -> Any:
    """Return the bytes of each value. What stands at a null does not count."""
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), _BINARY)
    if pa.types.is_struct(kind):
        missing = column.is_null()
        parts = [
            _part(whole(values), field, one.schema, options, missing)
            for field, values, one in zip(kind, column.flatten(), schema.fields, strict=True)
        ]
        return _joined(*parts) if parts else _repeated(b"", len(column))
    if is_list(kind):
        assert schema.values is not None
        items = column.flatten()
        return _block(column, _part(items, kind.value_field, schema.values, options, _nowhere(items)))
    if pa.types.is_map(kind):
        pairs = column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        halves = zip(
            pairs.flatten().flatten(), (kind.key_field, kind.item_field), (schema.keys, schema.values), strict=True
        )
        parts = [
            _part(values, field, one, options, _nowhere(values)) for values, field, one in halves if one is not None
        ]
        return _block(pairs, _joined(*parts))
    return _SCALARS[schema.type](column, schema)


def _nowhere(values: Any) -> Any:
    return pa.repeat(False, len(values))


def _block(column: Any, items: Any) -> Any:
    """Return the items of each list after their number, and a zero at the end."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64())
    ends = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    joined = pc.binary_join(pa.LargeListArray.from_arrays(ends, items), pa.scalar(b"", _BINARY))
    full = _joined(_varint(lengths), joined, _repeated(_NULL, len(column)))
    return pc.if_else(pc.equal(lengths, 0), pa.scalar(_NULL, _BINARY), full)


def _joined(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, _END)


def _repeated(value: bytes, count: int) -> Any:
    return pa.repeat(pa.scalar(value, _BINARY), count)


def _varint(column: Any) -> Any:
    """Return whole numbers as Avro has them: zigzag, seven bits a byte, the lowest first."""
    numbers = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    size = np.ones(len(numbers), np.int64)
    for place in range(1, 10):
        size += zigzag >= np.uint64(1 << (7 * place))
    ends = np.concatenate([[0], np.cumsum(size)])
    made = np.zeros(ends[-1], np.uint8)
    for place in range(int(size.max(initial=0))):
        there = size > place
        digits = (zigzag[there] >> np.uint64(7 * place)) & np.uint64(0x7F)
        more = (size[there] > place + 1).astype(np.uint8) << 7
        made[ends[:-1][there] + place] = digits.astype(np.uint8) | more
    return pa.Array.from_buffers(_BINARY, len(numbers), [None, pa.py_buffer(ends), pa.py_buffer(made)])


def _whole(column: Any, schema: Schema) -> Any:
    match schema.logical:
        case logical if logical == TIMESTAMP:
            column = pc.floor_temporal(without_zone(column), unit="millisecond").cast(pa.timestamp("ms"))
        case logical if logical == TIME:
            column = column.cast(pa.time32("ms"), safe=False).cast(pa.int32())
        case logical if logical == DATE:
            column = column.cast(pa.int32())
    return _varint(column)


def _floating(column: Any, schema: Schema) -> Any:
    form = "<f4" if schema.type is Type.FLOAT32 else "<f8"
    kind = pa.float32() if schema.type is Type.FLOAT32 else pa.float64()
    data = pc.fill_null(column.cast(kind), 0.0).to_numpy(zero_copy_only=False).astype(form)
    return _fixed(data)


def _boolean(column: Any, _: Schema) -> Any:
    return _fixed(pc.fill_null(column, False).cast(pa.int8()).to_numpy(zero_copy_only=False))


def _fixed(data: Any) -> Any:
    """Return numbers of one width as bytes."""
    made = pa.Array.from_buffers(pa.binary(data.itemsize), len(data), [None, pa.py_buffer(data.tobytes())])
    return made.cast(pa.binary()).cast(_BINARY)


def _text(column: Any, _: Schema) -> Any:
    return _sized(as_bytes(checked_text(column)).cast(_BINARY))


def _bytes(column: Any, schema: Schema) -> Any:
    return _sized(_bytes_of(column, schema))


def _bytes_of(column: Any, schema: Schema) -> Any:
    if schema.logical == DECIMAL:  # Arrow does not give the digits as bytes
        return pa.array([None if one is None else unscaled(one) for one in column.to_pylist()], _BINARY)
    return column.cast(_BINARY)


def _sized(column: Any) -> Any:
    return _joined(_varint(pc.fill_null(pc.binary_length(column), 0)), pc.fill_null(column, _END))


_SCALARS = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), _whole),
    Type.FLOAT32: _floating,
    Type.FLOAT64: _floating,
    Type.BOOLEAN: _boolean,
    Type.STRING: _text,
    Type.BYTES: _bytes,
}
