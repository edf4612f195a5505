"""What a worker of Connect shows to Prometheus while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from semel.connect.metrics import METRICS, ConnectCollector
from semel.sandbox import Sandbox
from tests.connect.support.place import Place
from tests.support.waiting import wait_for

RECORDS = 200
CONFIG = {
    "connector.class": "DatagenSource",
    "rate": "200",
    "batch.size": "20",
    "iterations": str(RECORDS),
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}


@pytest.fixture
def place(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Place:
    return Place(spark, kafka.bootstrap_servers, tmp_path)


def test_a_running_worker(place: Place) -> None:
    with place.running(**place.stored) as running:
        registry = CollectorRegistry()
        registry.register(ConnectCollector(running.worker))
        assert registry.get_sample_value("semel_connect_leader") == 1
        assert registry.get_sample_value("kafka_connect_worker_connector_count") == 0
        running.worker.herder.put(place.name, {**CONFIG, "name": place.name, "topic": place.topic})
        place.wait_arrived(RECORDS)
        task = {"connector": place.name, "task": "0"}

        def sample(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(name, {**task, **labels})

        written = "kafka_connect_source_task_source_record_write_total"
        wait_for(lambda: sample(written) == RECORDS, lambda: str(sample(written)), 60)
        assert sample("kafka_connect_source_task_source_record_poll_total") == RECORDS
        assert sample("kafka_connect_connector_task_status", status="running") == 1
        assert 0 < (sample("kafka_connect_source_task_transaction_size_avg") or 0) <= RECORDS
        assert sample("semel_connect_transaction_age_seconds") is not None
        assert registry.get_sample_value("kafka_connect_worker_connector_count") == 1
        assert registry.get_sample_value("kafka_connect_worker_task_count") == 1


def test_the_page_has_each_metric() -> None:
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    assert [metric.name for metric in METRICS if f"| `{metric.name}` | {metric.kind.value} |" not in page] == []
