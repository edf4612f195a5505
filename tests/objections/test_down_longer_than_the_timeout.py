"""A job is down for longer than the transaction timeout between write and commit: output and offsets roll back
together, the batch replays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.steps import OwnerStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.history import check
from tests.support.coordinator import ABORTED, wait_until_ended
from tests.support.forked_owners import Nursery
from tests.support.waiting import PATIENCE_S
from tests.transaction.support.pipeline_checks import assert_whole, group_offset, new_job

#: The broker looks for expired transactions often, so that a short timeout is one.
HASTY = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(scope="module")
def hasty() -> Iterator[Sandbox]:
    with Sandbox.start(settings=HASTY) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as running:
        yield running


@pytest.mark.parametrize(
    "action",
    [pytest.param(Action.KILL, id="died"), pytest.param(Action.STOP, id="slept", marks=pytest.mark.exhaustive)],
)
def test_it_rolls_back_and_replays(hasty: Sandbox, nursery: Nursery, tmp_path: Path, action: Action) -> None:
    job = replace(new_job(hasty, "down", chunks=6), transaction_timeout_ms=8_000, abort_every=1000)
    plan = CrashPlan(tmp_path / "plan", point := CrashPoint(OwnerStep.OFFSETS_ADDED, 4, action))
    owner = nursery.start(job, plan, tmp_path / "log")
    with closing(owner):
        plan.wait(point, PATIENCE_S)
        wait_until_ended(job.servers, job.prefix, ABORTED)
        seen = check(job.servers, job.target, expected=map(str, range(3 * job.chunk)), id="json:$.id")
        assert seen.exact, f"the fourth chunk is in doubt:\n{seen}"
        assert group_offset(job) == 3 * job.chunk
        if action is Action.STOP:
            plan.release(point)
            assert owner.wait() == 0, owner.said()
            assert "SEMEL_EXPIRED" in owner.said()
    if action is Action.KILL:
        assert nursery.start(job, plan, tmp_path / "log").wait() == 0
    assert_whole(job)
