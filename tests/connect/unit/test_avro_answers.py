"""Schemas and bytes of Avro beside what ``AvroData`` answered, for a record and for a column."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa

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


def given(case: dict[str, Any]) -> tuple[Schema | None, Any]:
    schema = parse_schema(case["given"]["schema"])
    payload = case["given"]["payload"]
    return schema, payload if schema is None else checked(schema, parse_value(schema, payload))


def options(case: dict[str, Any]) -> AvroOptions:
    return AvroOptions(**read_fields(AvroOptions, case["options"]))


def test_schemas() -> None:
    different = []
    for case in CASES:
        schema, _ = given(case)
        made = AvroWriter(schema, options(case)).text
        if made != case["answer"]["schema"]:
            different.append((case["options"], case["answer"]["schema"], made))
    assert not different


def test_values() -> None:
    different = []
    for case in CASES:
        schema, value = given(case)
        made = AvroWriter(schema, options(case)).value(value)
        answer = case["answer"].get("bytes")
        if made != (None if answer is None else base64.b64decode(answer)):
            different.append((case["given"], answer, made))
    assert not different


def test_columns() -> None:
    """A value is the same alone, and in a column beside nulls and others."""
    different = []
    for case in CASES:
        schema, value = given(case)
        scale = 0 if schema is None else int((schema.parameters or {}).get("scale", 0))
        if schema is None or case["options"].get("enhanced.avro.schema.support") or scale > ARROWS_DIGITS:
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
