"""Objection 3: a task is retried. Its second attempt writes nothing: the batch is aborted and run again as a whole.

A stage that runs again with attempt 0, after an executor with shuffle output was killed, is in
``tests/spark/broker/test_proof.py``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from tests.spark.support.topics_and_drivers import create, everything, values


def test_error_of_the_plan_is_not_hidden_by_the_refused_attempts(spark: SparkSession, kafka: Sandbox) -> None:
    """A second attempt computes its rows, and writes none: the error that comes again is the one that the user sees."""
    topic = create(kafka, "wrong", 2)

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            raise ArithmeticError("of the user's own")

    sink = KafkaSink(topic=topic, transactionalIdPrefix=topic, **{"kafka.bootstrap.servers": kafka.bootstrap_servers})
    with pytest.raises(Exception, match="ArithmeticError: of the user's own"):
        sink.write(
            spark.range(0, 100, 1, 2).selectExpr("cast(id as string) as value").mapInArrow(fail, "value string"),
            version=1,
        )
    assert values(kafka.bootstrap_servers, topic) == []


def test_second_attempt_writes_nothing(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    """The first attempt dies by SIGKILL when some of its rows are in Kafka already."""
    topic, marker = create(kafka, "retried", 2), tmp_path / "died"

    def die(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 2 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    rows = (
        spark.range(0, 60_000, 1, 2)
        .select(f.format_string("%d %0900d", "id", f.lit(0)).alias("value"))
        .mapInArrow(die, "value string")
    )
    sink = KafkaSink(topic=topic, transactionalIdPrefix=topic, **{"kafka.bootstrap.servers": kafka.bootstrap_servers})
    totals = sink.write(rows, version=1)
    assert totals is not None
    assert (totals.rows, totals.retries) == (60_000, 1)
    assert sorted(int(value.split()[0]) for value in values(kafka.bootstrap_servers, topic)) == list(range(60_000))
    assert len(everything(kafka.bootstrap_servers, topic)) > 60_000, (
        "nothing had been written before the kill: it showed nothing"
    )
