"""Envelopes of changes that bring their schema become rows and deletes in a sink."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.sinks.batches import BadRecord, Batches
from semel.connect.sinks.reader import ReadBatch
from semel.records.record_headers import HEADERS
from tests.connect.unit.test_config import WORKER

JSON = "org.apache.kafka.connect.json.JsonConverter"
ROW = {"type": "struct", "fields": [{"field": "id", "type": "int32", "optional": False}]}
FIELDS = [
    {**ROW, "field": "before", "optional": True},
    {**ROW, "field": "after", "optional": True},
    {"field": "op", "type": "string", "optional": False},
]
ENVELOPE = {"type": "struct", "name": "shop.orders.Envelope", "optional": False, "fields": FIELDS}


def change(op: str, before: int | None, after: int | None) -> bytes:
    rows = {name: None if one is None else {"id": one} for name, one in (("before", before), ("after", after))}
    return json.dumps({"schema": ENVELOPE, "payload": {**rows, "op": op}}).encode()


def values(mode: str, *given: bytes | None) -> list[tuple[int, Any]]:
    sink = {
        "name": "sink",
        "connector.class": "FileStreamSink",
        "topics": "orders",
        "key.converter": JSON,
        "value.converter": JSON,
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.unwrap.delete.tombstone.handling.mode": mode,
    }
    columns = {
        "topic": pa.array(["orders"] * len(given)),
        "partition": pa.array([0] * len(given), pa.int32()),
        "offset": pa.array(range(len(given)), pa.int64()),
        "timestamp": pa.array([0] * len(given), pa.timestamp("us", "UTC")),
        "headers": pa.array([None] * len(given), HEADERS),
        "key": pa.array([b'{"schema": {"type": "int32", "optional": false}, "payload": 1}'] * len(given), pa.binary()),
        "value": pa.array(given, pa.binary()),
    }
    bad: list[BadRecord] = []
    batches = Batches(ConnectorConfig.parse(sink, WorkerConfig.parse(WORKER)), 0, bad.append)
    made = batches.batch(ReadBatch(("orders", 0), pa.RecordBatch.from_pydict(columns), 0, len(given)))
    assert not bad
    return [(one.offset, one.value and one.value["id"]) for one in made.records()]


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [("tombstone", [(0, 7), (1, 8), (2, None), (4, 9)]), ("drop", [(0, 7), (1, 8), (4, 9)])],
)
def test_envelopes_become_rows(mode: str, wanted: list[tuple[int, int | None]]) -> None:
    given = (change("c", None, 7), change("u", 7, 8), change("d", 8, None), None, change("r", None, 9))
    assert values(mode, *given) == wanted
