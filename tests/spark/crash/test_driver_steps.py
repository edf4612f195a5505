"""The driver killed at every step of the owner and of the sink, a Python worker at every step of a participant: four
queries live through all.

They are in one application. Each is held at another step, and then the driver is killed: one start for four kills. What
has been held cannot be met again, so that each point of a round strikes another query.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from model.replay import replay
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep, SinkStep, Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from tests.spark.support.topics_and_drivers import LOCAL_DRIVER, assert_exact, kill_when_all_are_met, new_copy, program
from tests.support.kafka_version import NOT_PASSED, SKIPS_EPOCHS

QUERIES = 4
#: Passings are counted over the queries, and anew in each round. By the one after the fourth there are committed
#: batches.
LATER = QUERIES + 1
TAKING_OVER: list[Step] = [OwnerStep.INITIALISED, OwnerStep.CLAIMED, OwnerStep.PROGRESS_READ, OwnerStep.MARKERS_CHECKED]
ABORTING: list[Step] = [OwnerStep.ABORT_SENT, OwnerStep.ABORT_ANSWERED]
IN_A_BATCH: list[list[Step]] = [
    [SinkStep.RETURNING, OwnerStep.COMMIT_SENT, SinkStep.PROVEN, OwnerStep.BEGUN],
    [OwnerStep.MARKERS_SEEN, OwnerStep.OFFSETS_ADDED, SinkStep.JOB_DONE, SinkStep.DECIDED],
    [OwnerStep.COMMIT_ANSWERED, OwnerStep.PROGRESS_WRITTEN, OwnerStep.WRITTEN, OwnerStep.PARTITIONS_ADDED],
]
#: The last round: workers are killed, so that batches are aborted. At each moment a query is left that goes on to the
#: points that have not struck.
WORKERS = [CrashPoint(step, passing) for step, passing in zip(ParticipantStep, (3, 8, 13, 18), strict=True)]
ROUNDS: list[list[CrashPoint]] = [
    *([CrashPoint(step, LATER, Action.HANG) for step in steps] for steps in IN_A_BATCH),
    *([CrashPoint(OwnerStep.EPOCH_SKIPPED, LATER, Action.HANG)] for _ in range(SKIPS_EPOCHS)),
    [CrashPoint(step, 1, Action.HANG) for step in TAKING_OVER],
    [
        *(CrashPoint(step, 1, Action.HANG) for step in ABORTING),
        CrashPoint(SinkStep.CALLED, LATER, Action.HANG),
        *WORKERS,
    ],
]
#: In a batch at its end, and at an abort.
SAMPLE = [
    [
        CrashPoint(OwnerStep.ABORT_SENT, 1, Action.HANG),
        CrashPoint(OwnerStep.COMMIT_SENT, LATER, Action.HANG),
        CrashPoint(SinkStep.RETURNING, LATER, Action.HANG),
        *WORKERS,
    ]
]
ROWS, PER_BATCH = 4_000, 100


def test_every_step_is_struck() -> None:
    points = list(chain.from_iterable(ROUNDS))
    assert sorted(point.name for point in points) == sorted(
        str(step) for step in {*OwnerStep, *SinkStep, *ParticipantStep} - {*NOT_PASSED}
    )


@pytest.mark.parametrize(
    "rounds", [pytest.param(SAMPLE, id="sample"), pytest.param(ROUNDS, id="all", marks=pytest.mark.exhaustive)]
)
def test_killed_at_every_step(kafka: Sandbox, tmp_path: Path, rounds: list[list[CrashPoint]]) -> None:
    copies = [new_copy(kafka, tmp_path, "steps", rows=ROWS, per_batch=PER_BATCH) for _ in range(QUERIES)]
    copies[1::2] = [replace(copy, min_records=PER_BATCH) for copy in copies[1::2]]  # in one task, not shuffled
    for points in rounds:
        kill_when_all_are_met(program("copy", *copies), CrashPlan(tmp_path / "plan", *points))
    # what nobody strikes any more is read in a few large batches
    plan = CrashPlan(tmp_path / "plan")
    assert (
        LOCAL_DRIVER.run_until_done(program("copy", *(replace(copy, per_batch=ROWS) for copy in copies)), plan, 0) == 0
    )
    for copy in copies:
        assert_exact(copy)
    # each step that was logged is one that the protocol allows there
    told = replay(plan.passed())
    assert told.ids == QUERIES
    assert told.owners >= QUERIES * len(rounds), (
        "all but those that were held in front of their first step, and those of the last start"
    )
