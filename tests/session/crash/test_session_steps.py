"""Workers of one group, killed and frozen at each step: what a read_committed reader sees is whole, once and in order.

Real processes on a real broker. The source has four partitions, and the row of each keeps its partition, so that the
order of each is checked, too.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

import semel
from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep, SessionStep, Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.history import History, assert_exactly_once, check
from semel.wire.api.describe_transactions import open_transactions
from semel.wire.client import Client
from tests.session.support.session_worker import PARTITIONS, SessionJob, position
from tests.support.forked_owners import Nursery
from tests.support.topics import create
from tests.support.waiting import PATIENCE_S, wait_for

STEPS: list[Step] = [
    OwnerStep.INITIALISED,
    OwnerStep.MARKERS_CHECKED,
    SessionStep.ASSIGNED,
    SessionStep.POSITIONS_READ,
    SessionStep.HANDED_OUT,
    OwnerStep.BEGUN,
    OwnerStep.PARTITIONS_ADDED,
    *ParticipantStep,
    SessionStep.SENT,
    SessionStep.COMMITTING,
    OwnerStep.WRITTEN,
    OwnerStep.OFFSETS_ADDED,
    OwnerStep.COMMIT_SENT,
    OwnerStep.COMMIT_ANSWERED,
    SessionStep.COMMITTED,
    OwnerStep.MARKERS_SEEN,
]
FROZEN: list[Step] = [
    SessionStep.HANDED_OUT,
    SessionStep.SENT,
    SessionStep.COMMITTING,
    OwnerStep.OFFSETS_ADDED,
    OwnerStep.COMMIT_ANSWERED,
]
#: What a worker says whose commit was refused; one of the last two where it found that out before it asked.
REFUSED = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "had ended before", "continues without", "rebalances")

_names = itertools.count(1)


def new_job(broker: Sandbox, rows: int, total: int | None = None, *, mode: str = "exact") -> SessionJob:
    servers, unique = broker.bootstrap_servers, f"session-{next(_names)}"
    source, target = create(servers, f"{unique}-in", PARTITIONS), create(servers, f"{unique}-out", PARTITIONS)
    job = SessionJob(servers, unique, source, target, rows if total is None else total, mode=mode)
    fill(job, 0, rows)
    return job


def fill(job: SessionJob, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": job.servers, "enable.idempotence": True})
    for number in range(first, end):
        producer.produce(job.source, value=json.dumps({"id": number}), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def look(job: SessionJob) -> History:
    return check(job.servers, job.target, source=job.source, id="json:$.id", timeout=PATIENCE_S)


def assert_whole(job: SessionJob) -> None:
    """Nothing lost, doubled or out of order, the group at the end, and no transaction open."""
    assert_exactly_once(job.servers, job.target, source=job.source, id="json:$.id", timeout=PATIENCE_S)
    with Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client:
        assert position(client, job) == job.total
        opened = open_transactions(client, [(job.target, index) for index in range(PARTITIONS)])
        assert not any(opened.values())


def come_to(job: SessionJob, total: int, given_up: Callable[[], bool] = lambda: False) -> None:
    with Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client:
        wait_for(lambda: given_up() or position(client, job) >= total, f"the group at {total}")


def test_killed_at_every_step(broker: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    """One of two static workers is killed at each step and started again, the other one goes on.

    The source is filled until all points have struck: the other one may take everything while one starts again.
    """
    job = replace(new_job(broker, 0), total_file=str(tmp_path / "total"))
    one, other = replace(job, instance="one"), replace(job, instance="other")
    plan = CrashPlan(tmp_path / "plan", *(CrashPoint(step, 2) for step in STEPS))
    with (
        closing(nursery.start(other, CrashPlan(tmp_path / "other"), tmp_path / "other.log")) as running,
        filled_until_all_struck(job, plan) as filling,
    ):
        assert nursery.run_until_done(one, plan, len(STEPS), tmp_path / "log") == len(STEPS)
        assert running.wait() == 0, running.said()
    assert_whole(replace(job, total=filling.result()))


@contextmanager
def filled_until_all_struck(job: SessionJob, plan: CrashPlan) -> Iterator[Future[int]]:
    """Keep rows in the source until all points of the plan have struck. The result is their number."""
    given_up = threading.Event()

    def fill_on() -> int:
        filled = 0
        while not (enough := all(map(plan.struck, plan.points))) and not given_up.is_set():
            fill(job, filled, filled + 1000)
            filled += 1000
            come_to(job, filled - 500, given_up.is_set)
        if enough:
            unfinished = plan.directory / "total"
            unfinished.write_text(str(filled))
            unfinished.rename(str(job.total_file))
        return filled

    with ThreadPoolExecutor(1) as thread:
        try:
            yield thread.submit(fill_on)
        finally:
            given_up.set()


def test_frozen_through_a_rebalance_at_each_step(broker: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    """A worker is frozen, its partitions go to the other one, which writes what it had not committed; then it thaws."""
    rows = 800
    job = new_job(broker, 0, rows * len(FROZEN))
    with closing(nursery.start(job, CrashPlan(tmp_path / "other"), tmp_path / "other.log")) as other:
        for number, step in enumerate(FROZEN):
            said = _freeze_and_thaw(nursery, job, step, (number * rows, (number + 1) * rows), tmp_path / step.name)
            if step is not OwnerStep.COMMIT_ANSWERED:
                assert any(word in said for word in REFUSED), said
        assert other.wait() == 0, other.said()
    assert_whole(job)


def _freeze_and_thaw(nursery: Nursery, job: SessionJob, step: Step, rows: tuple[int, int], directory: Path) -> str:
    """What the frozen worker says. Its successor has written all rows before it thaws."""
    point = CrashPoint(step, 2, Action.STOP)
    plan = CrashPlan(directory, point)
    with closing(nursery.start(job, plan, directory / "log")) as frozen:
        wait_for(lambda: _passed(plan, SessionStep.POSITIONS_READ), lambda: f"its partitions: {frozen.said()}")
        fill(job, *rows)
        plan.wait(point, PATIENCE_S)
        come_to(job, rows[1])
        before = len(plan.passed())
        plan.release(point)
        wait_for(lambda: _passed(plan, SessionStep.ABANDONED, before), lambda: f"it gives up: {frozen.said()}")
        return frozen.said()


def _passed(plan: CrashPlan, step: SessionStep, since: int = 0) -> bool:
    return any(one.step == f"SessionStep.{step.name}" for one in plan.passed()[since:])


def test_workers_come_and_go(broker: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    """One worker, then three, then two, while rows come."""
    job = new_job(broker, 1000, 4000)
    with ExitStack() as running:
        workers = []
        for number in range(3):
            plan = CrashPlan(tmp_path / str(number))
            workers.append(running.enter_context(closing(nursery.start(job, plan, tmp_path / f"{number}.log"))))
            come_to(job, 1000 * (number + 1))
            fill(job, 1000 * (number + 1), min(1000 * (number + 2), 3500))
        os.kill(workers[1].pid, signal.SIGKILL)
        fill(job, 3500, 4000)
        for worker in (workers[0], workers[2]):
            assert worker.wait() == 0, worker.said()
    assert_whole(job)


def test_control_with_offsets_in_front_of_their_rows_there_is_loss(
    broker: Sandbox, nursery: Nursery, tmp_path: Path
) -> None:
    """Positions committed in a transaction of their own, before the rows, are at-most-once."""
    job = replace(new_job(broker, 400, mode="ahead"), instance="one")
    nursery.run_until_done(job, CrashPlan(tmp_path / "plan", CrashPoint(SessionStep.SENT, 2)), 1, tmp_path / "log")
    history = look(job)
    assert (history.lost, history.duplicated) == (50, 0)
    assert not history.exact


def test_control_with_rows_outside_of_the_transaction_they_are_doubled(
    broker: Sandbox, nursery: Nursery, tmp_path: Path
) -> None:
    """Rows that are written before their positions are committed, in no transaction, are at-least-once."""
    job = replace(new_job(broker, 400, mode="outside"), instance="one")
    nursery.run_until_done(job, CrashPlan(tmp_path / "p", CrashPoint(SessionStep.COMMITTING, 2)), 1, tmp_path / "log")
    history = look(job)
    assert (history.lost, history.duplicated) == (0, 50)
    assert not history.exact


def test_a_batch_that_times_out_each_time_is_warned_of(broker: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    job = new_job(broker, 100)
    properties = {**job.properties(), "transaction.timeout.ms": 1_000}
    with (
        Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client,
        semel.Cluster(properties) as cluster,
        cluster.session("slow", group=job.group, topics=[job.source]) as session,
    ):
        partitions = [(job.target, index) for index in range(PARTITIONS)]

        def expire() -> None:
            """Commit after the brokers have aborted it."""
            rows = session.poll(30)
            assert rows is not None
            session.send(job.target, rows.select(["value", "partition"]))
            wait_for(lambda: not any(open_transactions(client, partitions).values()), "its timeout")
            assert not session.commit()

        expire()
        assert "timed out again" not in caplog.text
        expire()
        assert "timed out again" in caplog.text
        while position(client, job) < job.total:
            if (rows := session.poll(1)) is not None:
                session.send(job.target, rows.select(["value", "partition"]))
                assert session.commit()
    assert_whole(job)
