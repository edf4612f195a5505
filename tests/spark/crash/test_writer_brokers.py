"""``format("semel")`` as a sink, with three brokers: the one that coordinates the decision is killed around it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.steps import OwnerStep, Step, TwoPhaseStep, WriterStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.wire.target import TransactionCoordinator
from tests.spark.support.topics_and_drivers import LOCAL_DRIVER, assert_exact, new_copy, program
from tests.support.broker_faults import node_of, wait_whole
from tests.support.waiting import wait_for

#: Before the decision, while it is sent, after it, and between the ends of two parts.
KILLED: list[Step] = [
    WriterStep.PART_PREPARED,
    OwnerStep.PROGRESS_WRITTEN,
    WriterStep.DECIDED,
    TwoPhaseStep.COMMIT_ANSWERED,
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", KILLED, ids=str)
def test_the_coordinator_is_killed(kafka3: Sandbox, tmp_path: Path, step: Step) -> None:
    """It comes back a moment later. A driver that ends with an error is started again, as ``keep_running`` does."""
    copy = replace(new_copy(kafka3, tmp_path, "writer-brokers", rows=600, per_batch=100), task_scope=True)
    point = CrashPoint(step, 3, Action.HANG)
    plan = CrashPlan(tmp_path / "plan", point)
    with LOCAL_DRIVER.driver(program("copy", copy), plan) as driver:
        wait_for(lambda: plan.struck(point) or driver.process.poll() is not None, f"{point} to strike")
        assert plan.struck(point), driver.tail()
        victim = node_of(kafka3, TransactionCoordinator(copy.prefix))
        victim.kill()
        plan.release(point)
        victim.start()
        victim.wait_ready(120, nodes=3)
        wait_whole(kafka3)
        wait_for(lambda: driver.process.poll() is not None, "the driver to end")
    again = CrashPlan(tmp_path / "again")
    assert LOCAL_DRIVER.run_until_done(program("copy", copy), again, 0) == 0
    assert_exact(copy)
