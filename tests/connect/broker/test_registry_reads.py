"""Values of each converter with a schema become the same columns in a sink; those of Confluent's serializers too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory

from semel.connect.converters import ConfiguredConverter, json_converter
from semel.connect.registry_converters import registry_converter
from semel.errors import ConfigError
from semel.serdes.protobuf.compiled import messages_of
from semel.serdes.schemas.struct import checked
from tests.connect.broker.test_registry_formats import JSON_SCHEMA, ORDER, PROTOBUF, ROW
from tests.support.registry import Registry

AVRO = "io.confluent.connect.avro.AvroConverter"
ROWS = [ROW, {**ROW, "note": None, "exact": None, "items": [], "first": {"name": "x", "count": None}}]
_numbers = count(1)


@pytest.fixture
def topic() -> str:
    return f"reads-{next(_numbers)}"


def converter(registry: Registry, kind: str, **more: str) -> ConfiguredConverter:
    options = {name.replace("_", "."): value for name, value in more.items()}
    return registry_converter(kind, {"schema.registry.url": registry.url, **options}, "value.converter")


def column(made: ConfiguredConverter, values: Sequence[bytes | None], topic: str) -> Any:
    ((_, read),) = made.read(pa.array(values, pa.binary()), "value", topic)
    return read


def shape(kind: Any) -> Any:
    """A type by its names and its parts' types, whatever may be null."""
    if pa.types.is_struct(kind):
        return [(one.name, shape(one.type)) for one in kind]
    if pa.types.is_list(kind):
        return [shape(kind.value_type)]
    return {"key": shape(kind.key_type), "value": shape(kind.item_type)} if pa.types.is_map(kind) else str(kind)


def test_the_columns_are_the_same(registry: Registry, topic: str) -> None:
    checked_rows = [checked(ORDER, row) for row in ROWS]

    def columns(made: ConfiguredConverter, name: str) -> Any:
        return column(made, [*(made.value(ORDER, one, "value", name) for one in checked_rows), None], name)

    plain = columns(json_converter({}, "value.converter"), topic)
    assert plain.to_pylist()[2] is None
    kinds = {AVRO: {}, JSON_SCHEMA: {}, PROTOBUF: {"optional_for_nullables": "true"}}
    for number, (kind, options) in enumerate(kinds.items()):
        found = columns(converter(registry, kind, **options), f"{topic}-{number}")
        assert shape(found.type) == shape(plain.type), kind
        assert found.to_pylist() == plain.to_pylist(), kind


def test_json_of_confluents_serializer(registry: Registry, topic: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    buyer = '{"type": "object", "title": "Buyer", "properties": {"name": {"type": "string"}}}'
    registry.ask("POST", f"/subjects/{topic}-buyer/versions", {"schema": buyer, "schemaType": "JSON"})
    parts = {"id": {"type": "integer"}, "buyer": {"$ref": "buyer.json"}, "note": {"type": ["string", "null"]}}
    order = {"type": "object", "title": "Order", "properties": parts, "required": ["id"]}
    references = [{"name": "buyer.json", "subject": f"{topic}-buyer", "version": 1}]
    body = {"schema": json.dumps(order), "schemaType": "JSON", "references": references}
    registry.ask("POST", f"/subjects/{topic}-value/versions", body)
    plain = {**order, "properties": {name: one for name, one in parts.items() if name != "buyer"}}
    write = JSONSerializer(json.dumps(plain), client, conf={"auto.register.schemas": True, "validate": False})
    number = registry.ask("GET", f"/subjects/{topic}-value/versions/latest")["id"]
    with_buyer = b"\0" + number.to_bytes(4) + b'{"id": 1, "buyer": {"name": "A"}}'
    made = converter(registry, JSON_SCHEMA, use_optional_for_nonrequired="true")
    assert column(made, [with_buyer], topic).to_pylist() == [{"id": 1, "buyer": {"name": "A"}, "note": None}]
    theirs = write({"id": 2, "note": "x"}, SerializationContext(f"{topic}-plain", MessageField.VALUE))
    assert column(made, [theirs], topic).to_pylist() == [{"id": 2, "note": "x"}]
    strict = converter(registry, JSON_SCHEMA)
    with pytest.raises(ConfigError, match=r"buyer is null or missing.*use\.optional\.for\.nonrequired") as refused:
        column(strict, [b"\0" + number.to_bytes(4) + b'{"id": 1}'], topic)
    assert refused.value.tag == "UNREADABLE_RECORD"
    with pytest.raises(ConfigError, match="of the kind JSON, and not PROTOBUF"):
        column(converter(registry, PROTOBUF), [theirs], topic)


def test_protobuf_of_confluents_serializer(registry: Registry, topic: str) -> None:
    """Their schemas are descriptions in Base64; the file that it imports has a subject of its own."""
    item = f'syntax = "proto3"; package {topic.replace("-", "_")}; message Item {{ int32 n = 1; }}'
    text = (
        f'syntax = "proto3"; package {topic.replace("-", "_")}; import "{topic}.proto";'
        ' import "google/protobuf/timestamp.proto"; message No {}'
        " message Row { Item item = 1; repeated string tags = 2; google.protobuf.Timestamp at = 3;"
        " message Inner { bool a = 1; } }"
    )
    row = message_factory.GetMessageClass(messages_of(text, {f"{topic}.proto": item})[1])
    write = ProtobufSerializer(row, SchemaRegistryClient({"url": registry.url}), {"use.deprecated.format": False})
    message = row(item={"n": 5}, tags=["a"])
    theirs = write(message, SerializationContext(topic, MessageField.VALUE))
    found = column(converter(registry, PROTOBUF), [theirs, None], topic)
    assert found.to_pylist() == [{"item": {"n": 5}, "tags": ["a"], "at": None}, None]
