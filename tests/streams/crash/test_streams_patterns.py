"""A worker is killed at each step while a topic joins the source of its pattern: each record is counted once."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, SessionStep, Step, StreamsStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.wire.client import Client
from tests.streams.support.streams_checks import in_changelog, new_job, produce, truth, word, written
from tests.streams.support.streams_worker import PARTITIONS, StreamsJob, done
from tests.support.forked_owners import Nursery
from tests.support.topics import create
from tests.support.waiting import PATIENCE_S, wait_for

STEPS: list[Step] = [
    SessionStep.ASSIGNED,
    StreamsStep.OPENED,
    SessionStep.POSITIONS_READ,
    SessionStep.HANDED_OUT,
    StreamsStep.CHANGELOG_SENT,
    OwnerStep.OFFSETS_ADDED,
    OwnerStep.COMMIT_SENT,
    OwnerStep.COMMIT_ANSWERED,
    StreamsStep.STORED,
]
ROWS = 600


@pytest.fixture
def job(broker: Sandbox, tmp_path: Path) -> StreamsJob:
    """A job whose first topic is filled. The later one is not there yet."""
    job = replace(new_job(broker, tmp_path, 0, ROWS, shape="pattern"), look_ms=200, chunk=20)
    produce(job.servers, job.source, ((word(number), str(number)) for number in range(ROWS // 2)))
    return job


def make_later(job: StreamsJob) -> None:
    create(job.servers, job.later, PARTITIONS)
    produce(job.servers, job.later, ((word(number), str(number)) for number in range(ROWS // 2, ROWS)))


def assert_counted_once(job: StreamsJob) -> None:
    counts = {key: list(map(int, series)) for key, series in written(job).items()}
    assert all(series == sorted(set(series)) for series in counts.values()), counts
    assert {key: series[-1] for key, series in counts.items()} == truth(job)
    assert {key: int.from_bytes(value, "big") for key, value in in_changelog(job, "counts").items()} == truth(job)


@pytest.mark.exhaustive
def test_killed_at_each_step_while_a_topic_joins(job: StreamsJob, nursery: Nursery, tmp_path: Path) -> None:
    """The topic comes at the first kill. Each start meets it at another step: not found yet, found, or half read."""
    job = replace(job, instance="one")
    plan = CrashPlan(tmp_path / "plan", *(CrashPoint(step, 2) for step in STEPS))

    def grow() -> None:
        wait_for(lambda: any(map(plan.struck, plan.points)), "the first kill", PATIENCE_S)
        make_later(job)

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        assert nursery.run_until_done(job, plan, len(STEPS), tmp_path / "log") == len(STEPS)
    finally:
        growing.join()
    assert_counted_once(job)


@pytest.mark.exhaustive
@pytest.mark.parametrize("finder", [True, False], ids=["finder", "other"])
def test_one_of_two_is_killed_when_the_topic_has_joined(
    job: StreamsJob, nursery: Nursery, tmp_path: Path, finder: bool
) -> None:
    """One worker looks for topics and finds the later one; the other one has it from its assignment. One of the two is
    killed as it works on the new topic, and the other one counts the rest.
    """
    jobs = [replace(job, state_dir=str(tmp_path / "0")), replace(job, state_dir=str(tmp_path / "1"), look_ms=300_000)]
    plans = [CrashPlan(tmp_path / f"plan-{number}") for number in range(2)]
    with ExitStack() as running, Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client:
        workers = [
            running.enter_context(closing(nursery.start(jobs[number], plans[number], tmp_path / f"{number}.log")))
            for number in range(2)
        ]
        first = replace(job, shape="copy", total=ROWS // 2)
        wait_for(lambda: done(client, first), workers[0].said)
        commits = [len(plan.passed()) for plan in plans]
        make_later(job)
        victim = 0 if finder else 1
        wait_for(
            lambda: any(one.step == "StreamsStep.PROCESSED" for one in plans[victim].passed()[commits[victim] :]),
            workers[victim].said,
        )
        os.kill(workers[victim].pid, signal.SIGKILL)
        assert workers[1 - victim].wait() == 0, workers[1 - victim].said()
    assert_counted_once(job)
