"""What a tap says of a stream, as schemas of Kafka Connect, and its records by them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from semel.connect.api import Schema, SourceRecord
from semel.connect.connectors.singer_schema import stream_schema
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.tasks.records import write_record
from semel.errors import ConfigError
from tests.connect.unit.test_config import LINES, WORKER

#: Of taps for a shop, a database and a service: nulls, formats, nesting, and what is left open.
SAID: dict[str, Any] = {
    "type": ["null", "object"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["null", "string"], "maxLength": 40},
        "at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        "price": {"type": ["null", "number"], "multipleOf": 0.01},
        "paid": {"type": ["boolean", "null"]},
        "address": {"type": ["null", "object"], "properties": {"city": {"type": "string"}, "zip": {}}},
        "tags": {"type": ["null", "array"], "items": {"type": ["null", "string"]}},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "extra": {"type": "object"},
        "either": {"type": ["string", "integer"]},
        "mixed": {"type": "array"},
    },
}


def written(value: Any, schema: Schema) -> Any:
    made = ConnectorConfig.parse(LINES | {"value.converter": "JsonConverter"}, WorkerConfig.parse(WORKER))
    row = write_record(SourceRecord("t", value, {"p": 1}, {"n": 1}, value_schema=schema), made)
    assert row is not None
    assert row.value is not None
    return json.loads(row.value)["payload"]


def test_a_record_by_its_schema() -> None:
    made = stream_schema("shop-orders", SAID, ["id"])
    assert (made.value.name, made.key and made.key.name) == ("shop_orders", "shop_orders.Key")
    types = {one.name: (str(one.schema.type), one.schema.optional) for one in made.value.fields}
    assert types["id"] == ("int64", False)
    assert types["price"] == ("float64", True)
    assert {name for name, (kind, _) in types.items() if kind == "string"} == {"name", "at", "extra", "either", "mixed"}
    record = {
        "id": 2**53 + 1,
        "price": 2,
        "address": {"city": "Ulm", "zip": [1]},
        "lines": [{"n": 1}, {}],
        "extra": {"a": 1},
        "either": 5,
        "mixed": [1, "x"],
    }
    shaped = made.shape(record)
    assert made.key_of(shaped) == {"id": 2**53 + 1}
    absent = dict.fromkeys(("name", "at", "paid", "tags"))
    assert written(shaped, made.value) == absent | {
        "id": 2**53 + 1,
        "price": 2.0,
        "address": {"city": "Ulm", "zip": "[1]"},
        "lines": [{"n": 1}, {"n": None}],
        "extra": '{"a":1}',
        "either": "5",
        "mixed": '[1,"x"]',
    }


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"id": 1, "more": 2}, "a field 'more' that its schema lacks"),
        ({"name": "x"}, "its field id is null"),
        ({"id": "x"}, "its field id is of type str"),
        ({"id": 1, "lines": "x"}, "its field lines is of type str"),
        ({"id": 1, "price": 2**53 + 1}, "which float64 does not hold exactly"),
    ],
)
def test_a_record_that_does_not_fit(record: dict[str, Any], said: str) -> None:
    made = stream_schema("orders", SAID, ["id"])
    with pytest.raises(ConfigError, match=said):
        written(made.shape(record), made.value)


def test_a_key_that_is_no_property() -> None:
    with pytest.raises(KeyError):
        stream_schema("orders", SAID, ["number"])
