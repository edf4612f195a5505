"""The driver killed at every step of the owner and of the sink, a Python worker at every step of a participant: one query lives through all.

Each restart is the next step's victim. The points are spread over the batches: the later in the protocol, the earlier in the query, so that every
kill meets a batch of its own, with committed batches before and behind it.
"""

from __future__ import annotations

from pathlib import Path

from model.replay import replay
from semel.sandbox import Sandbox
from semel.steps import HEALING, OwnerStep, ParticipantStep, SinkStep, Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from tests.spark.harness import LOCAL_DRIVER, assert_exact, new_copy, program

TAKING_OVER: list[Step] = [OwnerStep.INITIALISED, OwnerStep.CLAIMED, OwnerStep.PROGRESS_READ, OwnerStep.MARKERS_CHECKED]
ABORTING: list[Step] = [OwnerStep.ABORT_SENT, OwnerStep.ABORT_ANSWERED]
IN_A_BATCH: list[Step] = [
    SinkStep.RETURNING,
    OwnerStep.MARKERS_SEEN,
    OwnerStep.COMMIT_ANSWERED,
    OwnerStep.COMMIT_SENT,
    OwnerStep.OFFSETS_ADDED,
    OwnerStep.PROGRESS_WRITTEN,
    OwnerStep.WRITTEN,
    SinkStep.PROVEN,
    SinkStep.JOB_DONE,
    OwnerStep.PARTITIONS_ADDED,
    OwnerStep.BEGUN,
    SinkStep.DECIDED,
    SinkStep.CALLED,
]


def test_every_step_is_struck() -> None:
    assert {*TAKING_OVER, *ABORTING, *IN_A_BATCH} == {*OwnerStep, *SinkStep} - {*HEALING}


def test_killed_at_every_step(kafka: Sandbox, tmp_path: Path) -> None:
    copy = new_copy(kafka, tmp_path, "steps", rows=4_000, per_batch=200)
    drivers = [
        *(CrashPoint(step, passing, Action.DRIVER) for passing, step in enumerate(IN_A_BATCH, 1)),
        *(CrashPoint(step, passing, Action.DRIVER) for passing, step in enumerate(TAKING_OVER, 2)),
        *(CrashPoint(step, 1, Action.DRIVER) for step in ABORTING),
    ]
    workers = [CrashPoint(step, passing, Action.KILL) for step, passing in zip(ParticipantStep, (3, 8, 13, 18), strict=True)]
    plan = CrashPlan(tmp_path / "plan", *drivers, *workers)
    restarts = LOCAL_DRIVER.run_until_done(program("copy", copy), plan, len(drivers))
    assert restarts == len(drivers)
    assert_exact(copy)
    # each step that was logged is one that the protocol allows there
    told = replay(plan.passed())
    assert told.owners >= restarts, "all but those that were killed in front of their first step"
