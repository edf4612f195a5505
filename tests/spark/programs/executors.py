"""Executors of this machine: where a task runs, how many there are, and the loss of one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pyspark import StatusTracker
from pyspark.sql import SparkSession

from semel.sandbox.processes import children, parents
from semel.testing.spark.fork_client import STARTED_AS
from tests.support.waiting import wait_for

EXECUTOR = "CoarseGrainedExecutorBackend"


def executor_of_this() -> int:
    above = parents(int(os.environ.get(STARTED_AS) or os.getpid()))
    return next(pid for pid, command in above if EXECUTOR in command)


def write_number(number: int, file: Path) -> None:
    draft = file.with_suffix(".draft")
    draft.write_text(str(number))
    draft.rename(file)


def kill_executors(spark: SparkSession, pids: set[int], directory: Path) -> None:
    """Kill them, and say so when the driver has noticed."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()  # Python's own says it since Spark 4.1 only

    def alive() -> set[int]:
        return {int(info.port()) for info in tracker.getExecutorInfos()}

    before = alive()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: before - alive(), "the driver to notice")
    (directory / "lost").touch()


def tasks_at_work(tracker: StatusTracker) -> int:
    told = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in told if stage is not None)


def executors(pid: int) -> list[int]:
    """Below this process: the driver's Java starts them."""
    below = children(pid)
    return [child for child, command in below if EXECUTOR in command] + [
        found for child, _ in below for found in executors(child)
    ]
