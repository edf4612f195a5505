"""An executor killed at every step of a participant: the driver survives, the batch is aborted and run again inside the
callback, exact at the end.

Executors killed at steps of the owner and of the sink are in ``tests/objections/test_driver_need_not_ask_tasks.py``.
The control, which doubles rows where an executor is killed without a transaction, is the demo's:
``tests/spark/broker/test_examples.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.steps import ParticipantStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.spark.spark_cluster import SparkCluster
from tests.spark.support.topics_and_drivers import assert_exact, new_copy, program
from tests.support.waiting import PATIENCE_S

ROWS_OF_EACH, PER_BATCH = 600, 200


#: One in each of several batches: two tasks pass each step once a batch, and again where the batch is run again.
POINTS = [
    CrashPoint(step, passing, Action.EXECUTOR) for step, passing in zip(ParticipantStep, (2, 6, 10, 14), strict=True)
]


@pytest.mark.parametrize(
    "points", [pytest.param(POINTS[1:3], id="sample"), pytest.param(POINTS, id="all", marks=pytest.mark.exhaustive)]
)
def test_executor_killed_at_every_step(
    kafka: Sandbox, spark_cluster: SparkCluster, tmp_path: Path, points: list[CrashPoint]
) -> None:
    copy = new_copy(kafka, tmp_path, "executors", rows=ROWS_OF_EACH * len(points), per_batch=PER_BATCH)
    plan = CrashPlan(tmp_path / "plan", *points)
    with spark_cluster.driver(program("copy", copy), plan) as driver:
        assert driver.wait(PATIENCE_S) == 0, driver.tail()
        plan.check_all_struck()
        assert driver.said("is run again (1 of 3)") >= len(points), driver.tail()
    assert_exact(copy)
