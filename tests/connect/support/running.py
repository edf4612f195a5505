"""A worker in the process of the test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from semel.connect.worker.worker import Worker
from semel.processes.launcher import Launcher
from semel.processes.supervisor import State, Status
from tests.support.waiting import wait_for


class Running:
    """A worker whose tasks run, if it leads, and what became of them."""

    def __init__(self, spark: SparkSession, worker: dict[str, str], connectors: list[dict[str, str]]) -> None:
        self.states: dict[str, Status] = {}
        self.told: dict[str, Mapping[str, Any]] = {}
        self._spark = spark
        self.worker = Worker(worker, connectors)
        self.worker.prepare()
        if self.worker.leads:
            self.lead()

    def lead(self) -> None:
        """Start the tasks, once it is to lead."""
        wait_for(lambda: self.worker.due, "that it is to lead", 60)
        self.worker.start(Launcher(self._spark), self._change, self.told.__setitem__)

    def _change(self, status: Status) -> None:
        self.states[status.name] = status

    def wait_state(self, task: str, state: State) -> Status:
        wait_for(lambda: task in self.states and self.states[task].state is state, lambda: str(self.states), 60)
        return self.states[task]

    def wait_started(self, task: str) -> None:
        """Return when the task has started: it owns its id, and has read its offsets. It tells nothing before."""
        wait_for(lambda: task in self.told, lambda: str(self.states), 60)
