"""An owner is killed while it heals (DESIGN section 5): the steps that no run passes in which no marker is lost.

A real process each time. It is held in front of its commit until a node of the cluster is frozen, so that markers of that commit are lost; it heals
them when the node is back, and dies in the middle of that. Its successor goes by what it has left.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from model.replay import replay
from semel.steps import OwnerStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.transaction.group import offsets_partition
from tests.crash.arena import assert_whole, new_job
from tests.crash.nursery import Nursery
from tests.crash.pipeline import Job
from tests.kafka.frail import Frail, frail
from tests.waiting import wait_for

_HELD = CrashPoint(OwnerStep.OFFSETS_ADDED, 2, Action.HANG)


@pytest.fixture(scope="module")
def where() -> Iterator[Frail]:
    with frail() as started:
        yield started


@pytest.mark.parametrize("dies_at", [OwnerStep.DECISION_WRITTEN, OwnerStep.HEALED], ids=lambda step: step.value)
def test_killed_while_it_heals(where: Frail, tmp_path: Path, dies_at: OwnerStep) -> None:
    job = fragile_job(where, dies_at.value)
    deadly = CrashPoint(dies_at)
    plan = CrashPlan(tmp_path / "plan", _HELD, deadly)
    with Nursery() as nursery:
        owner = nursery.start(job, plan, tmp_path / "log")
        with closing(owner):
            plan.wait(_HELD, 60)
            with where.leaderless():
                answered = count(plan, OwnerStep.COMMIT_ANSWERED)
                plan.release(_HELD)
                wait_for(lambda: count(plan, OwnerStep.COMMIT_ANSWERED) > answered, "the commit to be answered")
            assert owner.wait() == -signal.SIGKILL, owner.said()
        assert nursery.run_until_done(job, plan, 0, tmp_path / "log") == 0
    assert count(plan, OwnerStep.HEALED) > (dies_at is OwnerStep.HEALED), "its successor had nothing to heal"
    assert_whole(job)
    # each step that was logged is one that the protocol allows there
    assert replay(plan.passed()).owners == 2


def fragile_job(where: Frail, name: str) -> Job:
    """Progress and the group's offsets lie on the victim, as one of the three output partitions does; the coordinator does not."""
    job = new_job(where.kafka, name, chunks=6)
    ids = (f"{job.prefix}-{n}" for n in itertools.count())
    chosen = next(i for i in ids if where.fits(i, on_victim=True) and where.leads(*offsets_partition(where.client, f"{i}-group")))
    return replace(job, prefix=chosen)


def count(plan: CrashPlan, step: OwnerStep) -> int:
    return sum(passed.step == f"OwnerStep.{step.name}" for passed in plan.passed())
