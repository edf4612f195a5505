"""One value as JSON, as Kafka's ``JsonConverter`` writes it: by its schema, or as it is where it has none.

Without a schema, text, numbers, booleans, bytes, lists and dictionaries are written as Kafka Connect writes Java's. A
whole number may have any length. Beyond Kafka Connect, a decimal and a UUID are text then, and times are numbers of
milliseconds, or of days.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

from semel.serdes.jackson import jackson_text
from semel.serdes.java_value import java_number
from semel.serdes.schemas.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from semel.serdes.schemas.struct import Struct
from semel.serdes.unfit import Mismatch, WrongType

__all__ = ["PLAIN", "JsonForm", "json_text", "json_value", "milliseconds", "schema_text", "unscaled"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: As JsonConverter calls them.
_NAMES = {Type.FLOAT32: "float", Type.FLOAT64: "double"}


def json_text(value: Any) -> str:
    """Return a value without a schema as JSON. Raise :class:`WrongType` for one that has no such form."""
    if value is None:
        return "null"
    write = _LOOSE.get(type(value)) or next((one for kind, one in _LOOSE.items() if isinstance(value, kind)), None)
    if write is None:
        raise WrongType(type(value).__name__)
    return write(value)


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How a value with a schema is written where there are several ways."""

    #: Decimals are numbers, and not Base64.
    numeric: bool = False
    #: A default takes the place of a null.
    defaults: bool = True
    #: Entries of a map whose keys are no texts are objects, and not pairs.
    entries: bool = False


PLAIN = JsonForm()


def json_value(schema: Schema, value: Any, form: JsonForm = PLAIN) -> str:
    """Return a checked value as JSON, by its schema. Raise :class:`Mismatch` for a null that may not be."""
    if value is None:
        if schema.default is None or (schema.optional and not form.defaults):
            if not schema.optional:
                raise Mismatch("is null, and its schema is not optional")
            return "null"
        value = schema.default
    return _BY_SCHEMA[schema.logical or schema.type](schema, value, form)


@lru_cache(1024)
def schema_text(schema: Schema, form: JsonForm = PLAIN) -> str:
    """Return a schema as JSON, in Kafka Connect's order."""
    return "{" + ",".join(_members(schema, form)) + "}"


def _members(schema: Schema, form: JsonForm) -> Iterable[str]:
    yield f'"type":"{_NAMES.get(schema.type, schema.type)}"'
    if schema.type is Type.ARRAY and schema.values is not None:
        yield f'"items":{schema_text(schema.values, form)}'
    if schema.type is Type.MAP and schema.keys is not None and schema.values is not None:
        yield f'"keys":{schema_text(schema.keys, form)}'
        yield f'"values":{schema_text(schema.values, form)}'
    if schema.type is Type.STRUCT:
        fields = (f'{schema_text(one.schema, form)[:-1]},"field":{jackson_text(one.name)}}}' for one in schema.fields)
        yield f'"fields":[{",".join(fields)}]'
    yield f'"optional":{"true" if schema.optional else "false"}'
    for name in ("name", "version", "doc"):
        value = getattr(schema, name)
        if value is not None:
            yield f'"{name}":{jackson_text(value)}'
    if schema.parameters is not None:
        yield f'"parameters":{jackson_text(dict(schema.parameters))}'
    if schema.default is not None:
        yield f'"default":{json_value(schema, schema.default, form)}'


@lru_cache(4096)
def _name(text: str) -> str:
    """Return a name as JSON: the same few names come in many records."""
    return jackson_text(text)


def milliseconds(value: datetime | time) -> int:
    """Return a time in milliseconds, of the day or since 1970, rounded down. One without a zone is in UTC."""
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    since = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def unscaled(value: Decimal) -> bytes:
    """Return the digits of a decimal as a whole number in bytes, as short as Java has it."""
    sign, digits, _ = value.as_tuple()
    number = int(Decimal((sign, digits, 0)))
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, signed=True)


