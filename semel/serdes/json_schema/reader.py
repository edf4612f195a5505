"""Values of JSON Schema as Kafka Connect has them, as Confluent's ``JsonSchemaData`` reads them.

A JSON Schema becomes a schema of Kafka Connect: a choice of null and a type is an optional one, and ``connect.type``
says which number it is. Other choices, ``allOf``, and schemas that refer to themselves are refused.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from semel.serdes.json_schema.schema import ENUM, JsonSchemaOptions
from semel.serdes.schemas.json_form import decimal_of, parse_value
from semel.serdes.schemas.schema import DECIMAL, Field, Schema, Type
from semel.serdes.schemas.struct import Struct, checked
from semel.serdes.unfit import Unfit

__all__ = ["JsonSchemaReader"]

Read = Callable[[Any], Any]
ReadBy = Callable[[Schema, Any], Any]
_CONNECT_TYPE, _MAP = "connect.type", "map"
_WHOLE = {str(one): one for one in (Type.INT8, Type.INT16, Type.INT32, Type.INT64)}
_FLOATING = {str(one): one for one in (Type.FLOAT32, Type.FLOAT64)}
_NUMBERS = {**_WHOLE, **_FLOATING, str(Type.BYTES): Type.BYTES}
#: Texts that JsonSchemaConverter writes for numbers that JSON does not have.
_NO_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
_LONGEST = 2**63


class JsonSchemaReader:
    """Reads values of one JSON Schema. ``schema`` is Kafka Connect's. ``named`` are the schemas that it refers to.

    Raises :class:`Unfit` for a schema that is not read here.
    """

    def __init__(self, text: str, named: Mapping[str, str], options: JsonSchemaOptions) -> None:
        try:
            builder = _Builder(text, named, options)
            self.schema, self._of = builder.build(builder.root, builder.root)
        except Unfit:
            raise
        except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise Unfit(f"its JSON Schema cannot be read ({type(error).__name__}: {error!s:.200})") from None

    def read(self, data: bytes) -> tuple[Schema, Any]:
        """Return the schema, and a value that is checked by it. Raise :class:`Unfit` for what does not fit."""
        try:
            payload = json.loads(data, parse_float=Decimal)
            return self.schema, None if payload is None else self._of(payload)
        except Unfit:
            raise
        except RecursionError:
            raise Unfit("it is nested too deeply") from None
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise Unfit(f"it does not fit its JSON Schema ({type(error).__name__}: {error!s:.200})") from None


class _Builder:
    """Makes, of each node of a JSON Schema, the schema of Kafka Connect and what reads its values."""

    def __init__(self, text: str, named: Mapping[str, str], options: JsonSchemaOptions) -> None:
        self.root = json.loads(text, parse_float=Decimal)
        self._documents = {name: json.loads(one, parse_float=Decimal) for name, one in named.items()}
        self._documents |= {one["$id"]: one for one in self._documents.values() if "$id" in one}
        self._options = options
        self._open: list[int] = []

    def build(self, node: Any, document: Any, *, optional: bool = False) -> tuple[Schema, Read]:
        """Return the schema of a node of a document, and what reads its values."""
        if not isinstance(node, Mapping):
            raise Unfit("its JSON Schema does not say the type of a value")
        if id(node) in self._open:
            raise Unfit("its JSON Schema refers to itself, which is not read here")
        self._open.append(id(node))
        made = self._built(node, document, optional)
        self._open.pop()
        return made

    def _built(self, node: Mapping[str, Any], document: Any, optional: bool) -> tuple[Schema, Read]:
        if "$ref" in node:
            return self.build(*self._referred(str(node["$ref"]), document), optional=optional)
        for word in ("oneOf", "anyOf"):
            if word in node:
                return self._choice(node[word], document)
        for word in ("allOf", "const", "not", "if"):
            if word in node:
                raise Unfit(f"its JSON Schema has {word}, which is not read here")
        kind = node.get("type")
        if isinstance(kind, list):
            return self._choice([{**node, "type": one} for one in kind], document)
        made, read = self._typed(node, kind, document)
        made = _described(made, node, optional=optional)
        of = partial(read, made)
        default = node.get("default")
        if default is None:
            return made, of
        value = of(default)
        return made.but(default=_plain(value)), of

    def _choice(self, branches: list[Any], document: Any) -> tuple[Schema, Read]:
        others = [one for one in branches if one != {"type": "null"} and one.get("type") != "null"]
        if len(branches) != 2 or len(others) != 1:
            raise Unfit("its JSON Schema has a choice of several types, which is not read here")
        return self.build(others[0], document, optional=True)

    def _referred(self, name: str, document: Any) -> tuple[Any, Any]:
        """Return what a reference names, and the document that it is in."""
        place, _, path = name.partition("#")
        if place and place not in self._documents:
            raise Unfit(f"its JSON Schema refers to {name!r:.100}, which the registry does not name")
        target = document = self._documents[place] if place else document
        for part in path.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            target = target[int(key)] if isinstance(target, list) else target[key]
        return target, document

    def _typed(self, node: Mapping[str, Any], kind: Any, document: Any) -> tuple[Schema, ReadBy]:
        """Return the schema of a type, and what reads its values by that schema with its details."""
        said = node.get(_CONNECT_TYPE)
        if "enum" in node and kind in (None, "string"):
            symbols = node["enum"]
            if not all(type(one) is str for one in symbols):
                raise Unfit("its JSON Schema has an enumeration of other values than texts, which is not read here")
            return Schema.string(parameters={ENUM: "", **{f"{ENUM}.{one}": one for one in symbols}}), _single
        if kind == "array" or (kind is None and "items" in node):
            return self._array(node, said, document)
        if kind == "object" or (kind is None and "properties" in node):
            return self._map(node, document) if said == _MAP else self._struct(node, document)
        match kind:
            case "boolean":
                return Schema.boolean(), _single
            case "string":
                return Schema.bytes() if said == str(Type.BYTES) else Schema.string(), _single
            case "integer" | "number":
                return Schema(_NUMBERS[said or ("int64" if kind == "integer" else "float64")]), _single
        raise Unfit(f"its JSON Schema has a value of type {kind!s:.60}, which Kafka Connect does not have")

    def _array(self, node: Mapping[str, Any], said: Any, document: Any) -> tuple[Schema, ReadBy]:
        items = node.get("items")
        if said == _MAP and isinstance(items, Mapping):
            (keys, key), (values, value) = (self.build(items["properties"][one], document) for one in ("key", "value"))

            key, value = self._part("a key of a map", keys, key), self._part("a value of a map", values, value)
            return Schema.map(keys, values), lambda _, payload: {
                key(one["key"]): value(one["value"]) for one in _typed_as(list, payload)
            }
        inner, read = self.build(items, document)
        read = self._part("an item of a list", inner, read)
        return Schema.array(inner), lambda _, payload: [read(one) for one in _typed_as(list, payload)]

    def _map(self, node: Mapping[str, Any], document: Any) -> tuple[Schema, ReadBy]:
        values, read = self.build(node["additionalProperties"], document)
        read = self._part("a value of a map", values, read)
        return Schema.map(Schema.string(), values), lambda _, payload: {
            key: read(one) for key, one in _typed_as(dict, payload).items()
        }

    def _struct(self, node: Mapping[str, Any], document: Any) -> tuple[Schema, ReadBy]:
        required, loose = set(node.get("required", ())), self._options.optional_unless_required
        properties = node.get("properties", {})
        places = {name: one.get("connect.index", math.inf) for name, one in properties.items()}
        fields, reads = [], []
        for name in sorted(properties, key=places.__getitem__):
            made, read = self.build(properties[name], document, optional=loose and name not in required)
            fields.append(Field(name, made))
            reads.append((name, self._part(f"its field {name:.60}", made, read)))
        return Schema(Type.STRUCT, fields=tuple(fields)), lambda schema, payload: _struct(schema, reads, payload)

    def _part(self, what: str, schema: Schema, read: Read) -> Read:
        """Return what reads a part of a value, which may be null or missing."""
        default = None if self._options.null_stays else schema.default

        def part(payload: Any) -> Any:
            if payload is not None:
                return read(payload)
            if default is None and not schema.optional:
                raise Unfit(
                    f"{what} is null or missing, and its JSON Schema does not allow that;"
                    " use.optional.for.nonrequired=true reads missing fields as null"
                )
            return default

        return part


def _described(made: Schema, node: Mapping[str, Any], *, optional: bool) -> Schema:
    """Return the schema with its name, version, documentation and parameters."""
    parameters = {**(made.parameters or {}), **(node.get("connect.parameters") or {})}
    return made.but(
        optional=optional,
        name=node.get("title"),
        version=node.get("connect.version"),
        doc=node.get("description"),
        parameters=parameters or None,
    )


def _struct(schema: Schema, reads: list[tuple[str, Read]], payload: Any) -> Struct:
    payload = _typed_as(dict, payload)
    return Struct.of_cells(schema, tuple(read(payload.get(name)) for name, read in reads))


def _plain(value: Any) -> Any:
    """Return a default as a schema takes it: a struct by its names, since its own schema has no default yet."""
    return dict(zip(value.schema.places, value.cells, strict=True)) if isinstance(value, Struct) else value


def _typed_as(kind: type, payload: Any) -> Any:
    if type(payload) is not kind:
        raise Unfit(f"it has a {type(payload).__name__} where its JSON Schema has a {kind.__name__}")
    return payload


def _single(schema: Schema, payload: Any) -> Any:
    """Return a value without parts, checked by its schema."""
    if schema.logical == DECIMAL:
        return checked(schema, Decimal(payload) if type(payload) is not str else _decimal(schema, payload))
    kind = str(schema.type)
    if kind in _WHOLE:
        if type(payload) is Decimal and abs(payload) < _LONGEST and payload == int(payload):
            payload = int(payload)  # 1.0 is a whole number in JSON Schema
        return checked(schema, parse_value(schema, payload) if type(payload) is int else payload)
    if kind in _FLOATING and (type(payload) in (int, Decimal, float) or payload in _NO_NUMBERS):
        return checked(schema, float(payload))
    if schema.type is Type.BYTES:
        return base64.b64decode(payload, validate=True)
    return checked(schema, payload)


def _decimal(schema: Schema, payload: str) -> Decimal:
    return decimal_of(int.from_bytes(base64.b64decode(payload, validate=True), signed=True), schema.scale)
