"""``format("semel")`` as a sink: the driver killed at every step of its plans, its tasks and its commits.

Four queries are in one application. Each is held at another step, and then the driver is killed: one start for four
kills.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.steps import OwnerStep, Step, TwoPhaseStep, WriterStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from tests.spark.support.topics_and_drivers import LOCAL_DRIVER, assert_exact, kill_when_all_are_met, new_copy, program

QUERIES = 4
#: By the passing after this many there are committed batches.
LATER = 2 * QUERIES + 1
ROWS, PER_BATCH = 4_000, 100
#: One step a query and round. The last steps are passed where tasks or commits fail.
STEPS: list[list[Step]] = [
    [WriterStep.DECIDED, TwoPhaseStep.COMMIT_ANSWERED, OwnerStep.COMMIT_SENT, WriterStep.PART_PREPARED],
    [OwnerStep.COMMIT_ANSWERED, WriterStep.PARTS_COMMITTED, TwoPhaseStep.COMMIT_SENT, TwoPhaseStep.PREPARED],
    [OwnerStep.PROGRESS_WRITTEN, OwnerStep.INITIALISED, WriterStep.PLANNED, TwoPhaseStep.SENT],
    [OwnerStep.OFFSETS_ADDED, OwnerStep.MARKERS_SEEN, WriterStep.TAKEN_OVER, TwoPhaseStep.INITIALISED],
    [OwnerStep.BEGUN, OwnerStep.PARTITIONS_ADDED, OwnerStep.WRITTEN, WriterStep.TASK_STARTED],
    [OwnerStep.CLAIMED, OwnerStep.PROGRESS_READ, OwnerStep.MARKERS_CHECKED, WriterStep.COMMITTING],
]


def _points(steps: list[Step]) -> list[CrashPoint]:
    return [CrashPoint(step, LATER, Action.HANG) for step in steps]


@pytest.mark.parametrize(
    "rounds", [pytest.param(STEPS[:1], id="sample"), pytest.param(STEPS, id="all", marks=pytest.mark.exhaustive)]
)
def test_killed_at_every_step(kafka: Sandbox, tmp_path: Path, rounds: list[list[Step]]) -> None:
    kill_at(rounds, kafka, tmp_path)


@pytest.mark.exhaustive
def test_killed_at_every_step_with_two_phase_commit(tmp_path: Path) -> None:
    with Sandbox.start(settings=TWO_PHASE_COMMIT) as brokers:
        kill_at(STEPS, brokers, tmp_path)


@pytest.mark.exhaustive
def test_killed_at_steps_with_sixteen_tasks(kafka: Sandbox, tmp_path: Path) -> None:
    kill_at(STEPS[:2], kafka, tmp_path, inputs=16)


def kill_at(rounds: list[list[Step]], brokers: Sandbox, directory: Path, *, inputs: int = 2) -> None:
    copies = [
        replace(new_copy(brokers, directory, "writer", rows=ROWS, per_batch=PER_BATCH, inputs=inputs), task_scope=True)
        for _ in range(QUERIES)
    ]
    copies[1::2] = [replace(copy, min_records=PER_BATCH) for copy in copies[1::2]]  # in one task
    for steps in rounds:
        kill_when_all_are_met(program("copy", *copies), CrashPlan(directory / "plan", *_points(steps)))
    plan = CrashPlan(directory / "plan")
    last = [replace(copy, per_batch=ROWS) for copy in copies]
    assert LOCAL_DRIVER.run_until_done(program("copy", *last), plan, 0) == 0
    for copy in copies:
        assert_exact(copy)
