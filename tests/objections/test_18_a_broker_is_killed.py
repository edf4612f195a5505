"""A broker is killed at any step, with three of them: the transaction goes on or is run again, and nothing is lost or
doubled.
"""

from __future__ import annotations

from semel.sandbox import Sandbox
from semel.wire.target import TransactionCoordinator
from tests.crash.support.broker_faults import STEPS, finish, live, node_of, striking, wait_whole
from tests.crash.support.pipeline_checks import assert_whole, new_job


def test_the_coordinator_is_killed_at_every_step(kafka3: Sandbox) -> None:
    """It leads an output partition too, each node leads one; and in its turn it is the leader of progress and of the
    group.
    """
    job = new_job(kafka3, "killed", chunks=len(STEPS) + 2)
    live(job)
    killed = set()
    for step in STEPS:
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
