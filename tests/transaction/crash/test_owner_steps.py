"""Every step of the owner and of its participants, struck by every fault: nothing is lost, doubled, reordered or torn
(DESIGN section 5).

Real processes on three real brokers. The owner under test is ``pipeline.py`` in a process of its own; its rival is this
process. The steps that it logged are replayed through the model: none of them is one that the protocol forbids.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import semel
from model.replay import Allowed, Refused, replay
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep, Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.step_log import Passed
from tests.support.forked_owners import Nursery
from tests.support.kafka_version import NOT_PASSED, SKIPS_EPOCHS
from tests.support.waiting import PATIENCE_S
from tests.transaction.support.pipeline import FENCED, copy_next, position, write_here
from tests.transaction.support.pipeline_checks import assert_whole, look, new_job

TAKING_OVER = [OwnerStep.INITIALISED, OwnerStep.CLAIMED, OwnerStep.PROGRESS_READ, OwnerStep.MARKERS_CHECKED]
OWNER_STEPS = [step for step in OwnerStep if step not in NOT_PASSED]
STEPS: list[Step] = [*OWNER_STEPS, *ParticipantStep]

#: Each transaction of the pipeline has rows.
ROWS = Allowed(progress_alone=False, skips_epochs=(SKIPS_EPOCHS,))


def _position(lines: list[Passed], *steps: OwnerStep) -> int:
    """Where these steps stand one behind the other, in one process."""
    names = [f"OwnerStep.{step.name}" for step in steps]
    length = len(names)
    return next(
        at
        for at in range(len(lines))
        if [line.step for line in lines[at : at + length]] == names
        and len({line.pid for line in lines[at : at + length]}) == 1
    )


def _owners(lines: list[Passed]) -> list[Passed]:
    return [line for line in lines if line.step.startswith("OwnerStep.")]


def _without_progress(lines: list[Passed]) -> list[Passed]:
    own = _owners(lines)
    at = _position(own, OwnerStep.WRITTEN, OwnerStep.PROGRESS_WRITTEN, OwnerStep.OFFSETS_ADDED)
    return own[: at + 1] + own[at + 2 :]


def _begun_before_markers(lines: list[Passed]) -> list[Passed]:
    own = _owners(lines)
    at = _position(own, OwnerStep.MARKERS_CHECKED, OwnerStep.BEGUN)
    return [*own[:at], own[at + 1], own[at], *own[at + 2 :]]


def _going_on_behind_a_successor(lines: list[Passed]) -> list[Passed]:
    """The last owner's predecessor begins another transaction when the last one has taken over."""
    own = _owners(lines)
    last, before = own[-1].pid, next(line for line in reversed(own) if line.pid != own[-1].pid)
    at = max(at for at, line in enumerate(own) if line.pid == last and line.step == "OwnerStep.MARKERS_CHECKED")
    seen = [OwnerStep.MARKERS_SEEN] if before.step == "OwnerStep.COMMIT_ANSWERED" else []
    more = [
        replace(before, step=f"OwnerStep.{step.name}") for step in (*seen, OwnerStep.BEGUN, OwnerStep.PARTITIONS_ADDED)
    ]
    return [*own[: at + 1], *more, *own[at + 1 :]]


#: What is done to the log, and the step that is refused then.
CHANGES = {
    _without_progress: OwnerStep.OFFSETS_ADDED,
    _begun_before_markers: OwnerStep.BEGUN,
    _going_on_behind_a_successor: OwnerStep.PARTITIONS_ADDED,
}


@pytest.mark.parametrize("passing", [pytest.param(1, marks=pytest.mark.exhaustive), 2])
def test_killed_at_every_step(kafka3: Sandbox, nursery: Nursery, tmp_path: Path, passing: int) -> None:
    """One pipeline lives through a kill at each step: every restart is the next step's victim."""
    job = new_job(kafka3, "killed", chunks=60)
    plan = CrashPlan(tmp_path / "plan", *(CrashPoint(step, passing) for step in STEPS))
    restarts = nursery.run_until_done(job, plan, len(STEPS), tmp_path / "log")
    assert restarts == len(OWNER_STEPS), "participants die without their owner"
    assert_whole(job)
    told = replay(plan.passed(), allowed=ROWS)
    assert (told.ids, told.owners) == (1, restarts + 1)
    for change, forbidden in CHANGES.items():  # a model that allows everything would show nothing
        with pytest.raises(Refused, match=rf"forbids OwnerStep\.{forbidden.name} of"):
            replay(change(plan.passed()), allowed=ROWS)


