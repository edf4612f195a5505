"""An owner is killed while it heals (DESIGN section 5): the steps that no run passes in which no marker is lost.

A real process each time. Its commit is held on the way until a node of the cluster is frozen, so that markers of that commit are lost; it heals them
when the node is back, and dies in the middle of that. Its successor goes by what it has left.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from model.replay import replay
from semel.steps import OwnerStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.proxy import FaultProxy
from semel.transaction.group import offsets_partition
from tests.crash.arena import assert_whole, new_job
from tests.crash.nursery import Nursery
from tests.crash.pipeline import Job
from tests.kafka.frail import MANY, Frail, frail
from tests.waiting import PATIENCE_S, TRANSACTION_MS, wait_for


@pytest.fixture(scope="module")
def where() -> Iterator[Frail]:
    with frail() as started:
        yield started


@pytest.mark.parametrize("dies_at", [OwnerStep.DECISION_WRITTEN, OwnerStep.HEALED], ids=lambda step: step.value)
def test_killed_while_it_heals(where: Frail, tmp_path: Path, dies_at: OwnerStep) -> None:
    job = fragile_job(where, dies_at.value)
    deadly = CrashPoint(dies_at)
    plan = CrashPlan(tmp_path / "plan", deadly)
    with Nursery() as nursery, FaultProxy(job.servers) as proxy:
        commit = proxy.delay_request("EndTxn", 3)  # the second one is an abort
        through = replace(job, servers=proxy.bootstrap_servers)
        owner = nursery.start(through, plan, tmp_path / "log")
        with closing(owner):
            assert commit.happened.wait(PATIENCE_S), owner.said()
            with where.leaderless():
                answered = count(plan, OwnerStep.COMMIT_ANSWERED)
                commit.release()
                wait_for(lambda: count(plan, OwnerStep.COMMIT_ANSWERED) > answered, "the commit to be answered")
            assert owner.wait() == -signal.SIGKILL, owner.said()
        assert nursery.run_until_done(through, plan, 0, tmp_path / "log") == 0
    assert count(plan, OwnerStep.HEALED) > (dies_at is OwnerStep.HEALED), "its successor had nothing to heal"
    assert_whole(job)
    # each step that was logged is one that the protocol allows there
    assert replay(plan.passed()).owners == 2


def fragile_job(where: Frail, name: str) -> Job:
    """Progress and the group's offsets lie on the victim, as one of the three output partitions does; the coordinator does not."""
    job = new_job(where.kafka, name, chunks=6)
    ids = (f"{job.prefix}-{n}" for n in range(MANY))
    chosen = next(i for i in ids if where.fits(i, on_victim=True) and where.leads(*offsets_partition(where.client, f"{i}-group")))
    # the freeze takes seconds, and the commit waits for it: neither it nor the transaction may come to its end meanwhile
    return replace(job, prefix=chosen, request_timeout_ms=60_000, delivery_timeout_ms=120_000, transaction_timeout_ms=TRANSACTION_MS)


def count(plan: CrashPlan, step: OwnerStep) -> int:
    return sum(passed.step == f"OwnerStep.{step.name}" for passed in plan.passed())
