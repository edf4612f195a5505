"""The schema of Kafka Connect for what a Singer tap says of a stream in its SCHEMA, a JSON Schema.

A whole number is int64, a number float64, an object with properties a struct, and an array with items of one kind an
array. Everything but keys is optional. What a JSON Schema leaves open is JSON as text: an object without properties, a
value of several types, an array without items.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semel.serdes.schemas import Schema

__all__ = ["StreamSchema", "stream_schema"]

Shape = Callable[[Any], Any]
_PLAIN = {"string": Schema.string, "integer": Schema.int64, "number": Schema.float64, "boolean": Schema.boolean}


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """The schemas of a stream's records and keys. ``shape`` makes a record of the tap one of the schema."""

    value: Schema
    key: Schema | None
    shape: Shape

    def key_of(self, record: Mapping[str, Any]) -> Any:
        """Return the key of a shaped record."""
        return None if self.key is None else {one.name: record.get(one.name) for one in self.key.fields}


def stream_schema(stream: str, schema: Mapping[str, Any], keys: Sequence[str]) -> StreamSchema:
    """Return the schemas of a stream. ``keys`` are the names of its key's fields.

    Raises ``KeyError`` for a key that is no property.
    """
    made, shape = _struct(_name(stream), schema.get("properties") or {})
    fields = {one.name: one.schema for one in made.fields}
    parts = {name: fields[name].but(optional=False) for name in keys}
    key = Schema.struct(parts, name=f"{made.name}.Key") if keys else None
    return StreamSchema(Schema.struct(fields | parts, name=made.name), key, shape)


def _name(text: str) -> str:
    """Return a name that each format takes."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return f"_{name}" if name[:1].isdigit() else name


def _struct(name: str, properties: Mapping[str, Any]) -> tuple[Schema, Shape]:
    parts = {field: _part(f"{name}.{_name(field)}", one) for field, one in properties.items()}

    def shape(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value  # its schema refuses it
        return {field: parts[field][1](one) if field in parts else one for field, one in value.items()}

    fields = {field: schema.but(optional=True) for field, (schema, _) in parts.items()}
    return Schema.struct(fields, name=name), shape


def _part(name: str, schema: Any) -> tuple[Schema, Shape]:
    kind, schema = _kind(schema)
    if kind == "object" and schema.get("properties"):
        return _struct(name, schema["properties"])
    if kind == "array" and isinstance(schema.get("items"), Mapping) and _kind(schema["items"])[0] is not None:
        items, shape = _part(name, schema["items"])
        made = Schema.array(items.but(optional=True))
        return made, lambda value: [shape(one) for one in value] if isinstance(value, list) else value
    if kind in _PLAIN:
        return _PLAIN[kind](), lambda value: value
    return Schema.string(doc="JSON"), _text


def _kind(schema: Any) -> tuple[str | None, Any]:
    """Return the one type beside null that a JSON Schema says, with the schema that says it."""
    if not isinstance(schema, Mapping):
        return None, {}
    for word in ("anyOf", "oneOf"):
        choices = [one for one in schema.get(word) or () if _kinds(one) != ["null"]]
        if choices:
            return _kind(choices[0]) if len(choices) == 1 else (None, schema)
    kinds = [one for one in _kinds(schema) if one != "null"]
    return (kinds[0] if len(kinds) == 1 else None), schema


def _kinds(schema: Any) -> list[Any]:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return list(kind) if isinstance(kind, list) else [kind]


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