@pytest.mark.parametrize(
    ("steps", "action"),
    [
        pytest.param(STEPS[::3], Action.STOP, id="sample"),
        pytest.param(STEPS, Action.STOP, id="frozen", marks=pytest.mark.exhaustive),
        pytest.param(STEPS, Action.HANG, id="awake", marks=pytest.mark.exhaustive),
    ],
)
def test_another_owner_goes_on_at_every_step(
    kafka3: Sandbox, nursery: Nursery, tmp_path: Path, steps: list[Step], action: Action
) -> None:
    """At each step an owner stands still while this process takes over and goes on: it is fenced when it wakes, and
    changes nothing.

    ``frozen`` stops the process that reaches the step, the owner or one participant; ``awake`` holds the thread that
    reaches it, while everything else goes on. Its successor is not disturbed; the next owner takes over from that.
    """
    job = new_job(kafka3, "rival", chunks=8 * len(steps))
    with semel.Cluster(job.properties()) as cluster:
        for step in steps:
            point = CrashPoint(step, 1 if step in TAKING_OVER else 2, action)
            plan = CrashPlan(tmp_path / step.name, point)
            owner = nursery.start(job, plan, tmp_path / f"{step}.log")
            with closing(owner), cluster.producer(job.prefix) as rival:
                plan.wait(point, PATIENCE_S)
                rival.take_over([job.target], job.group)
                copy_next(rival, job, write_here(cluster, job))
                plan.release(point)
                assert owner.wait() == FENCED, f"{step}: {owner.said()}"
                copy_next(rival, job, write_here(cluster, job))
            # the rival in this process does not log
            assert replay(plan.passed(), allowed=Allowed(strangers=True, progress_alone=False)).owners == 1
        with cluster.producer(job.prefix) as last:
            last.take_over([job.target], job.group)
            while position(last.progress, job) < job.total:
                copy_next(last, job, write_here(cluster, job))
    assert_whole(job)


# ---- controls: a harness that cannot fail proves nothing


def test_control_without_progress_there_are_duplicates(kafka3: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    """The position kept in a file behind the commit is at-least-once."""
    job = new_job(kafka3, "control", chunks=6, mode="forget", file=tmp_path / "position")
    nursery.run_until_done(
        job, CrashPlan(tmp_path / "plan", CrashPoint(OwnerStep.COMMIT_ANSWERED, 2)), 1, tmp_path / "log"
    )
    history = look(job)
    assert (history.lost, history.duplicated) == (0, job.chunk)
    assert not history.exact


def test_control_with_the_position_written_too_early_there_is_loss(
    kafka3: Sandbox, nursery: Nursery, tmp_path: Path
) -> None:
    """The position kept in a file in front of the commit is at-most-once."""
    job = new_job(kafka3, "control", chunks=6, mode="ahead", file=tmp_path / "position")
    nursery.run_until_done(
        job, CrashPlan(tmp_path / "plan", CrashPoint(OwnerStep.PROGRESS_WRITTEN, 3)), 1, tmp_path / "log"
    )
    history = look(job)
    assert (history.lost, history.duplicated) == (job.chunk, 0)
    assert not history.exact


def test_control_without_a_transaction_batches_tear(kafka3: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    """Tickets of no transaction: what one participant wrote stays when its sibling is killed."""
    job = new_job(kafka3, "control", chunks=6, mode="plain")
    plan = CrashPlan(tmp_path / "plan", CrashPoint(ParticipantStep.STARTED, 4))
    owner = nursery.start(job, plan, tmp_path / "log")
    assert owner.wait() != 0
    history = look(job)
    assert history.torn
    assert not history.exact
