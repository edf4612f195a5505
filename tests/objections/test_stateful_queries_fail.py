"""Objection 26: tasks fail and batches are replayed in a stateful query, with a watermark and late rows: its state is
that of what was committed.

Other operators, state stores and formats are in ``tests/spark/crash/test_stateful.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.errors import AbortAndRetry
from semel.sandbox import Sandbox
from tests.spark.support.copy_query import Crashed, Line, crash_behind, killing
from tests.spark.support.stateful_plans import PER_BATCH, produce_events, windowed
from tests.spark.support.topics_and_drivers import values


def test_task_dies_and_a_batch_is_replayed(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    """The aborted batch is not run again in the same run of the query: what it did to the state would stay."""
    calm = Line.new(spark, kafka, tmp_path, "calm", per_batch=PER_BATCH)
    produce_events(kafka, calm.source)
    calm.run(rows=windowed(calm.rows))
    expected = sorted(values(kafka.bootstrap_servers, calm.target))
    assert sum(json.loads(value)["n"] for value in expected) < 6 * PER_BATCH, (
        "no row was late: the watermark was not tested"
    )
    line = Line(
        spark,
        kafka,
        tmp_path,
        calm.source,
        Line.new(spark, kafka, tmp_path, "failing").target,
        f"{calm.prefix}-f",
        per_batch=PER_BATCH,
    )
    with pytest.raises(AbortAndRetry):
        line.run(rows=killing(windowed(line.rows), tmp_path / "killed"))
    with pytest.raises(Crashed):
        line.run(rows=windowed(line.rows), around=crash_behind(3))
    line.run(rows=windowed(line.rows))
    assert sorted(values(kafka.bootstrap_servers, line.target)) == expected
