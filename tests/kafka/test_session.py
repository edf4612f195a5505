"""Sessions in a consumer group, against a real broker."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import semel
from semel.errors import ConfigError
from semel.testing.history import assert_exactly_once
from tests.topics import create

PARTITIONS = 4


def fill(servers: str, topic: str, numbers: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, value=json.dumps({"id": number}), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def stands(servers: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], timeout=30)
        return sum(max(one.offset, 0) for one in found)
    finally:
        consumer.close()


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(["value", "partition"])


def test_rows_and_offsets_are_committed_together(servers: str) -> None:
    source, target = create(servers, "session-in", PARTITIONS), create(servers, "session-out", PARTITIONS)
    fill(servers, source, range(2000))
    with (
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.session("copy", group="session-copy", topics=[source]) as session,
    ):
        left = 2000
        for batch in session:
            session.send(target, copied(batch))
            assert session.commit()
            left -= batch.num_rows
            if not left:
                break
    assert_exactly_once(servers, target, source=source, id="json:$.id", timeout=60)
    assert stands(servers, "session-copy", source) == 2000


def test_a_member_that_was_thrown_out_commits_nothing(servers: str) -> None:
    """Whoever does not ask for rows within max_poll_interval_ms is out, and its offsets are refused."""
    source, target = create(servers, "late-in", PARTITIONS), create(servers, "late-out", PARTITIONS)
    fill(servers, source, range(100))
    with semel.Cluster({"bootstrap.servers": servers, "fetch.max.wait.ms": 50}) as cluster:
        slow = cluster.session("late", group="late", topics=[source], max_poll_interval_ms=1_000)
        quick = cluster.session("late", group="late", topics=[source])
        with quick, slow:
            rows = slow.poll(30)
            assert rows is not None
            slow.send(target, copied(rows))
            while stands(servers, "late", source) < 100:
                if (batch := quick.poll(1)) is not None:
                    quick.send(target, copied(batch))
                    assert quick.commit()
            assert not slow.commit()
    assert_exactly_once(servers, target, source=source, id="json:$.id", timeout=60)


def test_what_cannot_be_is_refused(servers: str) -> None:
    with semel.Cluster({"bootstrap.servers": servers}) as cluster:
        with pytest.raises(ConfigError, match="a group and a list of topics"):
            cluster.session("wrong", group="wrong", topics="in")
        with pytest.raises(ConfigError, match="neither earliest nor latest"):
            cluster.session("wrong", group="wrong", topics=["in"], auto_offset_reset="none")
        with cluster.session("wrong", group="wrong", topics=["nowhere"]) as session:
            with pytest.raises(ConfigError, match="handed out nothing yet"):
                session.commit()
            with pytest.raises(ConfigError, match="nowhere"):
                session.poll(1)
