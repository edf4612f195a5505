"""Values of JSON Schema: what a writer wrote reads as it was, and schemas that people write by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.serdes.json_schema.reader import JsonSchemaReader
from semel.serdes.json_schema.schema import JsonSchemaOptions
from semel.serdes.json_schema.writer import JsonSchemaWriter
from semel.serdes.json_value import json_text, json_value
from semel.serdes.schemas.json_form import parse_schema, parse_value
from semel.serdes.schemas.schema import Schema
from semel.serdes.schemas.struct import checked
from semel.serdes.unfit import Unfit
from tests.connect.oracle.corpus import corpus

PLAIN = JsonSchemaOptions()
NAMESPACE = "io.confluent.connect.json"


def reader(schema: Any, named: dict[str, Any] | None = None, options: JsonSchemaOptions = PLAIN) -> JsonSchemaReader:
    return JsonSchemaReader(json.dumps(schema), {name: json.dumps(one) for name, one in (named or {}).items()}, options)


def cases() -> Iterator[tuple[Schema, Any]]:
    for one in corpus():
        schema = parse_schema(one["given"]["schema"])
        if schema is not None:
            yield schema, checked(schema, parse_value(schema, one["given"]["payload"]))


@pytest.mark.parametrize("decimals", ["BASE64", "NUMERIC"])
def test_what_was_written_reads_as_it_was(decimals: str) -> None:
    options = JsonSchemaOptions(decimals=decimals)
    count = 0
    for schema, value in cases():
        writer = JsonSchemaWriter(schema, options)
        data = writer.value(value)
        if data is None:
            continue
        found, read = JsonSchemaReader(writer.text, {}, options).read(data)
        assert found == schema, (schema, found)
        if value is None or read is None:
            assert read == (schema.default if value is None else value)
            continue
        # a null with a default was written as the default
        assert json_value(found, read) == json_value(schema, value), (schema, value, read)
        count += 1
    assert count > 150


ORDER: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "description": "of a shop",
    "type": "object",
    "definitions": {"money": {"type": "number"}},
    "properties": {
        "id": {"type": "integer"},
        "price": {"$ref": "#/definitions/money"},
        "note": {"type": ["null", "string"]},
        "colour": {"type": "string", "enum": ["RED", "BLUE"]},
        "buyer": {"anyOf": [{"$ref": "buyer.json"}, {"type": "null"}]},
        "tags": {"items": {"type": "string", "format": "date"}},
        "count": {"type": "integer", "default": 1},
    },
    "required": ["id"],
}
BUYER = {"$id": "https://shop/buyer", "type": "object", "properties": {"name": {"$ref": "#/$defs/n"}}}
BUYER["$defs"] = {"n": {"type": "string"}}
VALUE = {"id": 7, "price": 1, "note": None, "colour": "RED", "buyer": {"name": "é"}, "tags": ["x"], "more": 1}


def test_a_schema_of_a_person() -> None:
    schema, value = reader(ORDER, {"buyer.json": BUYER}).read(json.dumps(VALUE).encode())
    assert (schema.name, schema.doc) == ("Order", "of a shop")
    assert {one.name: str(one.schema.type) for one in schema.fields} == {
        "id": "int64",
        "price": "float64",
        "note": "string",
        "colour": "string",
        "buyer": "struct",
        "tags": "array",
        "count": "int64",
    }
    assert [one.name for one in schema.fields if one.schema.optional] == ["note", "buyer"]
    assert schema.fields[3].schema.parameters == {f"{NAMESPACE}.Enum": ""} | {
        f"{NAMESPACE}.Enum.{one}": one for one in ("RED", "BLUE")
    }
    assert json.loads(json_text(value)) == {
        **{name: one for name, one in VALUE.items() if name != "more"},
        "price": 1.0,
        "count": 1,
    }
    assert value["buyer"]["name"] == "é"


def test_fields_that_are_not_required() -> None:
    with pytest.raises(Unfit, match=r"its field price is null or missing.*use\.optional\.for\.nonrequired"):
        reader(ORDER, {"buyer.json": BUYER}).read(b'{"id": 1}')
    loose = reader(ORDER, {"buyer.json": BUYER}, JsonSchemaOptions(optional_unless_required=True))
    schema, value = loose.read(b'{"id": 1.0}')
    assert [one.name for one in schema.fields if not one.schema.optional] == ["id"]
    assert (value["id"], value["price"], value["count"]) == (1, None, 1)
    with pytest.raises(Unfit, match="id is null or missing"):
        loose.read(b"{}")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=3), one, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(part=_JSON, name=st.sampled_from(sorted(VALUE)), schema=_JSON)
def test_values_and_schemas_of_any_kind_are_refused_or_read(part: Any, name: str, schema: Any) -> None:
    made = reader(ORDER, {"buyer.json": BUYER})
    with suppress(Unfit):
        found, value = made.read(json.dumps({**VALUE, name: part}).encode())
        assert checked(found, value) is value
    with suppress(Unfit):
        reader({**ORDER, "properties": {"a": schema}})
    with suppress(Unfit):
        reader(schema)


def test_decimals_keep_their_digits() -> None:
    schema: dict[str, Any] = {
        "type": "number",
        "title": "org.apache.kafka.connect.data.Decimal",
        "connect.type": "bytes",
    }
    schema["connect.parameters"] = {"scale": "20"}
    _, value = reader(schema).read(b"0.12345678901234567890")
    assert value == Decimal("0.12345678901234567890")
    with pytest.raises(Unfit, match="more than 20 digits"):
        reader(schema).read(b"0.123456789012345678901")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "a choice of several types"),
        ({"type": ["string", "integer"]}, "a choice of several types"),
        ({"allOf": [{"type": "string"}]}, "has allOf"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "refers to itself"),
        ({"$ref": "other.json"}, "which the registry does not name"),
        ({"$ref": "#/definitions/none"}, "cannot be read"),
        ({}, "a value of type None"),
        ({"type": "array"}, "does not say the type"),
        ({"type": "object", "properties": {"a": True}}, "cannot be read"),
        ({"enum": [1, 2]}, "other values than texts"),
        ({"type": "integer", "connect.type": "int7"}, "cannot be read"),
    ],
)
def test_schemas_that_are_not_read(schema: Any, said: str) -> None:
    with pytest.raises(Unfit, match=said):
        reader(schema)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"type": "integer"}, b"1.5"),
        ({"type": "integer"}, b"true"),
        ({"type": "integer"}, b'"1"'),
        ({"type": "integer"}, b"9223372036854775808"),
        ({"type": "integer"}, b"1e400000000"),
        ({"type": "integer", "connect.type": "int8"}, b"128"),
        ({"type": "number"}, b"true"),
        ({"type": "number"}, b'"1.5"'),
        ({"type": "string"}, b"1"),
        ({"type": "string", "connect.type": "bytes"}, b'"%"'),
        ({"type": "string", "connect.type": "bytes"}, b"1"),
        ({"type": "boolean"}, b"1"),
        ({"type": "array", "items": {"type": "integer"}}, b"{}"),
        ({"type": "array", "items": {"type": "integer"}}, b"[null]"),
        ({"type": "object", "properties": {}}, b"[]"),
        ({"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}}, b'{"a": "b"}'),
        ({"type": "string"}, b"no json"),
        ({"type": "string"}, b"[" * 100_000),
        ({"type": "integer", "title": "org.apache.kafka.connect.data.Date", "connect.type": "int32"}, b"1.5"),
    ],
)
def test_values_that_do_not_fit(schema: Any, data: bytes) -> None:
    made = reader(schema)
    with pytest.raises(Unfit):
        made.read(data)
