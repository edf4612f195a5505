"""An application whose records and state are Avro with a registry, restored from its changelog."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from semel.streams import App, avro
from semel.streams.worker.worker import Worker
from semel.testing.records import arrived
from tests.streams.support.applications import names
from tests.support.registry import Registry, read_avro
from tests.support.topics import create
from tests.support.waiting import wait_for

_NOTE = '{"name":"note","type":"string","default":""}'
ORDER = '{"type":"record","name":"Order","fields":[{"name":"cents","type":"long"},' + _NOTE + "]}"
TOTAL = '{"type":"record","name":"Total","fields":[{"name":"cents","type":"long"}]}'


def totalling(name: str, conf: dict[str, Any], source: str, target: str, url: str) -> App:
    orders, totals = avro(url), avro(url, TOTAL, f"{target}-value")
    app = App(name, **conf)
    cents = app.stream(source, key="string", value=orders).map_values(
        lambda record: {"cents": record.value["cents"]}, value=totals
    )
    summed = cents.group_by_key().reduce(lambda left, right: {"cents": left["cents"] + right["cents"]})
    summed.to_stream().to(target)
    return app


def test_state_in_avro_is_restored(servers: str, registry: Registry, tmp_path: Path) -> None:
    name, state = f"registry-{next(names)}", tmp_path / "state"
    source, target = create(servers, f"{name}-in", 1), create(servers, f"{name}-out", 1)
    conf = {"bootstrap.servers": servers, "state.dir": str(state), "commit.interval.ms": 50}
    write = AvroSerializer(SchemaRegistryClient({"url": registry.url}), ORDER)
    producer = Producer({"bootstrap.servers": servers})

    def run(cents: int, records: int) -> None:
        value = write({"cents": cents, "note": "x"}, SerializationContext(source, MessageField.VALUE))
        producer.produce(source, value, key="a")
        assert producer.flush(60) == 0
        with Worker(totalling(name, conf, source, target, registry.url)) as worker:
            wait_for(lambda: not worker.step() and arrived(servers, target) == records, "the totals")

    run(150, 1)
    shutil.rmtree(state)
    run(250, 2)
    assert read_avro(servers, target, registry.url) == [{"cents": 150}, {"cents": 400}]
