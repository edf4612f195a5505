"""Objection 16: our output is read with ``failOnDataLoss=true`` over aborted rows and markers: no false alarm, no
stall.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel import steps
from semel.sandbox import Sandbox
from semel.steps import SinkStep, Step
from tests.spark.support.copy_query import Crashed, Line
from tests.spark.support.topics_and_drivers import everything, produce, values


def fail_behind_the_job(step: Step, detail: str) -> None:
    """All rows of the batch are written by then, and the transaction is open."""
    if step is SinkStep.JOB_DONE:
        raise Crashed


def test_aborted_rows_between_committed_ones(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole batches are aborted: ranges longer than the batches of the reader are."""
    line = Line.new(spark, kafka, tmp_path, "aborted", per_batch=100)
    for number in range(2):
        produce(kafka, line.source, range(number * 100, number * 100 + 100))
        with monkeypatch.context() as patch:
            patch.setattr(steps, "_observer", fail_behind_the_job)
            with pytest.raises(Crashed):
                line.run()
        line.run()
    line.assert_exact()
    servers = kafka.bootstrap_servers
    assert len(everything(servers, line.target)) == 400, "half of it aborted"
    options = {**line.kafka_options, "subscribe": line.target, "startingOffsets": "earliest", "failOnDataLoss": "true"}
    read = spark.read.format("semel").options(**options).load()
    assert sorted(bytes(row.value).decode() for row in read.select("value").collect()) == sorted(
        values(servers, line.target)
    )
    copy = Line(
        spark,
        kafka,
        tmp_path,
        line.target,
        Line.new(spark, kafka, tmp_path, "again").target,
        f"{line.prefix}-again",
        per_batch=60,
    )
    copy.run(reading={"failOnDataLoss": "true"})
    assert sorted(values(servers, copy.target)) == sorted(values(servers, line.target))
