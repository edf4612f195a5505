"""Values of a registry in a sink: Avro as Confluent's own serializer writes it, JSON Schema and Protobuf."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from semel.connect import Schema
from semel.connect.registry_converters import registry_converter
from semel.processes.supervisor import State
from semel.sandbox import Sandbox
from semel.serdes.schemas.struct import checked
from semel.testing.records import arrived
from tests.connect.support.place import Place
from tests.support import topics
from tests.support.other_client import produce
from tests.support.registry import Registry
from tests.support.waiting import wait_for

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "default": None},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
]
MORE = {"name": "more", "type": ["null", "int"], "default": None}
ROW: dict[str, Any] = {
    "name": "é",
    "price": Decimal("1.50"),
    "day": date(2026, 2, 3),
    "at": datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=UTC),
    "colour": "BLUE",
}


def written(registry: Registry, topic: str, fields: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[bytes]:
    """Return values as Confluent's own serializer writes them."""
    schema = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    serialize = AvroSerializer(SchemaRegistryClient({"url": registry.url}), json.dumps(schema))
    made = [serialize(one, SerializationContext(topic, MessageField.VALUE)) for one in rows]
    return [one for one in made if one is not None]


@pytest.mark.exhaustive
def test_avro_becomes_rows(spark: SparkSession, kafka: Sandbox, registry: Registry, tmp_path: Path) -> None:
    """The schema gets one more field on the way. What is no Avro fails the task, and names its place."""
    place, file = Place(spark, kafka.bootstrap_servers, tmp_path), tmp_path / "target.db"
    topic = topics.create(place.servers, f"avro-of-{place.name}")
    sink = {
        "name": place.name,
        "connector.class": "SqlSink",
        "topics": topic,
        "connection.url": f"sqlite:///{file}",
        "auto.create": "true",
        "auto.evolve": "true",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": registry.url,
    }

    def rows() -> list[Any]:
        with sqlite3.connect(file) as connection:
            try:
                return connection.execute(f'SELECT * FROM "{topic}" ORDER BY id').fetchall()
            except sqlite3.OperationalError:
                return []

    first = written(registry, topic, FIELDS, [{"id": n, **ROW} for n in range(3)])
    wider = written(registry, topic, [*FIELDS, MORE], [{"id": 1, **ROW, "name": None, "more": 7}])
    produce(place.servers, topic, [{"value": one} for one in (*first, *wider)])
    with place.running(sink) as running:
        wait_for(lambda: len(rows()) == 3 and len(rows()[1]) == 7, lambda: f"{rows()} {running.states}")
        produce(place.servers, topic, [{"value": b"no avro"}])
        failed = running.wait_state(f"{place.name}-0", State.FAILED)
    assert f"{topic}-0, offset 4" in failed.reason
    assert "does not begin with a zero and the id of a schema" in failed.reason
    kept = ("é", 1.5, "2026-02-03", "2026-02-03 04:05:06.789000", "BLUE")
    assert rows() == [(0, *kept, None), (1, None, *kept[1:], 7), (2, *kept, None)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["json.JsonSchemaConverter", "protobuf.ProtobufConverter"])
def test_other_formats_become_rows(
    spark: SparkSession, kafka: Sandbox, registry: Registry, tmp_path: Path, kind: str
) -> None:
    """A dead letter among them: its schema is not there."""
    place, file = Place(spark, kafka.bootstrap_servers, tmp_path), tmp_path / "target.db"
    topic, letters = (topics.create(place.servers, f"{name}-of-{place.name}") for name in ("rows", "letters"))
    parts = {"id": Schema.int64(), "name": Schema.string(optional=True)}
    parts |= {"price": Schema.decimal(2), "day": Schema.date()}
    schema = Schema.struct(parts, name="shop.Order")
    converter = f"io.confluent.connect.{kind}"
    made = registry_converter(converter, {"schema.registry.url": registry.url}, "value.converter")
    given = [{name: one for name, one in {"id": n, **ROW}.items() if name in parts} for n in range(3)]
    values = [made.value(schema, checked(schema, one), "value", topic) for one in given]
    sink = {
        "name": place.name,
        "connector.class": "SqlSink",
        "topics": topic,
        "connection.url": f"sqlite:///{file}",
        "auto.create": "true",
        "value.converter": converter,
        "value.converter.schema.registry.url": registry.url,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
    }

    def rows() -> list[Any]:
        with sqlite3.connect(file) as connection:
            try:
                return connection.execute(f'SELECT id, name, price, day FROM "{topic}" ORDER BY id').fetchall()
            except sqlite3.OperationalError:
                return []

    produce(place.servers, topic, [{"value": one} for one in (values[0], b"no value", *values[1:])])
    with place.running(sink) as running:
        wait_for(lambda: len(rows()) == 3, lambda: f"{rows()} {running.states}")
    assert rows() == [(n, "é", 1.5, "2026-02-03") for n in range(3)]
    assert arrived(place.servers, letters) == 1
