"""Brokers that are killed, and replies that are lost, while a connector writes: each number once, in order."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.testing.records import arrived, read
from tests.connect.support.place import Place
from tests.support.broker_faults import wait_whole
from tests.support.waiting import wait_for

NEVER_ENDS = 100_000_000
#: What a task asks from its start to a commit.
REQUESTS = ["FindCoordinator", "InitProducerId", "Metadata", "Fetch", "AddPartitionsToTxn", "Produce", "EndTxn"]


def _more(place: Place, records: int) -> None:
    wanted = arrived(place.servers, place.topic) + records
    wait_for(lambda: arrived(place.servers, place.topic) >= wanted, f"{records} more", 120)


def _check_exact(place: Place) -> None:
    """All numbers from 0 on, each once, in order in each partition."""
    rows = read(place.servers, [place.topic], {"value": "value"})
    rows = rows.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()
    for _, some in groupby(rows, lambda row: row["partition"]):
        numbers = [int(row["value"]) for row in some]
        assert numbers == sorted(numbers)
    assert sorted(int(row["value"]) for row in rows) == list(range(len(rows)))


@pytest.mark.exhaustive  # its sample is objection 18: a broker of three is killed at each step of a query
def test_each_broker_of_three_is_killed(spark: SparkSession, kafka3: Sandbox, tmp_path: Path) -> None:
    place = Place(spark, kafka3.bootstrap_servers, tmp_path, replication=3)
    with place.running(place.numbers(NEVER_ENDS), **place.stored) as running:
        _more(place, 200)
        for node in kafka3.nodes:
            node.kill()
            _more(place, 500)
            node.start()
            node.wait_ready()
            wait_whole(kafka3)
        _more(place, 200)
        assert running.worker.herder.status(place.name)["tasks"][0]["state"] == "RUNNING"
        assert running.worker.leads
    _check_exact(place)


@pytest.mark.exhaustive  # its sample is tests/transaction/crash/test_faults_on_the_wire.py
def test_lost_replies(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    place = Place(spark, kafka.bootstrap_servers, tmp_path)
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        through = {"producer.bootstrap.servers": proxy.bootstrap_servers, "producer.request.timeout.ms": "1000"}
        through["admin.bootstrap.servers"] = proxy.bootstrap_servers
        place.worker |= through
        with place.running(place.numbers(NEVER_ENDS), **place.stored) as running:
            _more(place, 100)
            for api in REQUESTS:
                fault = proxy.drop_reply(api)
                running.worker.herder.restart_task(place.name, 0)
                assert fault.happened.wait(60), api
                _more(place, 100)
    _check_exact(place)
