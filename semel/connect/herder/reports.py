"""The states of tasks as their processes report them, and the answers to their questions."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.stores.configs import ConfigStore
from semel.connect.stores.statuses import StatusStore, TaskState
from semel.errors import ConfigError
from semel.processes.supervisor import State, Status

__all__ = ["Reports", "Run"]

_MOST_EXPIRIES = 3
_STATES = {
    State.UNASSIGNED: "UNASSIGNED",
    State.RUNNING: "UNASSIGNED",
    State.RESTARTING: "RESTARTING",
    State.FAILED: "FAILED",
}


@dataclass
class Run:
    """The tasks of one connector that have been started."""

    generation: int
    config: Mapping[str, str]
    tasks: list[Mapping[str, Any]]
    #: Properties of the connector's admin client.
    admin: Mapping[str, str]
    #: Its tasks are members of a consumer group: nothing of them is fenced by an id.
    sink: bool


class Reports:
    """Takes what processes report. Any thread may use it."""

    def __init__(self, config: WorkerConfig, store: ConfigStore, statuses: StatusStore) -> None:
        self._config, self._store, self._statuses = config, store, statuses
        #: The tasks that run, by connector.
        self.runs: dict[str, Run] = {}
        #: Set once all tasks are stopped.
        self.closed = threading.Event()
        #: How often in a row the transactions of a task have expired.
        self._expiries: dict[str, int] = {}

    def begin(self, process: str) -> None:
        """Forget what a former process of this name has reported."""
        self._expiries.pop(process, None)

    def changed(self, status: Status) -> None:
        """Take a process's state. A task runs once it says so, which is not when its process does: until then it takes
        its id over, and its process waits for nothing any more.
        """
        name, _, task = status.name.rpartition("-")
        if status.state is State.RESTARTING and "[SEMEL_EXPIRED]" in status.reason:
            self._expiries[status.name] = self._expiries.get(status.name, 0) + 1
        if status.state in _STATES and name in self.runs and not self.closed.is_set():
            shown = status.state in (State.UNASSIGNED, State.FAILED)
            trace = status.trace or status.reason or None if shown else None
            self.put(name, int(task), _STATES[status.state], trace)

    def heard(self, process: str, message: Mapping[str, Any]) -> None:
        """Take what a task tells: it has started, and has written to topics."""
        name, _, task = process.rpartition("-")
        known = self._statuses.tasks.get(name, {}).get(int(task))
        if name in self.runs and (known is None or known.state != "RUNNING"):
            self.put(name, int(task), "RUNNING", None)
        if message.get("commits"):
            self._expiries.pop(process, None)
        for topic in message.get("topics", ()):
            self._statuses.put_topic(name, int(task), str(topic))

    def asked(self, process: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a task that wants to start, or was fenced: may it? Raises :class:`Fenced` where another leads."""
        name = process.rpartition("-")[0]
        self._store.check_leader()
        if self._expiries.get(process, 0) >= _MOST_EXPIRIES:
            raise ConfigError(
                f"transactions of {process} expired {_MOST_EXPIRIES} times in a row, with no commit between. Nothing of"
                " them is visible, and the task has stopped. (1) Raise producer.transaction.timeout.ms in the worker's"
                " file, and restart the worker. (2) With transaction.boundary=interval: shorten"
                " transaction.boundary.interval.ms.",
                tag="EXPIRED_AGAIN",
            )
        run = self.runs.get(name)
        return {"wanted": run is not None and run.generation == question["generation"]}

    def put(self, name: str, task: int, state: str, trace: str | None) -> None:
        """Show the state of a task."""
        self._statuses.put_task(name, task, self.state(state, trace))

    def state(self, state: str, trace: str | None = None) -> TaskState:
        """Return a state of something that this worker runs."""
        return TaskState(state, self._config.rest.advertised, trace)
