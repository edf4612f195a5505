"""JSON Schema and Protobuf with a real registry, read by Confluent's own deserializers."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from semel.connect import Schema, SourceBatch, arrow_field
from semel.connect.tasks.rows import rows_of
from semel.errors import ConfigError
from tests.connect.broker.test_registry_converters import config, record, values
from tests.support.registry import Registry

JSON_SCHEMA = "io.confluent.connect.json.JsonSchemaConverter"
ITEM = Schema.struct({"name": Schema.string(), "count": Schema.int32(optional=True)}, name="shop.Item")
ORDER = Schema.struct(
    {
        "id": Schema.int64(),
        "small": Schema.int8(),
        "price": Schema.decimal(2),
        "note": Schema.string(optional=True, doc="words"),
        "tags": Schema.array(Schema.string()),
        "ratio": Schema.float32(),
        "exact": Schema.float64(optional=True),
        "paid": Schema.boolean(),
        "raw": Schema.bytes(),
        "at": Schema.timestamp(),
        "day": Schema.date(),
        "hour": Schema.time(),
        "first": ITEM,
        "items": Schema.array(ITEM),
        "stock": Schema.map(Schema.string(), Schema.int64()),
        "numbered": Schema.map(Schema.int32(), Schema.string()),
    },
    name="shop.Order",
)
ROW: dict[str, Any] = {
    "id": 2**53 + 1,
    "small": -3,
    "price": Decimal("-1.50"),
    "note": "é",
    "tags": ["a", ""],
    "ratio": 0.5,
    "exact": 1e300,
    "paid": True,
    "raw": b"\x00\xff",
    "at": datetime(2024, 1, 1, 1, tzinfo=UTC),
    "day": date(1969, 12, 31),
    "hour": time(1, 2, 3),
    "first": {"name": "nail", "count": 0},
    "items": [{"name": "bolt", "count": None}],
    "stock": {"nails": 5},
    "numbered": {1: "one"},
}
_numbers = count(1)


@pytest.fixture
def topic() -> str:
    return f"formats-{next(_numbers)}"


def batch(topic: str, schema: Schema, rows: list[Any]) -> SourceBatch:
    field = arrow_field("value", schema)
    given = [
        {name: list(one.items()) if name in ("stock", "numbered") else one for name, one in row.items()} for row in rows
    ]
    return SourceBatch(topic, pa.table([pa.array(given, field.type)], schema=pa.schema([field])), {"p": 1}, {"n": 1})


def test_json_schema_is_read_by_confluents_own(registry: Registry, topic: str) -> None:
    made = config(registry.url, JSON_SCHEMA)
    rows = [ROW, {**ROW, "note": None, "exact": None}]
    alone = values(rows_of([record(topic, row, ORDER) for row in rows], made, 0))
    assert values(rows_of(batch(topic, ORDER, rows), made, 0)) == alone
    read = JSONDeserializer(None, schema_registry_client=SchemaRegistryClient({"url": registry.url}))
    found = [read(one, SerializationContext(topic, MessageField.VALUE)) for one in alone]
    plain = {"price": "/2o=", "raw": "AP8=", "at": 1_704_070_800_000, "day": -1, "hour": 3_723_000}
    wanted = {**ROW, **plain, "numbered": [{"key": 1, "value": "one"}]}
    assert found == [wanted, {**wanted, "note": None, "exact": None}]
    with pytest.raises(ConfigError, match="has no schema"):
        rows_of([record(topic, {"a": 1}, None)], made, 0)


def test_decimals_as_numbers_of_json_schema(registry: Registry, topic: str) -> None:
    made = config(registry.url, JSON_SCHEMA, decimal_format="NUMERIC")
    (value,) = values(
        rows_of([record(topic, {"a": Decimal("1.50")}, Schema.struct({"a": Schema.decimal(2)}))], made, 0)
    )
    assert value[5:] == b'{"a":1.50}'
    (text,) = registry.schemas(f"{topic}-value")
    assert '"type":"number"' in text.replace(" ", "")
