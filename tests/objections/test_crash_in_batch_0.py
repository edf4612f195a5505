"""Objection 24: a crash in batch 0 with ``latest``, ``committed`` and ``earliest`` while rows arrive.

Spark asks the source again where it starts, and logs no answer; what it was told first is in the end offset
(``began``), and nothing is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from semel.errors import DataLoss
from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from tests.spark.support.copy_query import Callback, Crashed, Line, crash_before, crash_behind
from tests.spark.support.topics_and_drivers import produce, unique, values
from tests.support.waiting import PATIENCE_S, wait_for

Crash = Callable[[int], Callable[[KafkaSink], Callback]]


def ids(line: Line) -> list[int]:
    return sorted(json.loads(value)["id"] for value in values(line.kafka.bootstrap_servers, line.target))


@pytest.mark.parametrize("crash", [crash_before, crash_behind])
def test_latest(spark: SparkSession, kafka: Sandbox, tmp_path: Path, crash: Crash) -> None:
    """Rows arrive when the query runs, in batch 0; then more, between the crash and the next start; then more behind
    that.
    """
    line = Line.new(spark, kafka, tmp_path, "latest", per_batch=1_000)
    produce(kafka, line.source, range(100))
    rows = line.rows(startingOffsets="latest").select("key", "value")
    callback = crash(0)(line.sink())
    query = (
        rows.writeStream.foreachBatch(callback)
        .option("checkpointLocation", str(line.checkpoint))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    offsets = line.checkpoint / "offsets" / "0"
    next_number = 100

    def planned() -> bool:
        nonlocal next_number
        produce(kafka, line.source, range(next_number, next_number + 10))
        next_number += 10
        return offsets.exists() or not query.isActive

    wait_for(planned, "batch 0")
    with pytest.raises(StreamingQueryException, match="Crashed"):
        query.awaitTermination(PATIENCE_S)
    produce(kafka, line.source, range(next_number, next_number + 50))
    line.run(reading={"startingOffsets": "latest"})
    produce(kafka, line.source, range(next_number + 50, next_number + 100))
    line.run(reading={"startingOffsets": "latest"})
    for partition in (0, 1):
        seen = [number for number in ids(line) if number % 2 == partition]
        assert seen[0] >= 100, "it began behind what was there"
        assert seen == list(range(seen[0], next_number + 100, 2)), (
            "from where it began, no row is left out and none is there twice"
        )


@pytest.mark.parametrize("crash", [crash_before, crash_behind])
def test_earliest(spark: SparkSession, kafka: Sandbox, tmp_path: Path, crash: Crash) -> None:
    line = Line.new(spark, kafka, tmp_path, "earliest", per_batch=60)
    produce(kafka, line.source, range(100))
    with pytest.raises(Crashed):
        line.run(around=crash(0))
    produce(kafka, line.source, range(100, 200))
    line.run()
    line.assert_exact()


@pytest.mark.parametrize("crash", [crash_before, crash_behind])
def test_committed(spark: SparkSession, kafka: Sandbox, tmp_path: Path, crash: Crash) -> None:
    """A new checkpoint goes on from the offsets of a group; somebody moves them between the crash and the next
    start.
    """
    line = Line.new(spark, kafka, tmp_path, "committed", per_batch=60)
    produce(kafka, line.source, range(100))
    group = unique("group")

    def commit(offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
        consumer.commit(
            offsets=[TopicPartition(line.source, partition, offset) for partition in (0, 1)], asynchronous=False
        )
        consumer.close()

    commit(20)
    reading = {"startingOffsets": "committed", "kafka.group.id": group}
    with pytest.raises(Crashed):
        line.run(reading=reading, around=crash(0))
    commit(30)
    produce(kafka, line.source, range(100, 200))
    line.run(reading=reading)
    assert ids(line) == list(range(40, 200))


def test_retention_moves(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    """Rows of batch 0 are gone when it is run again: that is said, and what is left is not taken for all of it."""
    line = Line.new(spark, kafka, tmp_path, "retention", per_batch=60)
    produce(kafka, line.source, range(100))
    with pytest.raises(Crashed):
        line.run(around=crash_before(0))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(line.source, partition, 10) for partition in (0, 1)]).values():
        deleted.result(60)
    with pytest.raises(DataLoss):
        line.run()
    assert ids(line) == []
