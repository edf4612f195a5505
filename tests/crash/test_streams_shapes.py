"""A copy and a join of streams, killed at each step, and how much a worker restores that was killed.

Real processes on a real broker, read by an independent client.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep, SessionStep, Step, StreamsStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.records import read
from tests.crash.support.forked_owners import Nursery
from tests.crash.support.streams_shapes import PARTITIONS, ShapeJob
from tests.topics import create

STEPS: list[Step] = [
    StreamsStep.PROCESSED,
    OwnerStep.PARTITIONS_ADDED,
    ParticipantStep.SENT,
    SessionStep.COMMITTING,
    OwnerStep.OFFSETS_ADDED,
    OwnerStep.COMMIT_SENT,
    OwnerStep.COMMIT_ANSWERED,
    StreamsStep.COMMITTED,
    StreamsStep.STORED,
]
ROWS, USERS = 1_000, 20

_names = itertools.count(1)


def new_job(broker: Sandbox, folder: Path, shape: str) -> ShapeJob:
    servers, name = broker.bootstrap_servers, f"shape-{next(_names)}"
    topics = [create(servers, f"{name}-{kind}", PARTITIONS) for kind in ("in", "out", "users")]
    job = ShapeJob(servers, name, shape, topics[0], topics[1], 0, str(folder / "state"))
    return replace(job, table=topics[2], users=USERS) if shape == "join" else job


def fill(servers: str, topic: str, rows: Iterable[tuple[str, str]]) -> None:
    producer = Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "queue.buffering.max.messages": 1_000_000}
    )
    for key, value in rows:
        producer.produce(topic, value, key=key)
    assert producer.flush(60) == 0


def user(number: int) -> str:
    return str(number * number % USERS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", ["copy", "join"])
def test_killed_at_each_step(broker: Sandbox, nursery: Nursery, tmp_path: Path, shape: str) -> None:
    """Each record once, and those of a key in their order. Of the join: with the partner that the table has."""
    job = new_job(broker, tmp_path, shape)
    if shape == "join":  # the table is read before the stream
        fill(job.servers, job.table, ((str(number), f"user-{number}") for number in range(USERS)))
        assert nursery.run_until_done(job, CrashPlan(tmp_path / "before"), 0, tmp_path / "log") == 0
    fill(job.servers, job.source, ((user(number), str(number)) for number in range(ROWS)))
    plan = CrashPlan(tmp_path / "plan", *(CrashPoint(step, 2) for step in STEPS))
    assert nursery.run_until_done(replace(job, total=ROWS), plan, len(STEPS), tmp_path / "log") == len(STEPS)
    rows = read(job.servers, [job.target], {"key": "key", "value": "value"})
    found: dict[str, list[str]] = {}
    for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
        found.setdefault(key, []).append(value)
    ending = {key: f" user-{key}" if shape == "join" else "" for key in map(user, range(ROWS))}
    assert found == {key: [f"{number}{ending[key]}" for number in range(ROWS) if user(number) == key] for key in ending}


@pytest.mark.parametrize(
    "size", [20_000, *(pytest.param(size, marks=pytest.mark.exhaustive) for size in (1_000, 200_000))]
)
def test_what_a_killed_worker_restores_does_not_grow_with_its_state(
    broker: Sandbox, nursery: Nursery, tmp_path: Path, size: int
) -> None:
    """A commit was answered and is not in the store: it is read from the changelog, and nothing else is."""
    changes = 400
    job = replace(new_job(broker, tmp_path, "table"), total=size, chunk=65_536)
    fill(job.servers, job.source, ((f"key-{number}", "before") for number in range(size)))
    assert nursery.run_until_done(job, CrashPlan(tmp_path / "before"), 0, tmp_path / "log") == 0
    fill(job.servers, job.source, ((f"key-{number}", "after") for number in range(changes)))
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
