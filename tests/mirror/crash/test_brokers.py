"""A broker of three is killed under a mirror, of either cluster; rows that the target deletes as soon as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from semel.steps import MirrorStep
from tests.mirror.support.harness import Running, alias_of, mm2, partitions, produce, records, unique
from tests.mirror.support.load import PARTITIONS, assert_the_same, written
from tests.support import topics
from tests.support.broker_faults import leader_of, striking, wait_whole
from tests.support.waiting import wait_for

DAYS_MS = 86_400_000
#: Longer than a round takes: else no round would ever end.
RETENTION_CHECK_MS = 5_000


@pytest.fixture(scope="module")
def three() -> Iterator[Sandbox]:
    """Brokers that are missed after 2 s, and delete often what is too old."""
    settings = {
        "broker.heartbeat.interval.ms": "300",
        "broker.session.timeout.ms": "2000",
        "replica.lag.time.max.ms": "3000",
        "log.retention.check.interval.ms": str(RETENTION_CHECK_MS),
        "log.initial.task.delay.ms": "1000",
    }
    with Sandbox.start(nodes=3, settings=settings) as sandbox:
        yield sandbox


def has(sandbox: Sandbox, topic: str, count: int) -> bool:
    return sum(map(len, records(sandbox, topic).values())) >= count


def survived(a: Sandbox, b: Sandbox, three: Sandbox, spark: SparkSession, directory: Path) -> None:
    """The leaders of a partition are killed one after the other, in the middle of a round, and come back."""
    replication = len(a.nodes)
    topic = topics.create(a.bootstrap_servers, unique("brokers"), PARTITIONS, replication)
    file = mm2(directory, a, b, topic, replication__factor=str(len(b.nodes)), emit__checkpoints__enabled="false")
    target = f"{alias_of(file)}.{topic}"
    struck_topic = topic if three is a else target
    with Running(spark, file) as flows:
        with written(a, topic) as writer:
            wait_for(lambda: writer.rows > 0, "the first row")
            wait_for(lambda: partitions(three, struck_topic), "the topic")
            wait_for(partial(has, b, target, 1), "a first round")
            for _ in range(2):
                victim = leader_of(three, struck_topic)
                assert victim is not None
                before = writer.rows
                with striking(MirrorStep.PLANNED, victim.kill) as struck:
                    wait_for(struck.is_set, "a round")
                wait_for(partial(has, b, target, before), "what was written before")
                victim.start()
                victim.wait_ready(120, nodes=3)
                wait_whole(three)
        wait_for(lambda: has(b, target, writer.rows), flows.said)
    assert not flows.failed
    assert_the_same(a, b, topic, target)


@pytest.mark.exhaustive
def test_brokers_of_the_target_are_killed(a: Sandbox, three: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    survived(a, three, three, spark, tmp_path)


@pytest.mark.exhaustive
def test_brokers_of_the_source_are_killed(b: Sandbox, three: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    survived(three, b, three, spark, tmp_path)


def first_offset(sandbox: Sandbox, topic: str) -> int:
    at = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})
    return int(admin.list_offsets({at: OffsetSpec.earliest()})[at].result(30).offset)


@pytest.mark.exhaustive
def test_rows_that_the_target_deletes_in_the_middle_of_their_round(
    a: Sandbox, three: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    """Older than its retention.ms: the round runs again, with a warning, and the flow does not stop."""
    topic = topics.create(a.bootstrap_servers, unique("old"), 1, retention_ms="-1")
    old = int(time.time() * 1000) - 3 * DAYS_MS
    produce(a, topic, [{"value": f"old {i}", "timestamp": old} for i in range(10)])
    file = mm2(tmp_path, a, three, topic, emit__checkpoints__enabled="false", sync__topic__configs__enabled="false")
    target = topics.create(three.bootstrap_servers, f"{alias_of(file)}.{topic}", 1, retention_ms=str(DAYS_MS))

    def deleted() -> None:
        wait_for(lambda: first_offset(three, target) > 0, "retention")

    with striking(MirrorStep.PROVEN, deleted) as struck, Running(spark, file) as flows:
        wait_for(struck.is_set, flows.said)
        wait_for(lambda: "tried again in" in flows.said(), flows.said)
        wait_for(lambda: " 10 records" in flows.said(), flows.said)
        produce(a, topic, [{"value": f"new {i}"} for i in range(5)])
        wait_for(
            lambda: [value for _, value, _, _ in records(three, target)[0]][-5:] == [b"new %d" % i for i in range(5)],
            flows.said,
        )
    assert not flows.failed
    assert "ROWS_GONE" in flows.said()
