"""Sinks on a real broker: what arrives in the target, and which offsets are committed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from tests.connect.support.place import Place
from tests.support.other_client import produce
from tests.support.waiting import wait_for


@pytest.fixture
def place(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Place:
    return Place(spark, kafka.bootstrap_servers, tmp_path)


def test_values_become_lines_of_a_file(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    produce(place.servers, place.topic, [{"value": f"value {number}"} for number in range(10)])
    sink = {"name": place.name, "connector.class": "FileStreamSink", "topics": place.topic, "file": str(out)}
    with place.running(sink, offset_flush_interval_ms="100"):
        wait_for(lambda: out.exists() and len(out.read_text().splitlines()) >= 10, "10 lines", 60)
    assert sorted(out.read_text().splitlines()) == [f"value {number}" for number in range(10)]