def _number(value: float, bits: int = 64) -> str:
    text = java_number(value, bits)
    return text if math.isfinite(value) else f'"{text}"'  # JSON has no such numbers: Kafka Connect writes texts


def _base64(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _object(value: Mapping[Any, Any]) -> str:
    return _pairs(
        [(key, json_text(one)) for key, one in value.items()], all(isinstance(key, str) for key in value), json_text
    )


def _pairs(pairs: Iterable[tuple[Any, str]], named: bool, write_key: Callable[[Any], str]) -> str:
    """Return an object where all keys are text, else a list of pairs."""
    if named:
        return "{" + ",".join([f"{_name(key)}:{one}" for key, one in pairs]) + "}"
    return "[" + ",".join(f"[{write_key(key)},{one}]" for key, one in pairs) + "]"


def _list(value: Iterable[Any]) -> str:
    return "[" + ",".join(map(json_text, value)) + "]"


def _days(value: date) -> str:
    return str(value.toordinal() - _EPOCH.toordinal())


#: A subclass stands before its base.
_LOOSE: Mapping[type, Callable[[Any], str]] = {
    str: jackson_text,
    bool: _boolean,
    int: lambda value: str(int(value)),
    float: _number,
    dict: _object,
    list: _list,
    tuple: _list,
    bytes: _base64,
    bytearray: _base64,
    memoryview: _base64,
    Struct: lambda value: json_value(value.schema, value),
    Mapping: _object,
    datetime: lambda value: str(milliseconds(value)),
    date: _days,
    time: lambda value: str(milliseconds(value)),
    Decimal: lambda value: f'"{value}"',
    UUID: lambda value: f'"{value}"',
}


def _array_by(schema: Schema, value: Iterable[Any], form: JsonForm) -> str:
    assert schema.values is not None
    items = schema.values
    return "[" + ",".join(json_value(items, one, form) for one in value) + "]"


def _map_by(schema: Schema, value: Mapping[Any, Any], form: JsonForm) -> str:
    assert schema.keys is not None
    assert schema.values is not None
    keys, values = schema.keys, schema.values
    pairs = [(key, json_value(values, one, form)) for key, one in value.items()]
    if form.entries and (keys.type is not Type.STRING or keys.optional):
        entries = (f'{{"key":{json_value(keys, key, form)},"value":{one}}}' for key, one in pairs)
        return f"[{','.join(entries)}]"
    return _pairs(pairs, keys.type is Type.STRING, lambda key: json_value(keys, key, form))


def _struct_by(schema: Schema, value: Struct, form: JsonForm) -> str:
    cells = zip(schema.fields, value.cells, strict=True)
    return "{" + ",".join([f"{_name(one.name)}:{json_value(one.schema, cell, form)}" for one, cell in cells]) + "}"


def _decimal_by(_: Schema, value: Decimal, form: JsonForm) -> str:
    return str(value) if form.numeric else _base64(unscaled(value))


def _alone(write: Callable[[Any], str]) -> Callable[[Schema, Any, JsonForm], str]:
    return lambda _schema, value, _form: write(value)


_BY_SCHEMA: Mapping[str, Callable[[Schema, Any, JsonForm], str]] = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), _alone(str)),
    Type.FLOAT32: _alone(lambda value: _number(value, 32)),
    Type.FLOAT64: _alone(_number),
    Type.BOOLEAN: _alone(_boolean),
    Type.STRING: _alone(jackson_text),
    Type.BYTES: _alone(_base64),
    Type.ARRAY: _array_by,
    Type.MAP: _map_by,
    Type.STRUCT: _struct_by,
    DECIMAL: _decimal_by,
    DATE: _alone(_days),
    TIME: _alone(lambda value: str(milliseconds(value))),
    TIMESTAMP: _alone(lambda value: str(milliseconds(value))),
}
