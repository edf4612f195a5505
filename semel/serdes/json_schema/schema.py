"""The JSON Schema for a schema of Kafka Connect, as Confluent's ``JsonSchemaData`` makes it.

A type that JSON lacks is in ``connect.type``; a field's place in ``connect.index``. Optional is a choice of null and
the type.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from semel.serdes.json_value import JsonForm, json_value
from semel.serdes.schemas.schema import DECIMAL, Schema, Type
from semel.serdes.unfit import Mismatch
from semel.settings.fields import setting

__all__ = ["ENUM", "JsonSchemaOptions", "json_schema"]

_NAMESPACE = "io.confluent.connect.json"
#: The parameter that has the texts of an enumeration.
ENUM = f"{_NAMESPACE}.Enum"
_ID = f"{_NAMESPACE}.Id"
_UNION = f"{_NAMESPACE}.OneOf"
_NUMBERS = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), "integer"),
    **dict.fromkeys((Type.FLOAT32, Type.FLOAT64), "number"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchemaOptions:
    """What a JSON Schema says of a schema of Kafka Connect, and how."""

    decimals: str = setting(str, "BASE64", name="decimal.format", one_of=("BASE64", "NUMERIC"))
    more_properties: bool = setting(bool, True, name="object.additional.properties")
    null_stays: bool = setting(bool, False, name="ignore.default.for.nullables")
    #: Of a sink: a field that is not required may be missing.
    optional_unless_required: bool = setting(bool, False, name="use.optional.for.nonrequired")

    @property
    def form(self) -> JsonForm:
        """How values are written."""
        return JsonForm(numeric=self.decimals == "NUMERIC", defaults=not self.null_stays, entries=True)


def json_schema(schema: Schema | None, options: JsonSchemaOptions) -> Any:
    """Return the JSON Schema. Raise :class:`Mismatch` for a schema that it cannot say."""
    if schema is None:
        raise Mismatch("has no schema, and JsonSchemaConverter registers one")
    if options.optional_unless_required:
        raise Mismatch("is written with use.optional.for.nonrequired=true, which only sinks have here")
    return _schema(schema, options, None)


def _schema(schema: Schema, options: JsonSchemaOptions, index: int | None) -> dict[str, Any]:
    if schema.name == _UNION:
        raise Mismatch("has a schema that is a choice, which JsonSchemaConverter does not write here")
    if schema.type is Type.STRUCT and schema.optional:
        made: dict[str, Any] = {"oneOf": [{"type": "null"}, _schema(schema.but(optional=False), options, None)]}
    else:
        made = {**_typed(schema, options), **_details(schema, options)}
        if schema.optional:
            made = {"oneOf": [{"type": "null"}, made]}
    return made if index is None else {**made, "connect.index": index}


def _typed(schema: Schema, options: JsonSchemaOptions) -> dict[str, Any]:
    kind = str(schema.type)
    match schema.type:
        case Type.BOOLEAN:
            return {"type": "boolean"}
        case Type.STRING:
            symbols = [one.removeprefix(f"{ENUM}.") for one in schema.parameters or {} if one.startswith(f"{ENUM}.")]
            return {"enum": symbols} if symbols else {"type": "string"}
        case Type.BYTES:
            number = schema.logical == DECIMAL and options.form.numeric
            return {"type": "number" if number else "string", "connect.type": kind}
        case Type.ARRAY if schema.values is not None:
            return {"type": "array", "items": _schema(schema.values, options, None)}
        case Type.MAP if schema.keys is not None and schema.values is not None:
            return {**_map(schema.keys, schema.values, options), "connect.type": kind}
        case Type.STRUCT:
            fields = enumerate(schema.fields)
            made: dict[str, Any] = {
                "type": "object",
                "properties": {one.name: _schema(one.schema, options, place) for place, one in fields},
            }
            return made if options.more_properties else {**made, "additionalProperties": False}
    return {"type": _NUMBERS[schema.type], "connect.type": kind}


def _map(keys: Schema, values: Schema, options: JsonSchemaOptions) -> dict[str, Any]:
    if keys.type is Type.STRING and not keys.optional:
        return {"type": "object", "additionalProperties": _schema(values, options, None)}
    entry = {"key": _schema(keys, options, 0), "value": _schema(values, options, 1)}
    return {"type": "array", "items": {"type": "object", "properties": entry}}


def _details(schema: Schema, options: JsonSchemaOptions) -> dict[str, Any]:
    parameters = {name: one for name, one in (schema.parameters or {}).items() if not name.startswith(_NAMESPACE)}
    said = {
        "title": schema.name,
        "description": schema.doc,
        "default": None if schema.default is None else json.loads(json_value(schema, schema.default, options.form)),
        "connect.version": schema.version,
        "connect.parameters": parameters or None,
        "$id": (schema.parameters or {}).get(_ID),
    }
    return {name: one for name, one in said.items() if one is not None}
