"""Defaults of Kafka Connect's schemas as Avro's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from semel.serdes.avro.names import field_name
from semel.serdes.avro.nodes import NO_DEFAULT, Float, Named, Node, Of, Plain, Union
from semel.serdes.avro.options import AvroOptions
from semel.serdes.json_value import milliseconds, unscaled
from semel.serdes.schemas.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from semel.serdes.schemas.struct import Struct

__all__ = ["default_json", "fits", "has_text_keys", "physical"]

_EPOCH = date(1970, 1, 1).toordinal()
_PHYSICAL: Mapping[str, Any] = {
    DECIMAL: unscaled,
    DATE: lambda value: value.toordinal() - _EPOCH,
    TIME: milliseconds,
    TIMESTAMP: milliseconds,
}
_TEXTS = frozenset({"string", "bytes", "enum", "fixed"})


def physical(schema: Schema, value: Any) -> Any:
    """Return the number or the bytes that stand for a value of a logical type; others as they are."""
    write = _PHYSICAL.get(schema.logical or "")
    return value if write is None else write(value)


def has_text_keys(schema: Schema, options: AvroOptions) -> bool:
    """Return whether a map is one of Avro's: else it is a list of entries."""
    assert schema.keys is not None
    return schema.keys.type is Type.STRING and (not schema.keys.optional or options.optional_map_keys)


def default_json(schema: Schema, value: Any, options: AvroOptions) -> Any:
    """Return a default, or a part of one, as JSON."""
    if value is None:
        return None
    value = physical(schema, value)
    match schema.type:
        case Type.FLOAT32 | Type.FLOAT64:
            return Float(value, 32 if schema.type is Type.FLOAT32 else 64)
        case Type.BYTES:
            return value.decode("latin-1")
        case Type.ARRAY if schema.values is not None:
            return [default_json(schema.values, one, options) for one in value]
        case Type.MAP if schema.keys is not None and schema.values is not None:
            pairs = [
                (default_json(schema.keys, key, options), default_json(schema.values, one, options))
                for key, one in value.items()
            ]
            return dict(pairs) if has_text_keys(schema, options) else [list(pair) for pair in pairs]
        case Type.STRUCT:
            return _struct(schema, value, options)
    return value


def _struct(schema: Schema, value: Struct, options: AvroOptions) -> Any:
    return {field_name(one.name, options): default_json(one.schema, value[one.name], options) for one in schema.fields}


def fits(node: Node, value: Any) -> bool:
    """Return whether Avro takes a default: one that it refuses is left out of a field, as Confluent does."""
    if isinstance(node, Union):
        return any(fits(one, value) for one in node.branches)
    kind = node.type
    if kind == "null":
        return value is None
    if kind in _TEXTS:
        return isinstance(value, str)
    if kind in ("int", "long"):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(node, Of):
        if kind == "array":
            return isinstance(value, list) and all(fits(node.inner, one) for one in value)
        return isinstance(value, dict) and all(fits(node.inner, one) for one in value.values())
    if isinstance(node, Named):
        return isinstance(value, dict) and all(_fits_field(one, value) for one in node.fields)
    assert isinstance(node, Plain)
    return isinstance(value, bool if kind == "boolean" else Float | int)


def _fits_field(one: Any, value: dict[str, Any]) -> bool:
    return (
        fits(one.node, value.get(one.name, one.default))
        if one.default is not NO_DEFAULT or one.name in value
        else False
    )
