"""Objection 13: a batch takes longer than the transaction may.

It is run again, and if that cannot help, it ends in an error that says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from semel import steps
from semel.errors import ConfigError
from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from semel.steps import OwnerStep, Step
from tests.spark.support.copy_query import Line
from tests.spark.support.topics_and_drivers import create, produce, values
from tests.support.waiting import wait_for

#: Enough for the batch where nothing holds it up, also on a busy machine; and what no batch is held up for in vain.
ENOUGH: dict[str, Any] = {"kafka.transaction.timeout.ms": 15_000}
SHORT: dict[str, Any] = {"kafka.transaction.timeout.ms": 3_000, "maxBatchRetries": 1}


def held(rows: DataFrame, go: Path) -> DataFrame:
    """The rows, from tasks that do not end before ``go`` is there."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            wait_for(go.exists, "go")
            yield batch

    return rows.mapInArrow(wait, rows.schema)


@pytest.mark.exhaustive  # its sample is test_slow_each_time
def test_slow_once(spark: SparkSession, kafka: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line, go = Line.new(spark, kafka, tmp_path, "slow"), tmp_path / "go"
    produce(kafka, line.source, range(100))
    line.run()  # Python workers take long to start the first time
    produce(kafka, line.source, range(100, 200))

    def observe(step: Step, detail: str) -> None:
        if step is OwnerStep.ABORT_ANSWERED:
            go.touch()

    monkeypatch.setattr(steps, "_observer", observe)
    line.run(rows=held(line.rows().select("key", "value"), go), **ENOUGH)
    assert go.exists(), "it was not slow"
    line.assert_exact()


def test_slow_each_time(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    line, go = Line.new(spark, kafka, tmp_path, "slower"), tmp_path / "go"
    produce(kafka, line.source, range(100))
    with pytest.raises(ConfigError, match="maxOffsetsPerTrigger") as refused:
        line.run(rows=held(line.rows().select("key", "value"), go), **SHORT)
    assert refused.value.tag == "BATCH_TOO_LONG"
    assert values(kafka.bootstrap_servers, line.target) == []
    go.touch()
    line.run(reading={"maxOffsetsPerTrigger": 10})
    line.assert_exact()
    planned = [file.name for file in (line.checkpoint / "offsets").glob("[0-9]*")]
    assert planned == ["0"], "the message says that a lower limit does not change this batch"


def test_a_batch_job_that_is_slow_each_time(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    topic, go = create(kafka, "slow-job", 2), tmp_path / "go"
    rows = spark.range(10).select(f.col("id").cast("string").alias("value"))
    options = {"topic": topic, "transactionalIdPrefix": topic, "kafka.bootstrap.servers": kafka.bootstrap_servers}
    with pytest.raises(ConfigError) as refused:
        KafkaSink(**options, **SHORT).write(held(rows, go), version=1)
    assert refused.value.tag == "BATCH_TOO_LONG"
    assert values(kafka.bootstrap_servers, topic) == []
    go.touch()
    KafkaSink(**options).write(held(rows, go), version=1)
    assert sorted(values(kafka.bootstrap_servers, topic)) == [str(number) for number in range(10)]
