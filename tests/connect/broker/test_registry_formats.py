"""JSON Schema and Protobuf with a real registry, read by Confluent's own deserializers."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib import resources
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

from semel.connect import Schema, SourceBatch, arrow_field
from semel.connect.tasks.rows import rows_of
from semel.errors import ConfigError
from tests.connect.broker.test_registry_converters import config, record, values
from tests.support.registry import Registry

PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
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


def message_class(text: str, name: str, folder: Path) -> Any:
    """The message of a ``.proto`` file as Protobuf's own compiler has it."""
    (folder / "value.proto").write_text(text)
    package = Path(str(resources.files("grpc_tools")))
    protos = Path(__file__).parents[1] / "support/protos"
    paths = (folder, protos, package / "_proto", package.parent)
    made = folder / "made"
    argv = ["", *(f"-I{path}" for path in paths), "--include_imports", f"--descriptor_set_out={made}"]
    assert protoc.main([*argv, str(folder / "value.proto")]) == 0
    files = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())
    return message_factory.GetMessages(files.file, pool=descriptor_pool.DescriptorPool())[name]


@pytest.mark.parametrize("how", ["plain", "optional", "wrapped"])
def test_protobuf_is_read_by_confluents_own(registry: Registry, topic: str, tmp_path: Path, how: str) -> None:
    options = (
        {} if how == "plain" else {"wrapper_for_nullables" if how == "wrapped" else "optional_for_nullables": "true"}
    )
    made = config(registry.url, PROTOBUF, **options)
    rows = [ROW, {**ROW, "note": None, "exact": None, "items": [], "tags": []}]
    alone = values(rows_of([record(topic, row, ORDER) for row in rows], made, 0))
    assert values(rows_of(batch(topic, ORDER, rows), made, 0)) == alone
    (text,) = registry.schemas(f"{topic}-value")
    read = ProtobufDeserializer(message_class(text, "shop.Order", tmp_path), {"use.deprecated.format": False})
    for row, one in zip(rows, alone, strict=True):
        found = read(one, SerializationContext(topic, MessageField.VALUE))
        for name in ("id", "small", "ratio", "paid", "raw"):
            assert getattr(found, name) == row[name]
        for name in ("note", "exact"):
            if how == "plain":
                assert getattr(found, name) == (row[name] or type(ROW[name])())
            else:
                assert found.HasField(name) is (row[name] is not None)
                value = getattr(found, name)
                assert row[name] is None or (value.value if how == "wrapped" else value) == row[name]
        assert list(found.tags) == row["tags"]
        assert (int.from_bytes(found.price.value, signed=True), found.price.scale) == (-150, 2)
        assert found.at.ToDatetime(UTC) == row["at"]
        assert (found.day.year, found.day.month, found.day.day) == (1969, 12, 31)
        assert (found.hour.hours, found.hour.minutes, found.hour.seconds) == (1, 2, 3)
        assert (found.first.name, [item.name for item in found.items]) == (
            "nail",
            [one["name"] for one in row["items"]],
        )
        assert (dict(found.stock), dict(found.numbered)) == (row["stock"], row["numbered"])


def test_what_protobuf_does_not_hold(registry: Registry, topic: str) -> None:
    made = config(registry.url, PROTOBUF)
    for value, schema, said in (
        ("line", Schema.string(), "HoistField makes one"),
        ({"a": 1}, None, "has no schema"),
        ({"a": [[1]]}, Schema.struct({"a": Schema.array(Schema.array(Schema.int32()))}), "a list of lists"),
        ({"a": [None]}, Schema.struct({"a": Schema.array(Schema.int32(optional=True))}), "has a null"),
        ({"a b": 1}, Schema.struct({"a b": Schema.int32()}), "which Protobuf does not take"),
    ):
        with pytest.raises(ConfigError, match=said):
            rows_of([record(topic, value, schema)], made, 0)
