"""Schemas and bytes of Avro beside what ``AvroData`` answered, for a record and for a column."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.serdes.avro.column import can_write
from semel.serdes.avro.options import AvroOptions
from semel.serdes.avro.writer import AvroWriter
from semel.serdes.schemas.arrow import _plain, arrow_field, schema_of
from semel.serdes.schemas.json_form import parse_schema, parse_value
from semel.serdes.schemas.schema import Schema
from semel.serdes.schemas.struct import checked
from semel.settings.fields import read_fields
from tests.connect.oracle.avro import ANSWERS

ARROWS_DIGITS = 38
CASES = json.loads(ANSWERS.read_text())


def asked_of(case: dict[str, Any]) -> tuple[Schema | None, Any]:
    schema = parse_schema(case["given"]["schema"])
    payload = case["given"]["payload"]
    return schema, payload if schema is None else checked(schema, parse_value(schema, payload))


def options(case: dict[str, Any]) -> AvroOptions:
    return AvroOptions(**read_fields(AvroOptions, case["options"]))


def test_schemas() -> None:
    different = []
    for case in CASES:
        schema, _ = asked_of(case)
        made = AvroWriter(schema, options(case)).text
        if made != case["answer"]["schema"]:
            different.append((case["options"], case["answer"]["schema"], made))
    assert not different


def test_values() -> None:
    different = []
    for case in CASES:
        schema, value = asked_of(case)
        made = AvroWriter(schema, options(case)).value(value)
        answer = case["answer"].get("bytes")
        if made != (None if answer is None else base64.b64decode(answer)):
            different.append((case["given"], answer, made))
    assert not different


_ITEM = Schema.struct({"n": Schema.int64(), "text": Schema.string(optional=True)}, name="shop.Item")
NESTED = Schema.struct(
    {
        "whole": Schema.int64(optional=True),
        "item": _ITEM.but(optional=True),
        "items": Schema.array(_ITEM.but(optional=True), optional=True),
        "by": Schema.map(Schema.string(), _ITEM, optional=True),
        "numbered": Schema.map(Schema.int32(), Schema.string(optional=True), optional=True),
        "default": Schema.float32(optional=True, default=1.5),
        "raw": Schema.bytes(optional=True),
    },
    name="shop.Nested",
    optional=True,
)
_LONG = st.integers(-(2**63), 2**63 - 1)
_ITEMS = st.fixed_dictionaries({"n": _LONG, "text": st.none() | st.text(max_size=3)})
_ROWS = st.fixed_dictionaries(
    {
        "whole": st.none() | _LONG,
        "item": st.none() | _ITEMS,
        "items": st.none() | st.lists(st.none() | _ITEMS, max_size=3),
        "by": st.none() | st.dictionaries(st.text(max_size=2), _ITEMS, max_size=3),
        "numbered": st.none() | st.dictionaries(st.integers(-5, 5), st.none() | st.text(max_size=2), max_size=3),
        "default": st.none() | st.floats(width=32, allow_nan=False),
        "raw": st.none() | st.binary(max_size=300),
    }
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | _ROWS, max_size=5), st.integers(0, 2))
def test_nested_columns(rows: list[Any], skipped: int) -> None:
    """Nulls inside of nulls, empty lists, slices."""
    field = arrow_field("value", NESTED)
    values = [checked(NESTED, one) for one in rows]
    column = pa.array([_plain(one) for one in values], field.type)[skipped:]
    for null_stays in (False, True):
        writer = AvroWriter(NESTED, AvroOptions(null_stays=null_stays))
        assert writer.column(column, field).to_pylist() == [writer.value(one) for one in values[skipped:]]


def test_columns() -> None:
    """A value is the same alone, and in a column beside nulls and others."""
    different = []
    for case in CASES:
        schema, value = asked_of(case)
        scale = 0 if schema is None else int((schema.parameters or {}).get("scale", 0))
        if schema is None or not can_write(schema, options(case)) or scale > ARROWS_DIGITS:
            continue
        field = arrow_field("value", schema)
        writer = AvroWriter(schema, options(case))
        values = [value, None, value, value] if schema.optional and schema.default is None else [value] * 3
        column = pa.chunked_array([pa.array([_plain(one) for one in values], field.type), pa.array([], field.type)])
        assert schema_of(field) == schema
        made, alone = writer.column(column, field).to_pylist(), [writer.value(one) for one in values]
        if made != alone:
            different.append((case["given"], made, alone))
    for one in different[:12]:
        print(*one, sep="\n", end="\n\n")
    assert not different
