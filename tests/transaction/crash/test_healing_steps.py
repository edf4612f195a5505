"""An owner is killed, or frozen, while it heals (DESIGN section 5): the steps that no run passes in which no marker is
lost.

A real process each time. Its commit is held on the way until a node of the cluster is frozen, so that markers of that
commit are lost; it heals them when the node is back, and is struck in the middle of that. Its successor goes by what it
has left.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import semel
from model.replay import Allowed, replay
from semel.steps import OwnerStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.transaction.group_offsets import offsets_partition
from semel.transaction.ticket import Receipt, Ticket
from tests.support.forked_owners import Nursery, Owner
from tests.support.leaderless_cluster import MANY, Frail, frail
from tests.support.waiting import PATIENCE_S, TRANSACTION_MS, wait_for
from tests.transaction.support.pipeline import FENCED, Job, copy_next, position, write_here
from tests.transaction.support.pipeline_checks import assert_whole, new_job


@pytest.fixture(scope="module")
def where() -> Iterator[Frail]:
    with frail() as started:
        yield started


#: Only what is to be committed writes progress: the owner waits here before the second of its commits is sent.
SECOND_COMMIT = CrashPoint(OwnerStep.PROGRESS_WRITTEN, 2, Action.HANG)


@pytest.mark.parametrize(
    "step",
    [OwnerStep.DECISION_WRITTEN, pytest.param(OwnerStep.HEALED, marks=pytest.mark.exhaustive)],
    ids=lambda step: step.value,
)
def test_killed_while_it_heals(where: Frail, tmp_path: Path, step: OwnerStep) -> None:
    job = fragile_job(where, step.value)
    plan = CrashPlan(tmp_path / "plan", CrashPoint(step), SECOND_COMMIT)
    with Nursery() as nursery, healing(where, nursery, job, plan, tmp_path / "log") as owner:
        assert owner.wait() == -signal.SIGKILL, owner.said()
        assert nursery.run_until_done(job, plan, 0, tmp_path / "log") == 0
    assert count(plan, OwnerStep.HEALED) > (step is OwnerStep.HEALED), "its successor had nothing to heal"
    assert_whole(job)
    # each step that was logged is one that the protocol allows there
    assert replay(plan.passed()).owners == 2


@pytest.mark.exhaustive  # its sample is the kill before this, behind which another owner goes on too
@pytest.mark.parametrize("action", [pytest.param(Action.STOP, id="frozen"), pytest.param(Action.HANG, id="awake")])
@pytest.mark.parametrize("step", [OwnerStep.DECISION_WRITTEN, OwnerStep.HEALED], ids=lambda step: step.value)
def test_another_owner_goes_on_while_it_heals(where: Frail, tmp_path: Path, step: OwnerStep, action: Action) -> None:
    """Its successor heals what is left and has rows of its own open there, when the first one wakes and writes its
    marker, late.
    """
    job = fragile_job(where, f"{step.value}-{action.name.lower()}")
    point = CrashPoint(step, action=action)
    plan = CrashPlan(tmp_path / "plan", point, SECOND_COMMIT)
    with (
        Nursery() as nursery,
        healing(where, nursery, job, plan, tmp_path / "log") as owner,
        semel.Cluster(job.properties()) as cluster,
    ):
        plan.wait(point, PATIENCE_S)
        with cluster.producer(job.prefix) as successor:
            successor.take_over([job.target], job.group)
            write = write_here(cluster, job)

            def write_and_wait(tickets: Sequence[Ticket], start: int, end: int) -> list[Receipt]:
                receipts = write(tickets, start, end)
                plan.release(point)
                assert owner.wait() == FENCED, owner.said()
                return receipts

            copy_next(successor, job, write_and_wait)
            while position(successor.progress, job) < job.total:
                copy_next(successor, job, write)
    assert_whole(job)
    assert replay(plan.passed(), allowed=Allowed(strangers=True, lost_markers=True)).owners == 1


@contextmanager
def healing(where: Frail, nursery: Nursery, job: Job, plan: CrashPlan, log: Path) -> Iterator[Owner]:
    """An owner whose second commit has lost its markers, and who goes on from there.

    ``plan`` holds ``SECOND_COMMIT`` as well.
    """
    with (
        FaultProxy(job.servers) as proxy,
        closing(nursery.start(replace(job, servers=proxy.bootstrap_servers), plan, log)) as owner,
    ):
        plan.wait(SECOND_COMMIT, PATIENCE_S)
        commit = proxy.delay_request(
            "EndTxn"
        )  # not counted from the beginning: whoever is answered "not now" sends one more
        plan.release(SECOND_COMMIT)
        assert commit.happened.wait(PATIENCE_S), owner.said()
        with where.leaderless():
            answered = count(plan, OwnerStep.COMMIT_ANSWERED)
            commit.release()
            wait_for(
                lambda: count(plan, OwnerStep.COMMIT_ANSWERED) > answered,
                lambda: f"the commit to be answered. The owner said:\n{owner.said()}",
            )
        yield owner


def fragile_job(where: Frail, name: str) -> Job:
    """Progress and the group's offsets lie on the victim, as one of the three output partitions does; the coordinator
    does not.
    """
    job = new_job(where.kafka, name, chunks=6)
    ids = (f"{job.prefix}-{n}" for n in range(MANY))
    chosen = next(
        i for i in ids if where.fits(i, on_victim=True) and where.leads(*offsets_partition(where.client, f"{i}-group"))
    )
    # the freeze takes seconds, and the commit waits for it: neither it nor the transaction may come to its end
    # meanwhile
    return replace(
        job,
        prefix=chosen,
        request_timeout_ms=60_000,
        delivery_timeout_ms=120_000,
        transaction_timeout_ms=TRANSACTION_MS,
    )


def count(plan: CrashPlan, step: OwnerStep) -> int:
    return sum(passed.step == f"OwnerStep.{step.name}" for passed in plan.passed())
