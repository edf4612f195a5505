"""Values of Avro beside what ``AvroData`` made of them, by the JSON that Kafka Connect writes of both."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from semel.connect.converters import json_converter
from semel.serdes.avro.connect_reader import ConnectReader
from semel.serdes.unfit import Unfit
from tests.connect.oracle.avro_reads import ANSWERS

#: A type without a namespace inside of one that has it is named as if it had it: fastavro does not find it.
NAMELESS = '"namespace":""'
CASES = [
    one for one in json.loads(ANSWERS.read_text()) if isinstance(one["answer"], dict) and NAMELESS not in one["schema"]
]
JSON = json_converter({"replace.null.with.default": "false"}, "value.converter")


def is_choice(case: dict[str, Any]) -> bool:
    return "io.confluent.connect.avro.Union" in json.dumps(case["answer"])


def shown(case: dict[str, Any]) -> Any:
    reader = ConnectReader(case["schema"])
    text = JSON.value(reader.schema, reader.value(base64.b64decode(case["bytes"])), "value", "t")
    assert text is not None
    return json.loads(text)


def test_schemas_and_values() -> None:
    cases = [one for one in CASES if not is_choice(one)]
    assert len(cases) > 300
    different = [(one["schema"], one["answer"], made) for one in cases if (made := shown(one)) != one["answer"]]
    for one in different[:12]:
        print(*one, sep="\n", end="\n\n")
    assert not different


def test_choices_are_refused() -> None:
    choices = [one for one in CASES if is_choice(one)]
    assert choices
    for one in choices:
        with pytest.raises(Unfit, match="a choice of several types"):
            ConnectReader(one["schema"])


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("int", b""),
        ("int", b"\2\2"),
        ("int", b"\xff" * 9),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xff" * 9 + b"\1"),
    ],
)
def test_bytes_that_are_no_value(schema: Any, data: bytes) -> None:
    with pytest.raises(Unfit):
        ConnectReader(json.dumps(schema)).value(data)


def test_schemas_that_are_none() -> None:
    itself = {"type": "record", "name": "Row", "fields": [{"name": "next", "type": ["null", "Row"]}]}
    with pytest.raises(Unfit, match="refers to itself"):
        ConnectReader(json.dumps(itself))
    with pytest.raises(Unfit, match="cannot be read"):
        ConnectReader('{"type": "nothing"}')
    with pytest.raises(Unfit, match="has the type null"):
        ConnectReader('"null"')


def test_a_schema_that_another_one_names() -> None:
    named = json.dumps({"type": "record", "name": "shop.Item", "fields": [{"name": "n", "type": "int"}]})
    row = {"type": "record", "name": "shop.Row", "fields": [{"name": "item", "type": "shop.Item"}]}
    reader = ConnectReader(json.dumps(row), (named,))
    assert reader.value(b"\4")["item"]["n"] == 2
