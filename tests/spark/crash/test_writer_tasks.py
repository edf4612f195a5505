"""``format("semel")`` as a sink: executors killed and frozen in their part, and a control that doubles."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.sandbox.processes import alive
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.steps import OwnerStep, ParticipantStep, TwoPhaseStep, WriterStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import LOCAL, SparkCluster
from semel.transaction.transactional_id import IdKind
from semel.transaction.two_phase.recovery import open_prepared
from semel.wire.client import Client
from tests.spark.programs.executors import executors
from tests.spark.support.ends_first import EndsFirst
from tests.spark.support.topics_and_drivers import (
    LOCAL_DRIVER,
    WITHOUT_DAEMON,
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


@pytest.mark.parametrize(
    "step", [pytest.param(WriterStep.PART_BEGUN, marks=pytest.mark.exhaustive), TwoPhaseStep.PREPARED]
)
def test_a_frozen_part_thaws_in_a_later_batch(kafka: Sandbox, tmp_path: Path, step: WriterStep | TwoPhaseStep) -> None:
    """Its driver is killed while it is frozen, and it wakes when the next one has taken over, or is done."""
    copy = replace(new_copy(kafka, tmp_path, "writer-frozen", rows=600, per_batch=100), task_scope=True)
    point = CrashPoint(step, 3, Action.HANG)
    plan = CrashPlan(tmp_path / "plan", point)
    with SparkCluster(LOCAL, WITHOUT_DAEMON).driver(program("copy", copy), plan) as driver:
        worker = _freeze(plan, point, driver)
    again = CrashPlan(tmp_path / "again", CrashPoint(WriterStep.TAKEN_OVER, 1, Action.HANG))
    with LOCAL_DRIVER.driver(program("copy", copy), again) as driver:
        wait_for(lambda: again.struck(again.points[0]) or driver.process.poll() is not None, "the next driver")
        _wake(plan, point, worker)
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


@pytest.fixture(scope="module")
def two_phase_kafka() -> Iterator[Sandbox]:
    with Sandbox.start(settings=TWO_PHASE_COMMIT) as sandbox:
        yield sandbox


#: Where a part is when its executor is lost: without a row, half written, prepared.
FROZEN = [WriterStep.PART_BEGUN, TwoPhaseStep.SENT, TwoPhaseStep.PREPARED]


@pytest.mark.exhaustive
@pytest.mark.parametrize("two_phase", [False, True], ids=["bounded", "two-phase"])
@pytest.mark.parametrize("tasks", [4, 16])
def test_frozen_tasks_wake_after_others_have_done_their_work(
    kafka: Sandbox, two_phase_kafka: Sandbox, tmp_path: Path, tasks: int, two_phase: bool
) -> None:
    """Their executors are lost, and Spark runs them elsewhere. They wake between the decision and the parts' end."""
    brokers = two_phase_kafka if two_phase else kafka
    frozen = [CrashPoint(step, tasks + 1 + place, Action.HANG) for place, step in enumerate(FROZEN)]
    decided = CrashPoint(WriterStep.DECIDED, 2, Action.HANG)
    copy = new_copy(brokers, tmp_path, "writer-elsewhere", rows=150 * tasks, per_batch=50 * tasks, inputs=tasks)
    copy = replace(copy, task_scope=True)
    plan = CrashPlan(tmp_path / "plan", *frozen, decided)
    workers: list[int] = []
    with SparkCluster(settings=WITHOUT_DAEMON).driver(program("copy", copy), plan) as driver:
        for point in frozen:
            workers.append(_freeze(plan, point, driver))
            _lose_executors(driver)
        wait_for(lambda: plan.struck(decided) or driver.process.poll() is not None, "the decision without them")
        for point, worker in zip(frozen, workers, strict=True):
            _wake(plan, point, worker)
        plan.release(decided)
        assert driver.wait(PATIENCE_S) == 0, driver.tail()
    assert_exact(copy)
    with Client(ClientConfig.parse({"bootstrap.servers": copy.servers})) as client:
        assert open_prepared(client, copy.prefix, IdKind.TASK) == []


def _freeze(plan: CrashPlan, point: CrashPoint, driver: Program) -> int:
    """Wait until a task is frozen, and return its process."""
    wait_for(lambda: plan.struck(point) or driver.process.poll() is not None, f"{point} to strike")
    assert plan.struck(point), driver.tail()
    return plan.victims(point)[-1]


def _lose_executors(driver: Program) -> None:
    for executor in executors(driver.process.pid):
        with suppress(ProcessLookupError):  # one of those that were lost before
            os.kill(executor, signal.SIGKILL)


def _wake(plan: CrashPlan, point: CrashPoint, worker: int) -> None:
    """Let a frozen task do what it still can, until it ends."""
    assert alive(worker), "it has ended by itself"
    plan.release(point)
    wait_for(lambda: not alive(worker), "the frozen task to end")
