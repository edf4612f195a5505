"""Workers of streams with state, killed at each step: counts, changelog and store say what was read, once.

Real processes on a real broker. Words are counted behind a repartition topic, so that the same worker reads what it has
written, and each count is in a store, in its changelog and in the output. An independent client reads all three.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep, SessionStep, Step, StreamsStep
from semel.streams.state.rocks import Rocks
from semel.streams.state.store import Store, StoreSpec
from semel.streams.testing import Driver
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.records import read
from semel.wire.client import Client
from tests.crash.support.forked_owners import Nursery, Owner
from tests.crash.support.streams_worker import PARTITIONS, ControlStep, StreamsJob, done
from tests.topics import create
from tests.waiting import PATIENCE_S, wait_for

STEPS: list[Step] = [
    OwnerStep.INITIALISED,
    SessionStep.ASSIGNED,
    StreamsStep.OPENED,
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
WORDS = 40

_names = itertools.count(1)


def new_job(broker: Sandbox, folder: Path, rows: int, total: int | None = None) -> StreamsJob:
    servers, unique = broker.bootstrap_servers, f"streams-{next(_names)}"
    source, target = create(servers, f"{unique}-in", PARTITIONS), create(servers, f"{unique}-out", PARTITIONS)
    job = StreamsJob(servers, unique, source, target, rows if total is None else total, str(folder / "state"))
    fill(job, 0, rows)
    return job


def word(number: int) -> str:
    return f"word-{number * number % WORDS}"


def time_of(number: int) -> int:
    """Forwards, but for rows that come late: some too late for their windows."""
    return 1_700_000_000_000 + number - number * 7919 % 41


def fill(job: StreamsJob, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": job.servers, "enable.idempotence": True})
    for number in range(first, end):
        text, partition = word(number), number % PARTITIONS
        producer.produce(job.source, value=text, key=text, partition=partition, timestamp=time_of(number))
    assert producer.flush(60) == 0


def truth(job: StreamsJob) -> dict[str, int]:
    return dict(Counter(word(number) for number in range(job.total)))


def written(job: StreamsJob) -> dict[str, list[int]]:
    """All counts of each word in the output, in their order."""
    rows = read(job.servers, [job.target], {"key": "key", "value": "value"}, timeout=PATIENCE_S)
    found: dict[str, list[int]] = {}
    for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
        found.setdefault(key, []).append(int(value))
    return found


def stored(job: StreamsJob, *folders: str) -> dict[str, int]:
    """What the stores hold; of a partition that several have, the one that has come farthest."""
    found: dict[str, int] = {}
    for folder in sorted(path for base in folders or (job.state_dir,) for path in Path(base).glob("*/1_*/rocksdb/*")):
        store = Store(StoreSpec("counts"), Rocks(folder))
        for key, _, _, value in store.entries():
            found[key.decode()] = max(found.get(key.decode(), 0), int.from_bytes(value, "big"))
        store.close()
    return found


def stored_windows(job: StreamsJob, *folders: str) -> dict[tuple[int, bytes, int], int]:
    """By partition, word and where the window begins; of folders that several have, as in :func:`stored`."""
    found: dict[tuple[int, bytes, int], int] = {}
    for folder in [path for base in folders or (job.state_dir,) for path in Path(base).glob("*/0_*/rocksdb/*")]:
        store = Store(StoreSpec("windows", 1), Rocks(folder))
        for key, begin, _, value in store.entries():
            place = int(folder.parents[1].name[2:]), key, begin or 0
            found[place] = max(found.get(place, 0), int.from_bytes(value, "big"))
        store.close()
    return found


def true_windows(job: StreamsJob) -> dict[tuple[int, bytes, int], int]:
    """What the driver says, which knows neither brokers nor restarts."""
    found = {}
    for partition in range(PARTITIONS):
        driver = Driver(job.app())
        numbers = range(partition, job.total, PARTITIONS)
        driver.pipe_many(job.source, [(word(number), word(number), time_of(number)) for number in numbers])
        for (key, begin), value in driver.store("windows").items():
            found[partition, key, begin] = int.from_bytes(value, "big")
    return found


def in_changelog(job: StreamsJob) -> dict[str, int]:
    """The newest count of each word in the changelog, by a reader that is not ours."""
    ends = read(job.servers, [job.changelog], {"key": "key"}, timeout=PATIENCE_S).num_rows
    settings = {"bootstrap.servers": job.servers, "group.id": "look", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.assign([TopicPartition(job.changelog, index, 0) for index in range(PARTITIONS)])
    found: dict[str, int] = {}
    while ends:
        message = consumer.poll(1)
        if message is not None and not message.error():
            found[message.key().decode()] = int.from_bytes(message.value(), "big")
            ends -= 1
    consumer.close()
    return found


def assert_exact(job: StreamsJob, *folders: str) -> None:
    """Each count rises, and none is there twice: nothing was counted again. The last one is the truth, everywhere."""
    counts = written(job)
    for key, series in counts.items():
        assert series == sorted(set(series)), f"{key}: {series}"
    assert {key: series[-1] for key, series in counts.items()} == truth(job)
    assert in_changelog(job) == truth(job)
    assert stored(job, *folders) == truth(job)
    assert stored_windows(job, *folders) == true_windows(job)


def test_killed_at_every_step(broker: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    _killed(broker, nursery, tmp_path, SAMPLE)


@pytest.mark.exhaustive
def test_killed_at_all_steps(broker: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    _killed(broker, nursery, tmp_path, STEPS)


def _killed(broker: Sandbox, nursery: Nursery, tmp_path: Path, steps: list[Step]) -> None:
    """One worker with all tasks is killed at each step, and started again on its folder."""
    job = replace(new_job(broker, tmp_path, 1200), instance="one", chunk=20)
    plan = CrashPlan(tmp_path / "plan", *(CrashPoint(step, 2) for step in steps))
    assert nursery.run_until_done(job, plan, len(steps), tmp_path / "log") == len(steps)
    assert "thrown away" not in (tmp_path / "log").read_text()
    assert_exact(job)


def test_control_with_state_stored_before_its_commit_rows_are_counted_twice(
    broker: Sandbox, nursery: Nursery, tmp_path: Path
) -> None:
    job = replace(new_job(broker, tmp_path, 1000), instance="one", mode="early", chunk=20)
    plan = CrashPlan(tmp_path / "plan", CrashPoint(ControlStep.STORED_EARLY, 2))
    nursery.run_until_done(job, plan, 1, tmp_path / "log")
    assert sum(stored_windows(job).values()) > sum(true_windows(job).values())


def test_state_that_is_not_what_it_was(broker: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    """Deleted, damaged, put back from an older copy, or ahead of its changelog: the counts stay right."""
    job, state = new_job(broker, tmp_path, 500), tmp_path / "state"
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
        store = Store(StoreSpec("any"), Rocks(folder))
        there = store.position
        assert there is not None
        store.apply(there.topic_id, there.offset + 10)
        store.close()
    goes_on("and the changelog ends at", "restored")
    assert_exact(job)  # counts add up: what went wrong once stays wrong


def test_workers_come_and_go_with_their_state(broker: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    """One worker, then three, then two, each with a folder of its own: tasks move, and are restored there."""
    job = new_job(broker, tmp_path, 1000, 4000)
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
    "step",
    [
        StreamsStep.CHANGELOG_SENT,
        *(
            pytest.param(step, marks=pytest.mark.exhaustive)
            for step in (
                StreamsStep.PROCESSED,
                SessionStep.COMMITTING,
                OwnerStep.OFFSETS_ADDED,
                OwnerStep.COMMIT_ANSWERED,
                StreamsStep.COMMITTED,
            )
        ),
    ],
)
def test_frozen_through_a_rebalance(broker: Sandbox, nursery: Nursery, tmp_path: Path, step: Step) -> None:
    """A worker is frozen, its tasks go to another one; then it thaws, and its folder is no harm."""
    job = new_job(broker, tmp_path, 0, 2000)
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
