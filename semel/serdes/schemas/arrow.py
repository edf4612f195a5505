"""The schema that a field of Arrow stands for, and the field for a schema.

Types say most of it: ``int8`` is int8, a timestamp is Kafka Connect's Timestamp, a decimal its Decimal. A field that is
not nullable is not optional. What Arrow has no word for is in the field's metadata: ``connect.name``,
``connect.version``, ``connect.doc``, ``connect.parameters`` and ``connect.default``, the last two as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.serdes.columns import is_json, is_list
from semel.serdes.json_value import json_value
from semel.serdes.schemas.json_form import parse_value
from semel.serdes.schemas.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from semel.serdes.schemas.struct import Struct, checked
from semel.serdes.unfit import MixedTypes, WrongType

__all__ = ["array_of", "arrow_field", "default_of", "filled", "replaced", "schema_of", "values_of"]

_DEFAULT = b"connect.default"
_PLAIN: dict[Any, Type] = {
    pa.int8(): Type.INT8,
    pa.int16(): Type.INT16,
    pa.int32(): Type.INT32,
    pa.int64(): Type.INT64,
    pa.uint8(): Type.INT16,
    pa.uint16(): Type.INT32,
    pa.uint32(): Type.INT64,
    pa.float32(): Type.FLOAT32,
    pa.float64(): Type.FLOAT64,
    pa.bool_(): Type.BOOLEAN,
    pa.string(): Type.STRING,
    pa.large_string(): Type.STRING,
    pa.null(): Type.STRING,
    pa.binary(): Type.BYTES,
    pa.large_binary(): Type.BYTES,
}
_LOGICAL: dict[Callable[[Any], bool], tuple[Type, str]] = {
    pa.types.is_timestamp: (Type.INT64, TIMESTAMP),
    pa.types.is_date32: (Type.INT32, DATE),
    pa.types.is_time: (Type.INT32, TIME),
    pa.types.is_decimal: (Type.BYTES, DECIMAL),
}
_ARROW: dict[str, Any] = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
    TIMESTAMP: pa.timestamp("ms"),
    DATE: pa.date32(),
    TIME: pa.time32("ms"),
}


def schema_of(field: pa.Field) -> Schema:
    """Return the schema of a field. Raise :class:`Unfit` for a type that has none."""
    made = _typed(field)
    text = (field.metadata or {}).get(_DEFAULT)
    return made if text is None else made.but(default=parse_value(made, json.loads(text)))


def _typed(field: pa.Field) -> Schema:
    """Return the schema of a field without its default."""
    kind, details = field.type, _details(field)
    if pa.types.is_struct(kind):
        return Schema(Type.STRUCT, fields=tuple(Field(one.name, schema_of(one)) for one in kind), **details)
    if is_list(kind):
        return Schema(Type.ARRAY, values=schema_of(kind.value_field), **details)
    if pa.types.is_map(kind):
        return Schema(Type.MAP, keys=schema_of(kind.key_field), values=schema_of(kind.item_field), **details)
    logical = next((word for check, word in _LOGICAL.items() if check(kind)), None)
    if logical is not None:
        details = {"version": 1, **details, "name": logical[1]}
        if logical[1] == DECIMAL:
            details["parameters"] = {**(details.get("parameters") or {}), "scale": str(kind.scale)}
        return Schema(logical[0], **details)
    plain = _PLAIN.get(kind)
    if plain is None:
        raise MixedTypes("values of several types have no schema") if is_json(kind) else WrongType(kind)
    return Schema(plain, **details)


def _details(field: pa.Field) -> dict[str, Any]:
    details: dict[str, Any] = {"optional": field.nullable}
    metadata = field.metadata or {}
    for name in (b"name", b"version", b"doc", b"parameters"):
        text = metadata.get(b"connect." + name)
        if text is not None:
            details[name.decode()] = _read(name, text.decode())
    return details


def _read(name: bytes, text: str) -> Any:
    if name == b"version":
        return int(text)
    return json.loads(text) if name == b"parameters" else text


def arrow_field(name: str, schema: Schema) -> pa.Field:
    """Return the field of Arrow that stands for a schema. A decimal has 38 digits in it."""
    word, version, parameters = schema.name, schema.version, dict(schema.parameters or {})
    if schema.logical is not None:
        word, version = None, None if version == 1 else version
        parameters.pop("scale", None)
    said = (
        ("name", word),
        ("version", version),
        ("doc", schema.doc),
        ("parameters", json.dumps(parameters) if parameters else None),
    )
    metadata = {f"connect.{detail}": str(value) for detail, value in said if value is not None}
    if schema.default is not None:
        metadata[_DEFAULT.decode()] = json_value(schema, schema.default)
    return pa.field(name, _arrow_type(schema), nullable=schema.optional, metadata=metadata or None)


def _arrow_type(schema: Schema) -> Any:
    if schema.logical == DECIMAL:
        return pa.decimal128(38, schema.scale)
    if schema.type is Type.STRUCT:
        return pa.struct([arrow_field(one.name, one.schema) for one in schema.fields])
    if schema.type is Type.ARRAY and schema.values is not None:
        return pa.list_(arrow_field("item", schema.values))
    if schema.type is Type.MAP and schema.keys is not None and schema.values is not None:
        return pa.map_(arrow_field("key", schema.keys), arrow_field("value", schema.values))
    return _ARROW[schema.logical or schema.type]


def default_of(field: pa.Field) -> Any:
    """Return the default of a field as a scalar of its type, or None."""
    if _DEFAULT not in (field.metadata or {}):
        return None
    schema = schema_of(field)
    return pa.scalar(_plain(checked(schema, schema.default)), field.type)


def array_of(values: Sequence[Any], field: pa.Field) -> Any:
    """Return checked values as a column of the field that stands for their schema."""
    return pa.array([_plain(one) for one in values], field.type)


def values_of(column: Any, schema: Schema) -> list[Any]:
    """Return the values of a column as their schema has them.

    Raises :class:`~semel.serdes.unfit.Mismatch` for those that do not fit it.
    """
    return [None if one is None else checked(schema, _python(schema, one)) for one in column.to_pylist()]


def _python(schema: Schema, value: Any) -> Any:
    """Return a value of Arrow with dictionaries for its maps."""
    if value is None:
        return None
    if schema.type is Type.STRUCT:
        return {one.name: _python(one.schema, value[one.name]) for one in schema.fields}
    if schema.type is Type.ARRAY and schema.values is not None:
        return [_python(schema.values, one) for one in value]
    if schema.type is Type.MAP and schema.keys is not None and schema.values is not None:
        return {_python(schema.keys, key): _python(schema.values, one) for key, one in value}
    return value


def filled(values: Any, field: pa.Field) -> Any:
    """Return a column with the default of its field in the place of nulls."""
    default = default_of(field) if values.null_count else None
    return values if default is None else replaced(values, values.is_null(), default)


def replaced(values: Any, mask: Any, scalar: Any) -> Any:
    """Return a column with a scalar of its type where a mask is true."""
    if pa.types.is_nested(values.type):
        return pc.if_else(mask, scalar, values)
    return pc.replace_with_mask(values, mask, scalar)  # a choice would change the scale of some decimals


def _plain(value: Any) -> Any:
    """Return a checked value as Arrow takes it."""
    if isinstance(value, Struct):
        return {name: _plain(cell) for name, cell in zip(value.schema.places, value.cells, strict=True)}
    if isinstance(value, dict):
        return [(_plain(key), _plain(one)) for key, one in value.items()]
    return [_plain(one) for one in value] if isinstance(value, list) else value
