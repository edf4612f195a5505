"""Restores beside the work of other tasks, and standby tasks that take over: real processes, killed by SIGKILL."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.steps import StreamsStep
from semel.streams import App
from semel.streams.state.rocks import Rocks
from semel.streams.state.state_store import StateStore, StoreSpec
from semel.streams.worker.worker import Worker
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.records import read
from semel.wire.client import Client
from tests.streams.support.applications import names, values
from tests.streams.support.streams_checks import assert_exact, fill, new_job, produce, word
from tests.streams.support.streams_worker import PARTITIONS, StreamsJob, done
from tests.support.forked_owners import Nursery, Owner
from tests.support.topics import create
from tests.support.waiting import PATIENCE_S, wait_for

SIZE = 100_000
INTERVAL_S = 3
STORES = ["counts", "windows", "sessions", "seen"]


@pytest.mark.parametrize("blocks", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["beside", "control"])
def test_a_restore_leaves_the_other_tasks_and_the_membership_alone(
    broker: Sandbox, tmp_path: Path, blocks: bool
) -> None:
    """A table is restored while the worker copies another topic. What was restored stays when all begins again.

    An open transaction at the end of the changelog holds the restore up for as long as the test wants. The control
    waits for the restore in one piece: its membership is lost.
    """
    servers, name = broker.bootstrap_servers, f"elastic-{next(names)}"
    table, source, out = (create(servers, f"{name}-{kind}", 1) for kind in ("table", "in", "out"))
    produce(servers, table, [("first", "value")])
    state, sent = tmp_path / "state", 5_000

    def app(**more: object) -> App:
        made = App(name, **{"bootstrap.servers": servers, "state.dir": str(state), "commit.interval.ms": 20, **more})
        made.table(table, name="table")
        made.stream(source).to(out)
        return made

    with Worker(app()) as worker:
        wait_for(lambda: not worker.step() and worker._session.committed.get((table, 0)), "the first commit")
    produce(servers, f"{name}-table-changelog", entries())
    produce(servers, source, (("key", str(number)) for number in range(sent)))
    again = app(**{"max.poll.interval.ms": INTERVAL_S * 1_000, "max.poll.records": 50})
    commits: set[int] = set()
    with opened_transaction(servers, f"{name}-table-changelog") as blocking, Worker(again) as worker:
        wait_for(lambda: (worker.step(), again.counts.restored)[1], "the first records")
        before, began = worker._session._member.current(), time.monotonic()
        if blocks:
            worker._tasks.wait(INTERVAL_S + 1)
            wait_for(lambda: (worker.step(), worker._session._member.current())[1], "its next generation")
            assert worker._session._member.current() is not before
            return
        worker._session.abort("as after a rebalance")  # in the middle of the restore: all tasks are closed
        while len(commits) < 4 or time.monotonic() < began + INTERVAL_S + 1:
            worker.step()
            commits.add(worker._session.committed.get((source, 0), 0))
            assert worker.restoring
        blocking.abort_transaction()
        wait_for(lambda: (worker.step(), not worker.restoring)[1], "the state")
        assert worker._session._member.current() is before
    assert again.counts.restored == SIZE  # no record was read twice
    assert stored_table(state / name) == {"first": "value", **dict(entries())}
    with Worker(app()) as worker:
        wait_for(lambda: not worker.step() and worker._session.committed[source, 0] == sent, "the copies")
    assert sorted(int(value) for _, value in values(servers, out)) == list(range(sent))


@contextmanager
def opened_transaction(servers: str, topic: str) -> Iterator[Producer]:
    """Write a record that is committed by nobody."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, "never", key="never")
    assert producer.flush(60) == 0
    yield producer


def entries() -> Iterator[tuple[str, str]]:
    """Yield what a large table has in its changelog."""
    return ((f"key-{number}", f"value-{number}") for number in range(SIZE))


