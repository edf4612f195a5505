"""Jobs and tasks as Spark's event log has them, in seconds since the epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["TRIGGER_PARTS", "Job", "Task", "read"]

#: Spark's names of the parts of a trigger, in their order.
TRIGGER_PARTS = ("latestOffset", "queryPlanning", "getBatch", "walCommit", "addBatch", "commitOffsets")

_START = "time to start Python workers"
_INITIALISE = "time to initialize Python workers"


@dataclass(frozen=True, slots=True)
class Task:
    """A task. ``python_s`` is what it waited for the start of its Python workers, in seconds."""

    stage: int
    begin: float
    end: float
    run_s: float
    cpu_s: float
    python_s: float


@dataclass(frozen=True, slots=True)
class Job:
    """A job and its tasks."""

    begin: float
    end: float
    stages: frozenset[int]
    tasks: tuple[Task, ...]


def read(folder: Path) -> list[Job]:
    """Return the jobs that have ended, in the order of their beginning."""
    started: dict[int, dict[str, Any]] = {}
    ended: dict[int, float] = {}
    tasks: list[Task] = []
    for event in _events(folder):
        match event["Event"]:
            case "SparkListenerJobStart":
                started[event["Job ID"]] = event
            case "SparkListenerJobEnd":
                ended[event["Job ID"]] = event["Completion Time"] / 1000
            case "SparkListenerTaskEnd":
                tasks.append(_task(event))
    jobs = []
    for number, end in ended.items():
        stages = frozenset(started[number]["Stage IDs"])
        begin = started[number]["Submission Time"] / 1000
        jobs.append(Job(begin, end, stages, tuple(task for task in tasks if task.stage in stages)))
    return sorted(jobs, key=lambda job: job.begin)


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what the log has. The line that is being written is left out."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")):
        for line in file.read_text().split("\n")[:-1]:
            if line.startswith("{"):
                yield json.loads(line)


def _task(event: dict[str, Any]) -> Task:
    about, metrics = event["Task Info"], event.get("Task Metrics") or {}
    waits = {one.get("Name"): float(one.get("Update") or 0) for one in about["Accumulables"]}
    return Task(
        event["Stage ID"],
        about["Launch Time"] / 1000,
        about["Finish Time"] / 1000,
        metrics.get("Executor Run Time", 0) / 1000,
        metrics.get("Executor CPU Time", 0) / 1e9,
        (waits.get(_START, 0) + waits.get(_INITIALISE, 0)) / 1000,
    )
