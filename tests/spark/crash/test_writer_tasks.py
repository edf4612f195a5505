"""``format("semel")`` as a sink: executors killed and frozen in their part, and a control that doubles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep, TwoPhaseStep, WriterStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.spark.spark_cluster import SparkCluster
from tests.spark.support.ends_first import EndsFirst
from tests.spark.support.topics_and_drivers import (
    LOCAL_DRIVER,
    assert_exact,
    kill_when_all_are_met,
    look,
    new_copy,
    program,
)
from tests.support.waiting import PATIENCE_S, wait_for

#: One in each of several batches. Spark starts the tasks of a dead executor again elsewhere.
KILLED = [
    CrashPoint(WriterStep.PART_PREPARED, 3, Action.EXECUTOR),
    CrashPoint(TwoPhaseStep.SENT, 6, Action.EXECUTOR),
    CrashPoint(ParticipantStep.ACKNOWLEDGED, 10, Action.EXECUTOR),
    CrashPoint(WriterStep.PART_BEGUN, 14, Action.EXECUTOR),
]


@pytest.mark.parametrize(
    "points", [pytest.param(KILLED[:2], id="sample"), pytest.param(KILLED, id="all", marks=pytest.mark.exhaustive)]
)
def test_executors_are_killed_in_their_part(
    kafka: Sandbox, spark_cluster: SparkCluster, tmp_path: Path, points: list[CrashPoint]
) -> None:
    copy = replace(
        new_copy(kafka, tmp_path, "writer-executors", rows=600 * len(points), per_batch=200), task_scope=True
    )
    plan = CrashPlan(tmp_path / "plan", *points)
    with spark_cluster.driver(program("copy", copy), plan) as driver:
        assert driver.wait(PATIENCE_S) == 0, driver.tail()
        plan.check_all_struck()
    assert_exact(copy)


@pytest.mark.parametrize("step", [WriterStep.PART_BEGUN, TwoPhaseStep.PREPARED])
def test_a_frozen_part_thaws_in_a_later_batch(kafka: Sandbox, tmp_path: Path, step: WriterStep | TwoPhaseStep) -> None:
    """Its driver is killed while it is frozen, and it wakes when the next one has taken over, or is done."""
    copy = replace(new_copy(kafka, tmp_path, "writer-frozen", rows=600, per_batch=100), task_scope=True)
    point = CrashPoint(step, 3, Action.HANG)
    plan = CrashPlan(tmp_path / "plan", point)
    kill_when_all_are_met(program("copy", copy), plan)
    again = CrashPlan(tmp_path / "again", CrashPoint(WriterStep.TAKEN_OVER, 1, Action.HANG))
    with LOCAL_DRIVER.driver(program("copy", copy), again) as driver:
        wait_for(lambda: again.struck(again.points[0]) or driver.process.poll() is not None, "the next driver")
        plan.release(point)
        again.release(again.points[0])
        assert driver.wait(PATIENCE_S) == 0, driver.tail()
    assert_exact(copy)


def test_control_parts_that_end_before_the_decision_are_doubled(kafka: Sandbox, tmp_path: Path) -> None:
    copy = replace(new_copy(kafka, tmp_path, "writer-control", rows=600, per_batch=100), task_scope=True)
    point = CrashPoint(OwnerStep.PROGRESS_WRITTEN, 3, Action.HANG)  # the owner has not asked for its commit yet
    plan = EndsFirst(tmp_path / "plan", point)
    kill_when_all_are_met(program("copy", copy), plan)
    assert LOCAL_DRIVER.run_until_done(program("copy", copy), CrashPlan(tmp_path / "plan"), 0) == 0
    assert look(copy).duplicated
