"""Serdes with a registry: alone, in a streams application, and beside Confluent's own serialisers."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from semel.errors import ConfigError, Retriable
from semel.streams import App, avro, json_schema, own, protobuf
from semel.streams.testing import Driver
from tests.support.registry import Registry

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        ],
    }
)
TOTAL = '{"type":"record","name":"Total","fields":[{"name":"cents","type":"long"}]}'
ROW = {"id": 7, "price": Decimal("1.50"), "at": datetime(2024, 1, 1, tzinfo=UTC)}
_numbers = count(1)


@pytest.fixture
def topic() -> str:
    return f"serdes-{next(_numbers)}"


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_beside_confluents_own(registry: Registry, topic: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    serde = pickle.loads(pickle.dumps(avro(registry.url, ORDER, f"{topic}-value")))
    theirs = AvroSerializer(client, ORDER)(ROW, context(topic))
    assert serde.write(ROW) == theirs
    assert serde.read(theirs) == ROW == AvroDeserializer(client)(serde.write(ROW), context(topic))
    assert avro(registry.url).read(theirs) == ROW, "reading needs no schema"
    with pytest.raises(ConfigError, match="no schema or no subject"):
        avro(registry.url).write(ROW)
    for bad in ({"id": 7}, {**ROW, "more": 1}, {**ROW, "id": "x"}):
        with pytest.raises((ValueError, TypeError)):
            serde.write(bad)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ('"bytes"', b"\x00" * 300),
        ('{"type":"bytes","doc":"raw"}', b""),
        ('{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}', Decimal("-1.50")),
        ('"string"', "x"),
    ],
)
def test_values_that_are_no_records(registry: Registry, topic: str, schema: str, value: Any) -> None:
    serde = avro(registry.url, schema, f"{topic}-value")
    written = serde.write(value)
    assert serde.read(written) == value
    if isinstance(value, bytes):
        assert written[5:] == value


def test_json_schema_beside_confluents_own(registry: Registry, topic: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    schema = '{"$schema":"http://json-schema.org/draft-07/schema#","title":"T","type":"object","properties":{"a":{}}}'
    theirs = JSONSerializer(schema, client)({"a": [1, None]}, context(topic))
    serde = json_schema(registry.url, schema, f"{topic}-value")
    assert theirs is not None
    assert serde.read(theirs) == {"a": [1, None]} == serde.read(serde.write({"a": [1, None]}))
    assert serde.write({"a": 1})[:5] == theirs[:5], "the same schema"


@pytest.mark.parametrize(
    "message",
    [timestamp_pb2.Timestamp(seconds=5), struct_pb2.Value(string_value="x"), DescriptorProto.ExtensionRange(start=3)],
)
def test_protobuf_beside_confluents_own(registry: Registry, topic: str, message: Any) -> None:
    """The first message of a file, a later one, and one in another one."""
    client = SchemaRegistryClient({"url": registry.url})
    options = {"use.deprecated.format": False}
    theirs = ProtobufSerializer(type(message), client, options)(message, context(topic))
    serde = protobuf(registry.url, type(message), f"{topic}-value")
    assert serde.write(message) == theirs
    assert serde.read(theirs) == message == ProtobufDeserializer(type(message), options)(theirs, context(topic))
    with pytest.raises(ValueError, match="another message"):
        protobuf(registry.url, struct_pb2.Struct if message.DESCRIPTOR.name != "Timestamp" else struct_pb2.Value).read(
            theirs
        )
    with pytest.raises(TypeError):
        serde.write({"a": 1})


def test_a_message_that_imports_another_file(registry: Registry, topic: str) -> None:
    item = FileDescriptorProto(name=f"{topic}/item.proto", package="shop", syntax="proto3")
    item.message_type.add(name="Item").field.add(name="n", number=1, type=5, label=1)
    order = FileDescriptorProto(name=f"{topic}/order.proto", package="shop", syntax="proto3", dependency=[item.name])
    order.message_type.add(name="Order").field.add(name="item", number=1, type=11, type_name=".shop.Item", label=1)
    message = message_factory.GetMessages([item, order], pool=descriptor_pool.DescriptorPool())["shop.Order"]
    value = message()
    value.item.n = 5
    serde = protobuf(registry.url, message, f"{topic}-value")
    ours = serde.write(value)
    client, options = SchemaRegistryClient({"url": registry.url}), {"use.deprecated.format": False}
    assert ProtobufSerializer(message, client, options)(value, context(topic)) == ours
    assert serde.read(ours) == value
    assert f"{topic}/item.proto" in registry.ask("GET", "/subjects")


def test_an_application(registry: Registry, topic: str) -> None:
    orders, totals = avro(registry.url, ORDER, f"{topic}-value"), avro(registry.url, TOTAL, f"{topic}-out-value")
    app = App("totals")
    stream = app.stream(topic, key="string", value=orders)
    grouped = stream.map_values(lambda record: {"cents": int(record.value["price"] * 100)}, value=totals).group_by_key()
    summed = grouped.reduce(lambda left, right: {"cents": left["cents"] + right["cents"]})
    summed.to_stream().to(f"{topic}-out")
    driver = Driver(app)
    for at in (1, 2):
        driver.pipe(topic, ROW, key="a", timestamp=at)
    assert [one.value for one in driver.read(f"{topic}-out", value=totals)] == [{"cents": 150}, {"cents": 300}]
    with pytest.raises(ConfigError, match=r"is no avro: .* does not begin with a zero"):
        driver.pipe(topic, b"nonsense", key="a", timestamp=3)


def test_ones_own_by_two_functions() -> None:
    hexadecimal = own(lambda value: b"%x" % value, lambda data: int(data, 16), "hexadecimal")
    app = App("own")
    app.stream("in", value=hexadecimal).map_values(lambda record: record.value + 1, value=hexadecimal).to("out")
    driver = Driver(app)
    driver.pipe("in", 255, key="k", timestamp=1)
    assert [one.value for one in driver.read("out")] == ["100"]
    with pytest.raises(ConfigError, match="is no hexadecimal"):
        driver.pipe("in", b"xyz", key="k", timestamp=2)
    app = App("own")
    app.stream("in").map_values(lambda record: "text", value=hexadecimal).to("out")
    with pytest.raises(ConfigError, match="returned what is not hexadecimal"):
        Driver(app).pipe("in", b"1", key="k", timestamp=1)


def test_a_registry_that_is_away() -> None:
    settings = {"schema.registry.url": "http://127.0.0.1:9", "max.retries": "0"}
    with pytest.raises(Retriable, match="could not be reached"):
        avro(settings).read(b"\0\0\0\0\1x")
