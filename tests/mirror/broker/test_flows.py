"""Several flows in one process: both directions, a flow that stops beside one that goes on, settings that follow."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from semel.config import ClientConfig
from semel.errors import Fenced
from semel.mirror.config.properties import read_properties
from semel.mirror.flow import run_flows
from semel.sandbox import Sandbox
from semel.wire.api.topics import own_config
from semel.wire.client import Client
from tests.mirror.support.harness import (
    Running,
    alias_of,
    mm2,
    partitions,
    produce,
    records,
    set_config,
    topics_of,
    unique,
)
from tests.support import topics
from tests.support.waiting import wait_for


def both_ways(directory: Path, a: Sandbox, b: Sandbox, there: str, back: str) -> Path:
    alias = unique("A")
    flow = {f"B->{alias}.enabled": "true", f"B->{alias}.topics": back}
    often = {"refresh.topics.interval.seconds": "1", "sync.topic.configs.interval.seconds": "1"}
    return mm2(directory, a, b, there, alias=alias, **flow, **often)


def configs(sandbox: Sandbox, topic: str) -> dict[str, str]:
    with Client(ClientConfig.parse({"bootstrap.servers": sandbox.bootstrap_servers})) as client:
        return own_config(client, topic)


def test_both_directions_and_one_that_stops(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    there = topics.create(a.bootstrap_servers, unique("there"), 2, retention_ms="7200000")
    back = topics.create(b.bootstrap_servers, unique("back"), 2)
    file = both_ways(tmp_path, a, b, f"{there}, .*\\.{back}", f"{back}, .*\\.{there}")
    alias = alias_of(file)

    def write() -> None:
        for sandbox, topic in ((a, there), (b, back)):
            produce(sandbox, topic, [{"value": f"{i}", "partition": i % 2} for i in range(50)])

    def copied(sandbox: Sandbox, topic: str, rows: int) -> bool:
        return sum(map(len, records(sandbox, topic).values())) == rows

    write()
    with Running(spark, file) as flows:
        write()
        wait_for(lambda: copied(b, f"{alias}.{there}", 100), "A->B")
        wait_for(lambda: copied(a, f"B.{back}", 100), "B->A")
        assert records(b, f"{alias}.{there}") == records(a, there)
        assert records(a, f"B.{back}") == records(b, back)
        assert not {name for name in topics_of(b) if f"B.{back}" in name}, "a circle"
        assert not {name for name in topics_of(a) if f"{alias}.{there}" in name}, "a circle"

        set_config(a, there, {"retention.ms": "3600000", "min.insync.replicas": "1", "max.message.bytes": "500000"})
        wanted = {"retention.ms": "3600000", "max.message.bytes": "500000"}
        wait_for(lambda: configs(b, f"{alias}.{there}") == wanted, "the settings to follow")
        set_config(a, there, {"retention.ms": None})
        wait_for(lambda: configs(b, f"{alias}.{there}") == {"max.message.bytes": "500000"}, "the setting to go")

        admin = AdminClient({"bootstrap.servers": b.bootstrap_servers})
        admin.delete_topics([f"{alias}.{there}"])[f"{alias}.{there}"].result(30)
        wait_for(lambda: not partitions(b, f"{alias}.{there}"), "the target topic to be gone")
        wait_for(lambda: f"{there} is stopped, the others are copied" in flows.said(), "the topic that stops")
        other = Producer({"bootstrap.servers": b.bootstrap_servers, "transactional.id": f"mirror.{alias}.B"})
        other.init_transactions(60)
        wait_for(lambda: "has stopped, and the other flows go on" in flows.said(), "the flow that stops")
        produce(b, back, [{"value": "goes on", "partition": 0}] * 5)
        wait_for(lambda: copied(a, f"B.{back}", 105), "the flow that goes on")
        assert not flows.failed
    (failed,) = flows.failed
    assert isinstance(failed, Fenced)


def test_the_program_ends_with_the_last_flow(a: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """Both fail, so that nobody has to stop it."""
    file = both_ways(tmp_path, a, a, "any", "any")
    with pytest.raises(Exception, match="ONE_CLUSTER"):
        run_flows(spark, read_properties(file).flows, threading.Event())
