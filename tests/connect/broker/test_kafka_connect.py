"""Kafka's own Connect and semel's, one after the other, on the same offsets topic with the same file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.connect.worker.worker import Worker
from semel.errors import ConfigError
from semel.sandbox import Sandbox
from semel.testing.records import arrived
from tests.connect.support.kafka_connect import KafkaConnect, kafka_connect
from tests.connect.support.lines import Lines
from tests.connect.support.rest import Rest, semel_connect
from tests.connect.support.running import Running
from tests.support.waiting import wait_for


@pytest.mark.exhaustive  # its sample is the next one
def test_each_goes_on_where_the_other_stopped(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    lines = Lines.prepare(kafka.bootstrap_servers, tmp_path / "files", 1, 500, exactly_once_source_support="enabled")
    (name,) = lines.names
    worker, connector = _read(lines.worker), _read(lines.properties(name))

    def wait_for_all() -> None:
        wanted = len(lines.expected(name))
        wait_for(lambda: arrived(lines.servers, name) >= wanted, f"{wanted} lines", 60)

    def semel() -> None:
        running = Running(spark, worker, [connector])
        wait_for_all()
        running.worker.stop()
        lines.check_exact()

    def append(text: str) -> None:
        with lines.file(name).open("a") as file:
            file.writelines(f"{text} {number}\n" for number in range(300))

    semel()
    append("for Kafka's own")
    with kafka_connect(worker, tmp_path / "connect") as theirs:
        theirs.ask("PUT", f"/connectors/{name}/config", connector)
        wait_for_all()
        shown = theirs.ask("GET", f"/connectors/{name}/offsets")["offsets"]
        assert [one["partition"] for one in shown] == [{"filename": str(lines.file(name))}]
    lines.check_exact()
    append("for semel again")
    semel()


def _read(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


@pytest.mark.exhaustive
def test_each_takes_the_others_connectors(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    """All three topics: a connector that one of them was told, its state and its offsets are the other's too."""
    lines = Lines.prepare(kafka.bootstrap_servers, tmp_path / "files", 1, 300, exactly_once_source_support="enabled")
    (name,) = lines.names
    worker, connector = _read(lines.worker), _read(lines.properties(name))

    def more(text: str) -> None:
        with lines.file(name).open("a") as file:
            file.writelines(f"{text} {number}\n" for number in range(100))
        wanted = len(lines.expected(name))
        wait_for(lambda: arrived(lines.servers, name) >= wanted, f"{wanted} lines", 90)

    with semel_connect(spark, worker) as address:
        rest = Rest("semel", address, lines.servers, worker, tmp_path)
        assert rest.ask("POST", "/connectors", {"name": name, "config": connector})[0] == 201
        more("for semel")
    with kafka_connect(worker, tmp_path / "connect") as theirs:
        more("for Kafka's own")
        rest = Rest("kafka", theirs.address, lines.servers, worker, tmp_path)
        assert rest.ask("GET", f"/connectors/{name}/config")[1] == connector
        rest.wait_states(name, "RUNNING", "RUNNING")
        assert rest.ask("PUT", f"/connectors/{name}/config", {**connector, "batch.size": "50"})[0] == 200
        assert rest.ask("PUT", f"/connectors/{name}/pause")[0] == 202
        rest.wait_states(name, "PAUSED", "PAUSED")
    with semel_connect(spark, worker) as address:
        rest = Rest("semel", address, lines.servers, worker, tmp_path)
        rest.wait_states(name, "PAUSED", "PAUSED")
        assert rest.ask("GET", f"/connectors/{name}/config")[1]["batch.size"] == "50"
        assert rest.ask("PUT", f"/connectors/{name}/resume")[0] == 202
        more("for semel again")
    lines.check_exact()


def _has_ended(theirs: KafkaConnect) -> bool:
    try:
        theirs.ask("GET", "/")
    except OSError:
        return True
    return False


@pytest.mark.exhaustive  # its sample is test_group.py: a consumer is in the group
def test_neither_joins_the_group_of_the_other(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    lines = Lines.prepare(kafka.bootstrap_servers, tmp_path / "files", 1, 10, exactly_once_source_support="enabled")
    (name,) = lines.names
    worker, connector = _read(lines.worker), _read(lines.properties(name))
    with kafka_connect(worker, tmp_path / "first"), pytest.raises(ConfigError, match="GROUP_IN_USE"):
        Worker(worker, [connector]).prepare()
    running = Running(spark, worker, [connector])
    try:
        with kafka_connect(worker, tmp_path / "second") as theirs:
            wait_for(partial(_has_ended, theirs), "its end", 60)
        wait_for(lines.all_arrived, "its lines")
        assert running.worker.leads
    finally:
        running.worker.stop()
    lines.check_exact()
