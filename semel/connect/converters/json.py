"""``JsonConverter``: values as JSON, with or without a schema around them, a column at a time.

The JSON is Kafka Connect's, without blanks. With ``schemas.enable``, its default, a value is
``{"schema":…,"payload":…}``; a null is a tombstone in both forms. Columns of Arrow have types, and these are the
schema: int64 for Python's numbers, struct for its dictionaries. Timestamps are milliseconds, bytes are Base64, and a
decimal is its text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.converters.plain import Converter, refuse_unknown
from semel.errors import ConfigError

__all__ = ["json_converter"]

_INTEGERS = {
    pa.int8(): "int8",
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.uint8(): "int16",
    pa.uint16(): "int32",
    pa.uint32(): "int64",
}
_TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
_DATE = "org.apache.kafka.connect.data.Date"
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
_MUST = r'[\\"\x00-\x1f]'
_RARE = r"[\x00-\x07\x0b\x0e-\x1f]"


def json_converter(options: Mapping[str, str], setting: str) -> Converter:
    """Return the converter with these options. Raise :class:`ConfigError` for one that is not there."""
    if "decimal.format" in options:
        raise ConfigError(
            f"{setting}.decimal.format is not there: JsonConverter writes a decimal as text. Nothing was read or"
            " written. Remove it.",
            tag="CONVERTER",
        )
    refuse_unknown(options, {"schemas.enable"}, setting)
    enabled = options.get("schemas.enable", "true").lower()
    if enabled not in ("true", "false"):
        raise ConfigError(
            f"{setting}.schemas.enable={enabled:.100} is neither true nor false. Nothing was read or written. Correct"
            " it.",
            tag="CONVERTER",
        )
    with_schema = enabled == "true"

    def convert(column: Any, name: str) -> Any:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if column.type == pa.null():
            return column.cast(pa.binary())
        text = _text(column, name)
        if with_schema:
            schema = json.dumps(_schema(column.type, name), separators=(",", ":"), ensure_ascii=False)
            text = pc.binary_join_element_wise(f'{{"schema":{schema},"payload":', text, "}", "")
        # a null is a tombstone, and no JSON
        return pc.if_else(column.is_null(), pa.scalar(None, text.type), text)

    return convert


def _schema(kind: Any, name: str, field: str | None = None) -> dict[str, Any]:
    made: dict[str, Any]
    if kind in _INTEGERS:
        made = {"type": _INTEGERS[kind]}
    elif pa.types.is_timestamp(kind):
        made = {"type": "int64", "name": _TIMESTAMP, "version": 1}
    elif pa.types.is_date32(kind):
        made = {"type": "int32", "name": _DATE, "version": 1}
    elif pa.types.is_struct(kind):
        made = {"type": "struct", "fields": [_schema(one.type, name, one.name) for one in kind]}
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made = {"type": "array", "items": _schema(kind.value_type, name)}
    elif pa.types.is_decimal(kind):
        made = {"type": "string"}
    else:
        made = {"type": next((word for check, word in _PLAIN.items() if check(kind)), "")}
        if not made["type"]:
            raise _refused(kind, name)
    shown = {"type": made.pop("type"), "optional": True, **made}
    if "fields" in shown:  # Kafka Connect's order
        shown = {"type": "struct", "fields": shown["fields"], "optional": True}
    return shown if field is None else {**shown, "field": field}


_PLAIN: dict[Callable[[Any], bool], str] = {
    pa.types.is_string: "string",
    pa.types.is_large_string: "string",
    pa.types.is_boolean: "boolean",
    pa.types.is_float32: "float",
    pa.types.is_float64: "double",
    pa.types.is_binary: "bytes",
    pa.types.is_large_binary: "bytes",
    pa.types.is_null: "string",
}


def _text(column: Any, name: str) -> Any:
    """Each value as JSON; null is the word."""
    kind = column.type
    if pa.types.is_struct(kind):
        text = _object(column, name)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = _text(column.flatten(), name)
        parts = type(column).from_arrays(_own_offsets(column), items)
        text = pc.binary_join_element_wise("[", pc.binary_join(parts, ","), "]", "")
        text = pc.if_else(column.is_null(), pa.scalar(None, text.type), text)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = _quoted(column.cast(pa.string()))
    elif pa.types.is_boolean(kind) or kind in _INTEGERS:
        text = column.cast(pa.string())
    elif pa.types.is_floating(kind):
        if not pc.all(pc.is_finite(column)).as_py() and len(column) > column.null_count:
            raise ConfigError(
                f"a {name} holds NaN or an infinity, which JSON does not have. Nothing of this poll is visible. Give"
                " null, or a text.",
                tag="NOT_JSON",
            )
        text = column.cast(pa.string())
    elif pa.types.is_timestamp(kind):
        text = column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64()).cast(pa.string())
    elif pa.types.is_date32(kind):
        text = column.cast(pa.int32()).cast(pa.string())
    elif pa.types.is_decimal(kind):
        text = pc.binary_join_element_wise('"', column.cast(pa.string()), '"', "")
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        # Arrow has no Base64
        text = pa.array(
            [None if one is None else f'"{base64.b64encode(one).decode()}"' for one in column.to_pylist()], pa.string()
        )
    elif pa.types.is_null(kind):
        text = column.cast(pa.string())
    else:
        raise _refused(kind, name)
    return pc.fill_null(text, "null")


def _own_offsets(column: Any) -> Any:
    """Return the offsets into the result of ``flatten``, which drops values under nulls and before a slice."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    return offsets.cast(column.offsets.type)


def _object(column: Any, name: str) -> Any:
    parts: list[Any] = []
    for index, field in enumerate(column.type):
        key = json.dumps(field.name, ensure_ascii=False)
        parts += [f"{',' if parts else '{'}{key}:", _text(pc.struct_field(column, index), name)]
    text = pc.binary_join_element_wise(*parts, "}", "") if parts else pa.repeat("{}", len(column))
    return pc.if_else(column.is_null(), pa.scalar(None, pa.string()), text)


def _quoted(text: Any) -> Any:
    if pc.any(pc.match_substring_regex(text, _MUST)).as_py():
        for plain, escaped in _ESCAPES:
            text = pc.replace_substring(text, plain, escaped)
        if pc.any(pc.match_substring_regex(text, _RARE)).as_py():
            for code in (*range(8), 0x0B, *range(0x0E, 0x20)):
                text = pc.replace_substring(text, chr(code), f"\\u{code:04X}")
    return pc.binary_join_element_wise('"', text, '"', "")


def _refused(kind: Any, name: str) -> ConfigError:
    return ConfigError(
        f"a {name} holds {kind}, which JsonConverter does not write. Nothing of this poll is visible. Have the"
        " connector give text, numbers, booleans, bytes, timestamps, lists or dictionaries with text as keys.",
        tag="WRONG_TYPE",
    )
