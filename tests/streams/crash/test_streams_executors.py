"""Workers of streams on Spark executors: processes, executors and drivers killed with SIGKILL; nothing lost or doubled.

An independent client reads output and changelog; the stores are opened where the executors had them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, SessionStep, StreamsStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import SparkCluster
from semel.wire.client import Client
from tests.streams.support.streams_checks import assert_exact, fill, new_job
from tests.streams.support.streams_worker import StreamsJob, done
from tests.support.waiting import wait_for

WORKERS = 2
SHAPES = ["count", "copy", "join"]
LOCAL = SparkCluster("local[4,4]")
EXECUTOR = SparkCluster("local-cluster[1,4,1024]")
APP = """
from tests.streams.support.streams_worker import StreamsJob
app = StreamsJob(**{job!r}).app()
"""


class Running:
    """An application on Spark, and the records that it reads."""

    def __init__(self, broker: Sandbox, folder: Path, cluster: SparkCluster, shape: str = "count") -> None:
        self.job = new_job(broker, folder, 0, 3000, shape=shape)
        self.file, self.cluster, self.folder = folder / "app.py", cluster, folder
        self.file.write_text(APP.format(job=asdict(self.job)))
        self.filled = 0
        #: In the middle of its commits: those of a count are more.
        self.nth = 8 if shape == "count" else 3

    def fill(self, end: int) -> None:
        fill(self.job, self.filled, end)
        self.filled = end

    @contextmanager
    def driver(self, *points: CrashPoint) -> Iterator[tuple[Program, CrashPlan]]:
        argv = [sys.executable, "-c", "from semel.cli import main; main()", "streams", "run", str(self.file)]
        argv += ["--tasks", str(WORKERS), "--master", self.cluster.master]
        plan = CrashPlan(self.folder / f"plan-{len(points)}", *points)
        with self.cluster.driver(argv, plan) as driver:
            yield driver, plan

    def counted(self, job: StreamsJob, driver: Program) -> None:
        with Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client:
            wait_for(lambda: driver.process.poll() is not None or done(client, job), driver.tail, 120)
        assert driver.process.poll() is None, driver.tail()

    def finish(self, driver: Program) -> None:
        self.fill(self.job.total)
        self.counted(self.job, driver)
        driver.process.send_signal(signal.SIGINT)
        assert driver.wait(60) == 0, driver.tail()
        assert_exact(self.job, *(str(self.folder / "state" / f"worker-{n}") for n in range(WORKERS)))


def wait_struck(plan: CrashPlan, driver: Program) -> None:
    def struck(point: CrashPoint) -> bool:
        return plan.struck(point) or driver.process.poll() is not None

    for point in plan.points:
        wait_for(partial(struck, point), driver.tail, 120)
        assert plan.struck(point), driver.tail()


@pytest.mark.parametrize(
    "shape", ["count", *(pytest.param(shape, marks=pytest.mark.exhaustive) for shape in SHAPES[1:])]
)
def test_processes_and_the_driver_are_killed(broker: Sandbox, tmp_path: Path, shape: str) -> None:
    running = Running(broker, tmp_path, LOCAL, shape)
    running.fill(1000)
    kills = [
        CrashPoint(step, running.nth)
        for step in (StreamsStep.CHANGELOG_SENT, OwnerStep.COMMIT_SENT, StreamsStep.COMMITTED)
    ]
    with running.driver(*kills) as (driver, plan):
        wait_struck(plan, driver)
        running.fill(2000)
        running.counted(replace(running.job, total=1500), driver)
    with running.driver() as (driver, _):
        running.finish(driver)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES)
def test_an_executor_is_killed(broker: Sandbox, tmp_path: Path, shape: str) -> None:
    running = Running(broker, tmp_path, EXECUTOR, shape)
    running.fill(1500)
    with running.driver(CrashPoint(SessionStep.COMMITTING, running.nth, Action.EXECUTOR)) as (driver, plan):
        wait_struck(plan, driver)
        running.finish(driver)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES)
def test_a_second_driver_takes_over(broker: Sandbox, tmp_path: Path, shape: str) -> None:
    running = Running(broker, tmp_path, LOCAL, shape)
    running.fill(500)
    with running.driver() as (first, _):
        running.counted(replace(running.job, total=500), first)
        with running.driver() as (second, _):
            running.fill(1000)
            assert first.wait(120) == 1, second.tail()
            assert "FAILED" in first.tail()
            running.finish(second)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES)
def test_a_process_is_frozen_and_thaws(broker: Sandbox, tmp_path: Path, shape: str) -> None:
    """It is launched again beside the frozen one, which holds its stores until Spark has made an end of it."""
    running = Running(broker, tmp_path, LOCAL, shape)
    running.fill(1500)
    point = CrashPoint(StreamsStep.CHANGELOG_SENT, running.nth, Action.STOP)
    with running.driver(point) as (driver, plan):
        wait_struck(plan, driver)
        (frozen,) = plan.victims(point)
        running.counted(replace(running.job, total=1500), driver)
        if Path(f"/proc/{frozen}").exists():
            os.kill(frozen, signal.SIGCONT)
        running.finish(driver)
