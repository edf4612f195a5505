"""Workers of streams, killed and frozen at each step: output, changelog and stores say what was read, once.

Real processes on a real broker. The count counts words behind a repartition topic, so that the same worker reads what
it has written, and each count is in a store, in its changelog and in the output. An independent client reads all three.
The copy has no state. The join has a table, which changes while its stream is read.
"""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep, SessionStep, Step, StreamsStep
from semel.streams.state.rocks import Rocks
from semel.streams.state.state_store import StateStore, StoreSpec
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.wire.client import Client
from tests.streams.support.streams_checks import (
    assert_exact,
    fill,
    new_job,
    produce,
    stored_seen,
    stored_windows,
    true_windows,
)
from tests.streams.support.streams_worker import ControlStep, done
from tests.support.forked_owners import Nursery, Owner
from tests.support.waiting import PATIENCE_S, wait_for

STEPS: list[Step] = [
    OwnerStep.INITIALISED,
    SessionStep.ASSIGNED,
    StreamsStep.OPENED,
    StreamsStep.RESTORING,
    StreamsStep.RESTORED,
    SessionStep.POSITIONS_READ,
    SessionStep.HANDED_OUT,
    StreamsStep.PROCESSED,
    OwnerStep.BEGUN,
    OwnerStep.PARTITIONS_ADDED,
    ParticipantStep.SENT,
    SessionStep.SENT,
    StreamsStep.CHANGELOG_SENT,
    SessionStep.COMMITTING,
    ParticipantStep.RECEIPT,
    OwnerStep.WRITTEN,
    OwnerStep.OFFSETS_ADDED,
    OwnerStep.COMMIT_SENT,
    OwnerStep.COMMIT_ANSWERED,
    SessionStep.COMMITTED,
    StreamsStep.COMMITTED,
    StreamsStep.STORED,
    OwnerStep.MARKERS_SEEN,
]
#: Those at which state can differ from its changelog; the others are exhaustive.
SAMPLE: list[Step] = [
    StreamsStep.RESTORED,
    StreamsStep.PROCESSED,
    StreamsStep.CHANGELOG_SENT,
    OwnerStep.COMMIT_SENT,
    OwnerStep.COMMIT_ANSWERED,
    StreamsStep.COMMITTED,
    StreamsStep.STORED,
]
FROZEN_SAMPLE = "count", StreamsStep.CHANGELOG_SENT
#: The count is the quick one.
SHAPES = ["count", *(pytest.param(shape, marks=pytest.mark.exhaustive) for shape in ("copy", "join"))]


@pytest.mark.parametrize("shape", ["count", pytest.param("pairs", marks=pytest.mark.exhaustive)])
def test_killed_at_every_step(broker: Sandbox, nursery: Nursery, tmp_path: Path, shape: str) -> None:
    _killed(broker, nursery, tmp_path, shape, SAMPLE)


@pytest.mark.exhaustive  # its sample is the count that is killed
def test_tables_of_tables_are_killed_at_steps(broker: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    _killed(broker, nursery, tmp_path, "tables", [StreamsStep.CHANGELOG_SENT, OwnerStep.COMMIT_ANSWERED], rows=300)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", ["count", "copy", "join", "tables"])
def test_killed_at_all_steps(broker: Sandbox, nursery: Nursery, tmp_path: Path, shape: str) -> None:
    stateful = (StreamsStep.RESTORING, StreamsStep.RESTORED)
    steps = [step for step in STEPS if shape != "copy" or step not in stateful]
    _killed(broker, nursery, tmp_path, shape, steps)


def _killed(broker: Sandbox, nursery: Nursery, tmp_path: Path, shape: str, steps: list[Step], rows: int = 1200) -> None:
    """One worker with all tasks is killed at each step, and started again on its folder."""
    job = replace(new_job(broker, tmp_path, rows, shape=shape), instance="one", chunk=20)
    plan = CrashPlan(tmp_path / "plan", *(CrashPoint(step, 2) for step in steps))
    assert nursery.run_until_done(job, plan, len(steps), tmp_path / "log") == len(steps)
    assert "thrown away" not in (tmp_path / "log").read_text()
    assert_exact(job)


def test_control_with_state_stored_before_its_commit_rows_are_counted_twice(
    broker: Sandbox, nursery: Nursery, tmp_path: Path
) -> None:
    job = replace(new_job(broker, tmp_path, 1000), instance="one", mode="early", chunk=20)
    plan = CrashPlan(tmp_path / "plan", CrashPoint(ControlStep.STORED_EARLY, 40))
    nursery.run_until_done(job, plan, 1, tmp_path / "log")
    counted = sum(stored_windows(job).values()) + sum(stored_seen(job).values())
    assert counted > sum(true_windows(job).values()) + job.total


@pytest.mark.parametrize("shape", ["count", pytest.param("join", marks=pytest.mark.exhaustive)])
def test_state_that_is_not_what_it_was(broker: Sandbox, nursery: Nursery, tmp_path: Path, shape: str) -> None:
    """Deleted, damaged, put back from an older copy, or ahead of its changelog: what is made of it stays right."""
    job, state = new_job(broker, tmp_path, 500, shape=shape), tmp_path / "state"
    job = replace(job, instance="one")

    def goes_on(*said: str) -> None:
        """More rows, counted by a new process; its log says this."""
        nonlocal job
        fill(job, job.total, job.total + 500)
        job = replace(job, total=job.total + 500)
        log = tmp_path / f"log-{job.total}"
        nursery.run_until_done(job, CrashPlan(tmp_path / f"plan-{job.total}"), 0, log)
        assert all(text in log.read_text() for text in said), log.read_text()

    goes_on()
    shutil.copytree(state, tmp_path / "older")
    shutil.rmtree(state)
    goes_on("restored")
    for number, folder in enumerate(sorted(state.glob("*/?_*/rocksdb/*"))):
        kinds = ("CURRENT", "*.sst", "*.sst", "*.log")
        for file in folder.glob(kinds[number % len(kinds)]):
            file.write_bytes(b"\x07" * file.stat().st_size)
    goes_on("a store cannot be read; it is thrown away", "restored")
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "older", state)
    goes_on("restored")
    for folder in state.glob("*/?_*/rocksdb/*"):
        store = StateStore(StoreSpec("any"), Rocks(folder))
        there = store.position
        assert there is not None
        store.apply(there.topic_id, there.offset + 10)
        store.close()
    goes_on("and the changelog ends at", "restored")
    assert_exact(job)  # counts add up: what went wrong once stays wrong


