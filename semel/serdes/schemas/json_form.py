"""Schemas and values read from JSON in the form that ``JsonConverter`` writes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from semel.serdes.schemas.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type

__all__ = ["decimal_of", "parse_schema", "parse_value"]

_TYPES = {**{str(one): one for one in Type}, "float": Type.FLOAT32, "double": Type.FLOAT64}
_DETAILS = ("optional", "name", "version", "doc", "parameters")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_schema(text: Mapping[str, Any] | None) -> Schema | None:
    """Return the schema of an envelope; None for the value of none. Raise ``KeyError`` for what is no schema."""
    return None if text is None else _schema(text)


def _schema(text: Mapping[str, Any]) -> Schema:
    kind = _TYPES[text["type"]]
    details = {name: text[name] for name in _DETAILS if text.get(name) is not None}
    if kind is Type.STRUCT:
        details["fields"] = tuple(Field(one["field"], _schema(one)) for one in text["fields"])
    elif kind is Type.ARRAY:
        details["values"] = _schema(text["items"])
    elif kind is Type.MAP:
        details |= {"keys": _schema(text["keys"]), "values": _schema(text["values"])}
    made = Schema(kind, **details)
    default = text.get("default")
    return made if default is None else made.but(default=parse_value(made, default))


def parse_value(schema: Schema, payload: Any) -> Any:
    """Return the value of a payload, as :func:`~semel.serdes.schemas.struct.checked` takes it."""
    if payload is None:
        return None
    read = _READ.get(schema.logical or schema.type)
    return payload if read is None else read(schema, payload)


def _map(schema: Schema, payload: Any) -> dict[Any, Any]:
    assert schema.keys is not None
    assert schema.values is not None
    pairs = payload.items() if isinstance(payload, Mapping) else payload
    return {parse_value(schema.keys, key): parse_value(schema.values, one) for key, one in pairs}


def _array(schema: Schema, payload: Any) -> list[Any]:
    assert schema.values is not None
    return [parse_value(schema.values, one) for one in payload]


def _struct(schema: Schema, payload: Any) -> dict[str, Any]:
    return {one.name: parse_value(one.schema, payload.get(one.name)) for one in schema.fields}


def _decimal(schema: Schema, payload: Any) -> Decimal:
    if not isinstance(payload, str):
        return Decimal(str(payload))
    return decimal_of(int.from_bytes(base64.b64decode(payload), signed=True), schema.scale)


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """Return a decimal by its digits, and the number of them after its point."""
    return Decimal((0 if unscaled >= 0 else 1, tuple(map(int, str(abs(unscaled)))), -scale))


def _time(_: Schema, payload: int) -> time:
    return (_EPOCH + timedelta(milliseconds=payload)).time()


_READ: Mapping[str, Callable[[Schema, Any], Any]] = {
    Type.FLOAT32: lambda _, payload: float(payload),
    Type.FLOAT64: lambda _, payload: float(payload),
    Type.BYTES: lambda _, payload: base64.b64decode(payload),
    Type.ARRAY: _array,
    Type.MAP: _map,
    Type.STRUCT: _struct,
    DECIMAL: _decimal,
    DATE: lambda _, payload: date(1970, 1, 1) + timedelta(days=payload),
    TIME: _time,
    TIMESTAMP: lambda _, payload: _EPOCH + timedelta(milliseconds=payload),
}
