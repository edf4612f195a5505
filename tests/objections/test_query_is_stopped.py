"""Objection 20: ``query.stop()`` at any moment: a clean stop, nothing half-committed, no batch that Spark wrongly takes
for done.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from semel import steps
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, SinkStep, Step
from tests.spark.support.copy_query import Line
from tests.spark.support.topics_and_drivers import produce
from tests.support.kafka_version import NOT_PASSED
from tests.support.waiting import PATIENCE_S, wait_for

STEPS: list[Step] = [
    *SinkStep,
    *(step for step in OwnerStep if step not in NOT_PASSED and not step.name.startswith("ABORT_")),
]


def stop_at(line: Line, monkeypatch: pytest.MonkeyPatch, step: Step | None) -> None:
    """Start the query, and stop it from another thread when a batch passes a step (None: when the callback is entered).

    The step goes on when Spark has marked the query as stopping.
    """
    query: StreamingQuery | None = None
    reached, stopped = threading.Event(), threading.Event()

    def stop() -> None:
        assert query is not None
        query.stop()
        stopped.set()

    def observe(passed: Step | None, detail: str) -> None:
        if passed is step and not reached.is_set():
            reached.set()
            wait_for(lambda: query is not None, "the query")
            threading.Thread(target=stop, daemon=True).start()
            wait_for(lambda: query is not None and not query.isActive, "the stop")

    sink = line.sink(**{"kafka.group.id": line.prefix})

    def callback(df: DataFrame, number: int) -> None:
        observe(None, "")
        sink(df, number)

    monkeypatch.setattr(steps, "_observer", observe)
    writer = (
        line.rows()
        .select("key", "value")
        .writeStream.foreachBatch(callback)
        .option("checkpointLocation", str(line.checkpoint))
    )
    query = writer.trigger(processingTime="100 milliseconds").start()
    wait_for(lambda: reached.is_set() or not query.isActive, f"{step}")
    assert reached.is_set(), f"{step} was not passed: {query.exception()}"
    assert stopped.wait(PATIENCE_S), "the query did not stop"
    assert query.awaitTermination(PATIENCE_S)
    assert query.exception() is None, f"stopped at {step}: {query.exception()}"
    monkeypatch.setattr(steps, "_observer", None)


@pytest.mark.parametrize(
    "at", [pytest.param(STEPS[::2], id="sample"), pytest.param(STEPS, id="all", marks=pytest.mark.exhaustive)]
)
def test_stopped_at_every_step(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: list[Step]
) -> None:
    """One query: each start is stopped at the next step, with rows of its own."""
    line = Line.new(spark, kafka, tmp_path, "stopped", per_batch=20)
    for number, step in enumerate([None, *at]):
        produce(kafka, line.source, range(number * 20, number * 20 + 20))
        stop_at(line, monkeypatch, step)
    line.run()
    line.assert_exact()


def test_stopped_while_tasks_run(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    line = Line.new(spark, kafka, tmp_path, "stopped-in-tasks")
    produce(kafka, line.source, range(100))
    running = tmp_path / "running"

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            running.touch()
            threading.Event().wait(PATIENCE_S)

    held = line.rows().select("key", "value")
    held = held.mapInArrow(hold, held.schema)
    query = held.writeStream.foreachBatch(line.sink()).option("checkpointLocation", str(line.checkpoint)).start()
    wait_for(running.exists, "a task")
    query.stop()
    assert query.awaitTermination(PATIENCE_S)
    assert query.exception() is None
    line.run()
    line.assert_exact()