@pytest.mark.parametrize("standbys", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("shape", SHAPES)
def test_workers_come_and_go_with_their_state(
    broker: Sandbox, nursery: Nursery, tmp_path: Path, shape: str, standbys: int
) -> None:
    """One worker, then three, then two, each with a folder of its own: tasks move, and are restored there."""
    job = replace(new_job(broker, tmp_path, 1000, 4000, shape=shape), standbys=standbys, recovery_lag=100)
    folders = [str(tmp_path / f"state-{number}") for number in range(3)]
    with ExitStack() as running, Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client:
        workers = []
        for number in range(3):
            mine = replace(job, state_dir=folders[number])
            plan = CrashPlan(tmp_path / str(number))
            workers.append(running.enter_context(closing(nursery.start(mine, plan, tmp_path / f"{number}.log"))))
            part = replace(job, total=1000 * (number + 1))
            wait_for(lambda part=part: done(client, part), workers[-1].said)  # type: ignore[misc]
            fill(job, 1000 * (number + 1), min(1000 * (number + 2), 3500))
        os.kill(workers[1].pid, signal.SIGKILL)
        fill(job, 3500, 4000)
        for worker in (workers[0], workers[2]):
            assert worker.wait() == 0, worker.said()
    assert_exact(job, *folders)


@pytest.mark.parametrize(
    ("shape", "step", "standbys"),
    [
        pytest.param(shape, step, 0, marks=[] if (shape, step) == FROZEN_SAMPLE else pytest.mark.exhaustive)
        for shape in ("count", "copy", "join")
        for step in STEPS[STEPS.index(StreamsStep.PROCESSED) : STEPS.index(OwnerStep.MARKERS_SEEN)]
    ]
    + [pytest.param("count", step, 1, marks=pytest.mark.exhaustive) for step in SAMPLE[1:]],
)
def test_frozen_through_a_rebalance(
    broker: Sandbox, nursery: Nursery, tmp_path: Path, shape: str, step: Step, standbys: int
) -> None:
    """A worker is frozen, its tasks go to another one; then it thaws, and its folder is no harm."""
    job = replace(new_job(broker, tmp_path, 0, 2000, shape=shape), standbys=standbys)
    folders = [str(tmp_path / "state-0"), str(tmp_path / "state-1")]
    point = CrashPoint(step, 3, Action.STOP)
    frozen_plan = CrashPlan(tmp_path / "frozen", point)
    with ExitStack() as running, Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client:

        def start(number: int, plan: CrashPlan) -> Owner:
            mine = replace(job, state_dir=folders[number])
            return running.enter_context(closing(nursery.start(mine, plan, tmp_path / f"{number}.log")))

        frozen = start(0, frozen_plan)
        fill(job, 0, 1000)
        frozen_plan.wait(point, PATIENCE_S)
        other = start(1, CrashPlan(tmp_path / "other"))
        wait_for(lambda: done(client, replace(job, total=1000)), other.said)
        frozen_plan.release(point)
        fill(job, 1000, 2000)
        for worker in (frozen, other):
            assert worker.wait() == 0, worker.said()
    assert_exact(job, *folders)


@pytest.mark.parametrize(
    "size", [20_000, *(pytest.param(size, marks=pytest.mark.exhaustive) for size in (1_000, 200_000))]
)
def test_what_a_killed_worker_restores_does_not_grow_with_its_state(
    broker: Sandbox, nursery: Nursery, tmp_path: Path, size: int
) -> None:
    """A commit was answered and is not in the store: it is read from the changelog, and nothing else is."""
    changes = 400
    job = replace(new_job(broker, tmp_path, 0, size, shape="table"), instance="one", chunk=65_536)
    produce(job.servers, job.source, ((f"key-{number}", "before") for number in range(size)))
    assert nursery.run_until_done(job, CrashPlan(tmp_path / "before"), 0, tmp_path / "log") == 0
    produce(job.servers, job.source, ((f"key-{number}", "after") for number in range(changes)))
    job = replace(job, total=size + changes, chunk=20)
    plan = CrashPlan(tmp_path / "killed", CrashPoint(StreamsStep.COMMITTED, 1))
    assert nursery.run_until_done(job, plan, 1, tmp_path / "log") == 1
    first, second = restored(plan)
    assert first == 0
    assert 0 < second <= changes
    shutil.rmtree(tmp_path / "state")  # the control
    plan = CrashPlan(tmp_path / "deleted")
    assert nursery.run_until_done(job, plan, 0, tmp_path / "log") == 0
    assert restored(plan)[0] >= size


def restored(plan: CrashPlan) -> list[int]:
    """How many records each worker has restored at its start."""
    return [int(one.detail) for one in plan.passed() if one.step == "StreamsStep.RESTORED"]
