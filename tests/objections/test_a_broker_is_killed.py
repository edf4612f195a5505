"""A broker is killed at any step, with three of them: the transaction goes on or is run again, and nothing is lost or
doubled.
"""

from __future__ import annotations

import pytest

from semel.sandbox import Sandbox
from semel.steps import OwnerStep, Step
from semel.wire.target import TransactionCoordinator
from tests.support.broker_faults import STEPS, finish, live, node_of, striking, wait_whole
from tests.transaction.support.pipeline_checks import assert_whole, new_job

#: Before and after the end of a transaction is asked for.
_SAMPLE: list[Step] = [OwnerStep.PROGRESS_WRITTEN, OwnerStep.COMMIT_SENT]


@pytest.mark.parametrize(
    "steps", [pytest.param(_SAMPLE, id="sample"), pytest.param(STEPS, id="all", marks=pytest.mark.exhaustive)]
)
def test_the_coordinator_is_killed_at_every_step(kafka3: Sandbox, steps: list[Step]) -> None:
    """It leads an output partition too, each node leads one; and in its turn it is the leader of progress and of the
    group.
    """
    job = new_job(kafka3, f"killed-{len(steps)}", chunks=len(steps) + 2)
    live(job)
    killed = set()
    for step in steps:
        victim = node_of(kafka3, TransactionCoordinator(job.prefix))
        with striking(step, victim.kill) as struck:
            try:
                live(job)
                assert struck.wait(10), step
            finally:
                if not victim.running:
                    victim.start()
                    victim.wait_ready(120, nodes=3)
        wait_whole(kafka3)
        killed.add(victim.id)
    finish(job)
    assert_whole(job)
    assert len(killed) > 1, "one node alone was ever struck"
