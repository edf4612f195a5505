"""Objection 2: "the driver has to ask the tasks to commit". It does not: once the receipts are there, executors may
die, and the commit completes.

Before that, the batch is run again inside the callback.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.sandbox.processes import alive, children
from semel.steps import OwnerStep, SinkStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.spark.spark_cluster import SparkCluster
from tests.spark.support.topics_and_drivers import assert_exact, new_copy, program
from tests.support.waiting import PATIENCE_S, wait_for

BEHIND = [
    CrashPoint(step, n, Action.HANG)
    for n, step in enumerate((SinkStep.JOB_DONE, SinkStep.PROVEN, OwnerStep.COMMIT_SENT), 1)
]
BEFORE = CrashPoint(OwnerStep.PARTITIONS_ADDED, 4, Action.HANG)


def executors(pid: int) -> list[int]:
    """The executors' Java processes below a driver."""
    found = []
    for child, command in children(pid):
        if "CoarseGrainedExecutorBackend" in command:
            found.append(child)
        found += executors(child)
    return found


def _all_dead(pids: list[int]) -> bool:
    return not any(map(alive, pids))


#: One executor process that runs both tasks: each time all of them die, and start again.
ONE = SparkCluster("local-cluster[1,2,1024]")


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(BEHIND[:1], id="sample"),
        pytest.param([*BEHIND, BEFORE], id="all", marks=pytest.mark.exhaustive),
    ],
)
def test_executors_die_behind_their_receipts(kafka: Sandbox, tmp_path: Path, points: list[CrashPoint]) -> None:
    copy = new_copy(kafka, tmp_path, "receipts", rows=250 * (len(points) + 1), per_batch=250)
    plan = CrashPlan(tmp_path / "plan", *points)
    with ONE.driver(program("copy", copy), plan) as driver:
        for point in points:
            plan.wait(point, PATIENCE_S)
            assert driver.said("is run again") == 0, "with its receipts there, a batch is committed, whoever dies"
            wait_for(lambda: bool(executors(driver.process.pid)), "an executor")
            victims = executors(driver.process.pid)
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
            wait_for(partial(_all_dead, victims), "the end of the executors")
            plan.release(point)
        assert driver.wait(PATIENCE_S) == 0, driver.tail()
    assert_exact(copy)