def stored_table(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in folder.glob("*/rocksdb/table"):
        store = StateStore(StoreSpec("table"), Rocks(path))
        found |= {key.decode(): value.decode() for key, _, _, value in store.entries()}
        store.close()
    return found


def test_killed_in_the_middle_of_a_restore(broker: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    """What was restored until then is not read again, and the store is whole in the end."""
    first = {f"first-{number}": "value" for number in range(40)}
    job = replace(new_job(broker, tmp_path, 0, len(first), shape="table"), instance="one")
    produce(job.servers, job.source, first.items())
    assert nursery.run_until_done(job, CrashPlan(tmp_path / "before"), 0, tmp_path / "log") == 0
    produce(job.servers, job.changelog("table"), entries())
    plan = CrashPlan(tmp_path / "killed", CrashPoint(StreamsStep.RESTORING, 4))
    assert nursery.run_until_done(job, plan, 1, tmp_path / "log") == 1
    (rest,) = restored(plan)
    assert 0 < rest < SIZE
    assert stored_table(tmp_path / "state" / job.application_id) == {**first, **dict(entries())}


@pytest.mark.exhaustive
def test_frozen_in_the_middle_of_a_restore(broker: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    """Another worker restores the tasks meanwhile and goes on. Thawed, the first one's stores are no harm."""
    job = new_job(broker, tmp_path, 1000)
    folders = [str(tmp_path / f"state-{number}") for number in range(2)]
    jobs = [replace(job, total=2000, state_dir=folder) for folder in folders]
    assert nursery.run_until_done(job, CrashPlan(tmp_path / "before"), 0, tmp_path / "log") == 0
    point = CrashPoint(StreamsStep.RESTORING, 5, Action.STOP)
    plan = CrashPlan(tmp_path / "frozen", point)
    with ExitStack() as running, Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client:
        frozen = running.enter_context(closing(nursery.start(jobs[0], plan, tmp_path / "0.log")))
        plan.wait(point, PATIENCE_S)
        other = running.enter_context(
            closing(nursery.start(jobs[1], CrashPlan(tmp_path / "other"), tmp_path / "1.log"))
        )
        fill(job, 1000, 1500)
        wait_for(lambda: done(client, replace(job, total=1500)), other.said)
        plan.release(point)
        fill(job, 1500, 2000)
        for worker in (frozen, other):
            assert worker.wait() == 0, worker.said()
    assert_exact(jobs[0], *folders)


def restored(plan: CrashPlan) -> list[int]:
    """Return how many records each assignment has restored."""
    return [int(one.detail) for one in plan.passed() if one.step == "StreamsStep.RESTORED"]


@pytest.mark.parametrize("standbys", [1, pytest.param(0, marks=pytest.mark.exhaustive)], ids=["standby", "control"])
def test_a_standby_takes_over_with_the_tail_alone(
    broker: Sandbox, nursery: Nursery, tmp_path: Path, standbys: int
) -> None:
    """Three workers, each with a folder of its own; one is killed while rows come. Without a standby the others read
    the whole changelogs of its tasks.
    """
    job = replace(new_job(broker, tmp_path, 2000, 3000), standbys=standbys, recovery_lag=100, commit_ms=100)
    folders = [str(tmp_path / f"state-{number}") for number in range(3)]
    plan = CrashPlan(tmp_path / "plan")
    with ExitStack() as running, Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client:
        workers: list[Owner] = []
        for number in range(3):
            mine = replace(job, state_dir=folders[number])
            workers.append(running.enter_context(closing(nursery.start(mine, plan, tmp_path / f"{number}.log"))))
        part = replace(job, total=2000)
        wait_for(lambda: done(client, part) and is_settled(job, plan, 3), workers[0].said)
        if standbys:
            wait_for(lambda: lacking(job, plan) == set(), lambda: str(lacking(job, plan)))
        before = len(restored(plan))
        os.kill(workers[0].pid, signal.SIGKILL)
        fill(job, 2000, 3000)
        for worker in workers[1:]:
            assert worker.wait() == 0, worker.said()
    assert_exact(job, *folders)
    changelogs = sum(read(job.servers, [job.changelog(store)], {}).num_rows for store in STORES)
    tail = sum(restored(plan)[before : before + 2])  # of the two others, when they took over
    if standbys:
        assert tail < changelogs / 20
    else:
        assert tail > changelogs / 8


@pytest.mark.parametrize("static", [True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["static", "control"])
def test_a_static_member_that_is_killed_and_comes_back_moves_nothing(
    broker: Sandbox, nursery: Nursery, tmp_path: Path, static: bool
) -> None:
    """The other worker is not asked to join again, and its standby tasks stay copies. The control leaves the group."""
    job = replace(new_job(broker, tmp_path, 400, 800, shape="table"), standbys=1, chunk=65_536, session_ms=30_000)
    plan = CrashPlan(tmp_path / "plan")

    def start(number: int) -> Owner:
        instance = f"worker-{number}" if static else None
        mine = replace(job, state_dir=str(tmp_path / f"state-{number}"), instance=instance)
        return running.enter_context(closing(nursery.start(mine, plan, tmp_path / f"{number}.log")))

    with ExitStack() as running, Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client:
        killed = start(0)
        wait_for(lambda: assigned(plan)[killed.pid] == 1 and is_settled(job, plan, 1), killed.said)
        other = start(1)
        part, both = replace(job, total=400), {killed.pid: 2, other.pid: 1}
        wait_for(lambda: assigned(plan) == both and done(client, part) and is_settled(job, plan, 2), other.said)
        os.kill(killed.pid, signal.SIGKILL)
        again = start(0)
        fill(job, 400, 800)
        for worker in (again, other):
            assert worker.wait() == 0, worker.said()
    assert (assigned(plan)[other.pid] == both[other.pid]) is static
    tables = {number: stored_table(tmp_path / f"state-{number}" / job.application_id) for number in range(2)}
    assert tables[0].keys() | tables[1].keys() == {word(number) for number in range(800)}


def assigned(plan: CrashPlan) -> Counter[int]:
    """Return how often each process was assigned tasks."""
    return Counter(one.pid for one in plan.passed() if one.step == "SessionStep.ASSIGNED")


def is_settled(job: StreamsJob, plan: CrashPlan, members: int) -> bool:
    """Return True if so many workers share the tasks, and all have their state."""
    admin = AdminClient({"bootstrap.servers": job.servers})
    group = admin.describe_consumer_groups([job.application_id])[job.application_id].result(30)
    opened = [one for one in plan.passed() if one.step == "StreamsStep.OPENED"]
    return (
        group.state is ConsumerGroupState.STABLE
        and len(group.members) == members
        and len(opened) == len(restored(plan))
    )


def lacking(job: StreamsJob, plan: CrashPlan) -> set[str]:
    """Return the changelog partitions of which no standby task has all."""
    copied = {}
    for one in plan.passed():
        if one.step == "StreamsStep.COPIED":
            name, offset = one.detail.split()
            copied[name] = int(offset)
    consumer = Consumer({"bootstrap.servers": job.servers, "group.id": "ends"})
    ends = {
        f"{topic}-{index}": consumer.get_watermark_offsets(TopicPartition(topic, index), 30)[1]
        for topic in map(job.changelog, STORES)
        for index in range(PARTITIONS)
    }
    consumer.close()
    return {name for name, end in ends.items() if end and copied.get(name) != end}
