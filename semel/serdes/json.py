"""JSON as Kafka's ``JsonConverter`` writes it, with or without a schema, a column at a time.

The JSON is Kafka Connect's, without blanks. With a schema, a value is ``{"schema":…,"payload":…}``; a null is a
tombstone in both forms. The schema is the one that the field of Arrow stands for. Timestamps and times are
milliseconds; bytes are Base64, and so are decimals unless the form says numbers. A number that JSON lacks is text.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.serdes.columns import is_json, is_list, joined_items, whole
from semel.serdes.jackson import escape_pairs, jackson_text
from semel.serdes.java_text import number_text, without_zone
from semel.serdes.json_value import PLAIN, JsonForm, json_value, schema_text, unscaled
from semel.serdes.schemas.arrow import default_of, schema_of
from semel.serdes.text import as_bytes, checked_text
from semel.serdes.unfit import Mismatch, WrongType

__all__ = ["write_json"]

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


def write_json(column: Any, field: pa.Field, *, with_schema: bool, form: JsonForm = PLAIN) -> Any:
    """Write each value as JSON, with its schema or without. ``field`` says whether it is optional.

    Raises :class:`Unfit` for what JSON does not hold.
    """
    column = whole(column)
    if column.type == pa.null():
        return column.cast(pa.binary())
    text = _text(column, form)
    if with_schema:
        schema = schema_text(schema_of(field.with_type(column.type)), form)
        text = pc.binary_join_element_wise(f'{{"schema":{schema},"payload":', text, "}", "")
    # a null is a tombstone, and no JSON
    return as_bytes(pc.if_else(column.is_null(), pa.scalar(None, text.type), text))


def _part(column: Any, field: pa.Field, form: JsonForm) -> Any:
    """Return values inside of others as JSON; null is the word, or the default of its field."""
    if pa.types.is_null(column.type):
        return pa.repeat("null", len(column))
    text = _text(column, form)
    if not text.null_count:
        return text
    schema = schema_of(field) if field.metadata and (form.defaults or not field.nullable) else None
    return pc.fill_null(
        text, "null" if schema is None or schema.default is None else json_value(schema, schema.default, form)
    )


def _text(column: Any, form: JsonForm) -> Any:
    """Return each value as JSON; a null stays one."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _object(column, form)
    if pa.types.is_map(kind):
        return _map(column, form)
    if is_list(kind):
        return joined_items(column, _part(column.flatten(), kind.value_field, form), ",")
    if form.numeric and pa.types.is_decimal(kind):
        return column.cast(pa.string())
    write = next((write for check, write in _WRITERS.items() if check(kind)), None)
    if write is None:
        raise WrongType(kind)
    return write(column)


def _object(column: Any, form: JsonForm) -> Any:
    parts: list[Any] = []
    for field, values in zip(column.type, column.flatten(), strict=True):
        if not field.nullable and values.null_count > column.null_count and default_of(field) is None:
            raise Mismatch(f"does not fit: its field {field.name:.60} is null, and its schema is not optional")
        parts += [f"{',' if parts else '{'}{jackson_text(field.name)}:", _part(values, field, form)]
    text = pc.binary_join_element_wise(*parts, "}", "") if parts else pa.repeat("{}", len(column))
    return pc.if_else(column.is_null(), pa.scalar(None, pa.string()), text)


def _map(column: Any, form: JsonForm) -> Any:
    """Return an object for a map whose keys are text, else a list of pairs, or of entries."""
    kind = column.type
    pairs = column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    keys, values = (
        _part(part, field, form)
        for part, field in zip(pairs.flatten().flatten(), (kind.key_field, kind.item_field), strict=True)
    )
    keyed = schema_of(kind.key_field)
    if form.entries and (keyed.type != "string" or keyed.optional):
        return joined_items(pairs, pc.binary_join_element_wise('{"key":', keys, ',"value":', values, "}", ""), ",")
    if keyed.type == "string":
        return joined_items(pairs, pc.binary_join_element_wise(keys, values, ":"), ",", "{}")
    return joined_items(
        pairs, pc.binary_join_element_wise("[", pc.binary_join_element_wise(keys, values, ","), "]", ""), ","
    )


def _plain(column: Any) -> Any:
    return column.cast(pa.string())


def _floating(column: Any) -> Any:
    text, finite = number_text(column), pc.is_finite(column)
    if pc.all(finite).as_py() is not False:
        return text
    return pc.if_else(finite, text, pc.binary_join_element_wise('"', text, '"', ""))  # JSON has no such numbers


def _timestamp(column: Any) -> Any:
    moment = pc.floor_temporal(without_zone(column), unit="millisecond").cast(pa.timestamp("ms"))
    return moment.cast(pa.int64()).cast(pa.string())


def _decimal(column: Any) -> Any:
    return _base64([None if one is None else unscaled(one) for one in column.to_pylist()])


def _base64(values: list[bytes | None]) -> Any:
    """Arrow has no Base64."""
    return pa.array([None if one is None else f'"{base64.b64encode(one).decode()}"' for one in values], pa.string())


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


_WRITERS: dict[Callable[[Any], bool], Callable[[Any], Any]] = {
    pa.types.is_string: lambda column: _quoted(checked_text(column)),
    pa.types.is_large_string: lambda column: _quoted(checked_text(column).cast(pa.string())),
    is_json: lambda column: column.storage.cast(pa.string()),
    pa.types.is_boolean: _plain,
    pa.types.is_integer: _plain,
    pa.types.is_floating: _floating,
    pa.types.is_timestamp: _timestamp,
    pa.types.is_date32: lambda column: column.cast(pa.int32()).cast(pa.string()),
    pa.types.is_time: lambda column: column.cast(pa.time32("ms"), safe=False).cast(pa.int32()).cast(pa.string()),
    pa.types.is_decimal: _decimal,
    pa.types.is_binary: lambda column: _base64(column.to_pylist()),
    pa.types.is_large_binary: lambda column: _base64(column.to_pylist()),
}
