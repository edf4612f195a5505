"""JSON as Kafka's ``JsonConverter`` writes it, with or without a schema, a column at a time.

The JSON is Kafka Connect's, without blanks. With a schema, a value is
``{"schema":…,"payload":…}``; a null is a tombstone in both forms. Columns of Arrow have types, and these are the
schema: int64 for Python's numbers, struct for its dictionaries. A field that is not nullable is not optional.
Timestamps and times are milliseconds, bytes are Base64. A decimal is its text, and so is a number that JSON lacks.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.serdes.columns import is_json, is_list, joined_items, whole
from semel.serdes.jackson import escape_pairs
from semel.serdes.java_text import number_text, without_zone
from semel.serdes.text import as_bytes, checked_text
from semel.serdes.unfit import MixedTypes, Unfit, WrongType

__all__ = ["json_text", "write_json"]

_INTEGERS = {
    pa.int8(): "int8",
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.uint8(): "int16",
    pa.uint16(): "int32",
    pa.uint32(): "int64",
}
#: What JSON must escape, and how: the backslash first, since the others bring some.
_ESCAPES = [
    ("\\", "\\\\"),
    ('"', '\\"'),
    ("\n", "\\n"),
    ("\r", "\\r"),
    ("\t", "\\t"),
    ("\b", "\\b"),
    ("\f", "\\f"),
]
_MUST = r'[\\"\x00-\x1f\x{10000}-\x{10FFFF}]'
_RARE = r"[\x00-\x07\x0b\x0e-\x1f]"
_PAIRED = r"[\x{10000}-\x{10FFFF}]"


def write_json(column: Any, field: pa.Field, *, with_schema: bool) -> Any:
    """Write each value as JSON, with its schema or without. ``field`` says whether it is optional.

    Raises :class:`Unfit` for what JSON does not hold.
    """
    column = whole(column)
    if column.type == pa.null():
        return column.cast(pa.binary())
    text = _text(column)
    if with_schema:
        schema = json.dumps(_schema(field.with_type(column.type)), separators=(",", ":"), ensure_ascii=False)
        text = pc.binary_join_element_wise(f'{{"schema":{schema},"payload":', text, "}", "")
    # a null is a tombstone, and no JSON
    return as_bytes(pc.if_else(column.is_null(), pa.scalar(None, text.type), text))


def json_text(value: Any) -> str:
    """Return one value of Python's as JSON, whatever types its parts have."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(name)}:{json_text(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, Decimal):
        return f'"{value}"'
    return str(_text(pa.array([value]))[0].as_py())


def _schema(field: pa.Field) -> dict[str, Any]:
    """Return the schema of a field, in Kafka Connect's order."""
    kind = field.type
    if pa.types.is_struct(kind):
        fields = [{**_schema(one), "field": one.name} for one in kind]
        return {"type": "struct", "fields": fields, "optional": field.nullable}
    if is_list(kind):
        return {"type": "array", "items": _schema(kind.value_field), "optional": field.nullable}
    logical = next((word for check, word in _LOGICAL.items() if check(kind)), None)
    if logical is not None:
        return {"type": logical[0], "optional": field.nullable, "name": f"{_DATA}{logical[1]}", "version": 1}
    word = _INTEGERS.get(kind) or next((word for check, word in _PLAIN.items() if check(kind)), None)
    if word is None:
        raise _refused(kind)
    return {"type": word, "optional": field.nullable}


_DATA = "org.apache.kafka.connect.data."
_LOGICAL: dict[Callable[[Any], bool], tuple[str, str]] = {
    pa.types.is_timestamp: ("int64", "Timestamp"),
    pa.types.is_date32: ("int32", "Date"),
    pa.types.is_time: ("int32", "Time"),
}
_PLAIN: dict[Callable[[Any], bool], str] = {
    pa.types.is_string: "string",
    pa.types.is_large_string: "string",
    pa.types.is_boolean: "boolean",
    pa.types.is_float32: "float",
    pa.types.is_float64: "double",
    pa.types.is_decimal: "string",
    pa.types.is_binary: "bytes",
    pa.types.is_large_binary: "bytes",
    pa.types.is_null: "string",
}


def _text(column: Any) -> Any:
    """Each value as JSON; null is the word."""
    kind = column.type
    if pa.types.is_struct(kind):
        text = _object(column)
    elif is_list(kind):
        text = joined_items(column, _text(column.flatten()), ",")
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = _quoted(checked_text(column).cast(pa.string()))
    elif is_json(kind):
        text = column.storage.cast(pa.string())
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind):
        text = column.cast(pa.string())
    elif pa.types.is_floating(kind):
        text = number_text(column)
        if pc.all(pc.is_finite(column)).as_py() is False:  # JSON has no such numbers: Kafka Connect writes texts
            text = pc.if_else(pc.is_finite(column), text, pc.binary_join_element_wise('"', text, '"', ""))
    elif pa.types.is_timestamp(kind):
        time = pc.floor_temporal(without_zone(column), unit="millisecond").cast(pa.timestamp("ms"))
        text = time.cast(pa.int64()).cast(pa.string())
    elif pa.types.is_date32(kind):
        text = column.cast(pa.int32()).cast(pa.string())
    elif pa.types.is_time(kind):
        text = column.cast(pa.time32("ms"), safe=False).cast(pa.int32()).cast(pa.string())
    elif pa.types.is_decimal(kind):
        text = pc.binary_join_element_wise('"', column.cast(pa.string()), '"', "")
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        # Arrow has no Base64
        text = pa.array(
            [None if one is None else f'"{base64.b64encode(one).decode()}"' for one in column.to_pylist()], pa.string()
        )
    else:
        raise _refused(kind)
    return pc.fill_null(text, "null")


def _object(column: Any) -> Any:
    parts: list[Any] = []
    for field, values in zip(column.type, column.flatten(), strict=True):
        parts += [f"{',' if parts else '{'}{_key(field.name)}:", _text(values)]
    text = pc.binary_join_element_wise(*parts, "}", "") if parts else pa.repeat("{}", len(column))
    return pc.if_else(column.is_null(), pa.scalar(None, pa.string()), text)


def _key(name: object) -> str:
    return str(_quoted(pa.array([str(name)]))[0].as_py())


def _quoted(text: Any) -> Any:
    if pc.any(pc.match_substring_regex(text, _MUST)).as_py():
        for plain, escaped in _ESCAPES:
            text = pc.replace_substring(text, plain, escaped)
        if pc.any(pc.match_substring_regex(text, _RARE)).as_py():
            for code in (*range(8), 0x0B, *range(0x0E, 0x20)):
                text = pc.replace_substring(text, chr(code), f"\\u{code:04X}")
        if pc.any(pc.match_substring_regex(text, _PAIRED)).as_py():  # keys are compared as bytes
            text = pa.array([one and escape_pairs(one) for one in text.to_pylist()], pa.string())
    return pc.binary_join_element_wise('"', text, '"', "")


def _refused(kind: Any) -> Unfit:
    return MixedTypes("values of several types have no schema") if is_json(kind) else WrongType(kind)
