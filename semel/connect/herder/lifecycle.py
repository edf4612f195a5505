"""The running tasks of each connector, made equal to what is stored: computed, fenced, started, stopped.

One thread at a time works on one connector. A change of what is stored wakes it, and does not wait for it. A connector
whose code blocks holds up its own thread alone.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from semel.connect.herder.connector_calls import ask_connector, within
from semel.connect.herder.fencing import fence_predecessors, fence_tasks
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.stores.config_format import (
    PAUSED,
    STARTED,
    Record,
    commit_record,
    task_record,
)
from semel.connect.stores.configs import ConfigStore
from semel.connect.stores.own_offsets import ensure_offsets_topic
from semel.connect.stores.statuses import StatusStore, TaskState
from semel.errors import AbortAndRetry, ConfigError, Fenced, Retriable, SemelError
from semel.processes.supervisor import State, Status
from semel.settings import as_text
from semel.steps import HerderStep, reached

__all__ = ["Lifecycle", "Processes"]

log = logging.getLogger("semel.connect")

_SOURCE, _SINK = "semel.connect.tasks.loop:run", "semel.connect.sinks.loop:run"
#: How many connectors are started or stopped at a time.
_AT_A_TIME = 8
#: How many of them are asked for their tasks at a time: each opens what it looks at.
_ASKED_AT_A_TIME = 32
_RETRY_S = 2.0
_MOST_EXPIRIES = 3
_STATES = {State.UNASSIGNED: "UNASSIGNED", State.RESTARTING: "RESTARTING", State.FAILED: "FAILED"}


class Processes(Protocol):
    """The start and stop of processes: a :class:`~semel.processes.supervisor.Supervisor`."""

    def start(self, name: str, entry: str, settings: Mapping[str, Any]) -> None:
        """Keep a process running."""

    def stop(self, graceful_s: float, names: Sequence[str]) -> list[str]:
        """Stop these; the names of those that did not end by themselves."""

    def forget(self, names: Sequence[str]) -> None:
        """Free these names."""


class _Made(NamedTuple):
    """What a connector makes of its configuration: its tasks, and their configurations as they are stored."""

    config: ConnectorConfig
    tasks: list[Mapping[str, Any]]
    stored: list[dict[str, str]]


@dataclass
class _Run:
    """The tasks of one connector that have been started."""

    generation: int
    config: Mapping[str, str]
    tasks: list[Mapping[str, Any]]
    #: Properties of the connector's admin client.
    admin: Mapping[str, str]
    #: Its tasks are members of a consumer group: nothing of them is fenced by an id.
    sink: bool


class Lifecycle:
    """Starts and stops tasks."""

    def __init__(
        self,
        config: WorkerConfig,
        properties: Mapping[str, str],
        store: ConfigStore,
        statuses: StatusStore,
    ) -> None:
        self._config, self._properties = config, dict(properties)
        self._store, self._statuses = store, statuses
        self.processes: Processes
        self._slots = threading.BoundedSemaphore(_AT_A_TIME)
        self._asked = threading.BoundedSemaphore(_ASKED_AT_A_TIME)
        #: What is still to be done for each connector that has a thread.
        self._waiting: dict[str, list[tuple[tuple[int, ...], bool]]] = {}
        self._locks: dict[str, threading.RLock] = {}
        self._guard = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._closed = threading.Event()
        #: How often in a row the transactions of a task have expired.
        self._expiries: dict[str, int] = {}

    def wake(self, name: str, *, tasks: Sequence[int] = (), again: bool = False) -> None:
        """Make what runs equal to what is stored; ``again`` also where it is, and start these tasks again."""
        wanted = tuple(tasks), again
        with self._guard:
            if name not in self._waiting:
                threading.Thread(target=self._work, args=[name], name=f"semel-connect-{name}", daemon=True).start()
                self._waiting[name] = [wanted]  # the thread begins with the guard, and may not have come to be
            elif wanted not in self._waiting[name]:
                self._waiting[name].append(wanted)

    @contextmanager
    def quiet(self, name: str) -> Iterator[None]:
        """Hold a connector as it is, once what is stored of it has come true."""
        with self._lock_of(name):
            self._apply(name, (), False)
            yield

    def close(self) -> None:
        """Stop all tasks, and wait for it.

        A thread that asks a connector meanwhile is not waited for. It does nothing with the answer.
        """
        self._closed.set()
        for _ in range(_AT_A_TIME):
            self._slots.acquire()
        self._slots.release(_AT_A_TIME)
        names = [f"{name}-{task}" for name, run in self._runs.items() for task in range(len(run.tasks))]
        left = set(self.processes.stop(self._config.graceful_timeout_ms / 1000, names))
        for name, run in self._runs.items():
            self._fence_left(name, [task for task in range(len(run.tasks)) if f"{name}-{task}" in left], run)
        self._runs.clear()

    # ---- what processes say

    def changed(self, status: Status) -> None:
        """Take a process's state. A task runs once it says so, which is not when its process does."""
        name, _, task = status.name.rpartition("-")
        if status.state is State.RESTARTING and "[SEMEL_EXPIRED]" in status.reason:
            self._expiries[status.name] = self._expiries.get(status.name, 0) + 1
        if status.state in _STATES and name in self._runs and not self._closed.is_set():
            trace = status.trace or status.reason or None if status.state is not State.RESTARTING else None
            self._put(name, int(task), _STATES[status.state], trace)

    def heard(self, process: str, message: Mapping[str, Any]) -> None:
        """Take what a task tells: it has started, and has written to topics."""
        name, _, task = process.rpartition("-")
        known = self._statuses.tasks.get(name, {}).get(int(task))
        if name in self._runs and (known is None or known.state != "RUNNING"):
            self._put(name, int(task), "RUNNING", None)
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
        run = self._runs.get(name)
        return {"wanted": run is not None and run.generation == question["generation"]}

    # ---- one connector

    def _work(self, name: str) -> None:
        """Do what is to be done for a connector, one after the other."""
        while True:
            with self._guard:
                if not self._waiting[name] or self._closed.is_set():
                    del self._waiting[name]
                    return
                tasks, again = self._waiting[name].pop(0)
            self._work_on(name, tasks, again)

    def _work_on(self, name: str, tasks: tuple[int, ...], again: bool) -> None:
        try:
            with self._lock_of(name):
                while not self._closed.is_set():
                    try:
                        self._apply(name, tasks, again)
                    except (Retriable, AbortAndRetry) as error:
                        log.warning("connector %s waits: %s", name, error)
                        self._closed.wait(_RETRY_S)
                    else:
                        return
        except Fenced as error:
            if not self._closed.is_set():
                log.error("%s", error)  # noqa: TRY400  its message says all
        except BaseException as error:  # this thread must go on: it is the connector's only one
            self._fail(name, error)

    def _apply(self, name: str, again_tasks: Sequence[int], again: bool) -> None:
        config, target = self._store.now.connectors.get(name), self._store.now.targets.get(name, STARTED)
        if config is None:
            with self._slot():
                self._stop(name)
                self._statuses.forget(name)
        elif target != STARTED:
            with self._slot():
                self._stop(name)
                self._show_stopped(name, target)
        else:
            run = self._runs.get(name)
            if run is None or again or run.config != config or (name in self._store.now.pending and not run.sink):
                self._start(name, config, run)
            elif again_tasks:
                with self._slot():
                    self._restart(name, run, again_tasks)

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Start or stop tasks, unless all of them have been stopped for good."""
        with self._slots:
            if self._closed.is_set():
                raise Fenced(
                    "this worker has ended its tasks. Nothing was changed. Ask the worker that leads now.",
                    tag="NOT_LEADER",
                )
            yield

    def _show_stopped(self, name: str, target: str) -> None:
        self._statuses.put_connector(name, self._state(target))
        tasks = self._store.now.tasks.get(name, []) if target == PAUSED else []
        for task in range(len(tasks)):
            self._put(name, task, PAUSED, None)
        self._statuses.forget_tasks(name, len(tasks))

    def _start(self, name: str, raw: Mapping[str, str], run: _Run | None) -> None:
        worker = self._config
        try:
            with self._asked:
                made = within(worker.connector_timeout_ms, name, lambda: _made(raw, worker))
                if made.config.sink is None:
                    ensure_offsets_topic(worker, made.config)
        except (Retriable, AbortAndRetry):
            raise
        except SemelError as error:
            with self._slot():
                if self._is_wanted(name, raw):
                    self._stop(name)
                    self._fail(name, error)
        else:
            with self._slot():
                if self._is_wanted(name, raw):
                    self._start_made(name, raw, run, made)

    def _is_wanted(self, name: str, raw: Mapping[str, str]) -> bool:
        """Return False if it was changed meanwhile. That change has woken its thread again."""
        now = self._store.now
        return now.connectors.get(name) == raw and now.targets.get(name) == STARTED

    def _start_made(self, name: str, raw: Mapping[str, str], run: _Run | None, made: _Made) -> None:
        config, tasks, stored = made
        self._statuses.put_connector(name, self._state("RUNNING"))
        if run is not None and run.config == raw and stored == self._store.now.tasks.get(name):
            return
        self._stop(name)
        self._statuses.forget_tasks(name, len(tasks))
        if not self._write_tasks(name, raw, stored, changed=run is not None):
            return
        if config.sink is None:
            fence_predecessors(self._config, self._store, config, len(tasks))
        generation = self._store.now.generations.get(name, 0)
        sent: list[Mapping[str, Any]] = [_sent(config, task) for task in tasks]
        run = _Run(generation, dict(raw), sent, config.clients.admin, config.sink is not None)
        self._runs[name] = run
        for task in range(len(tasks)):
            self._start_task(name, run, task)

    def _write_tasks(self, name: str, raw: Mapping[str, str], stored: list[dict[str, str]], *, changed: bool) -> bool:
        with self._store.lock:
            now = self._store.now
            if not self._is_wanted(name, raw):
                return False
            if changed or name in now.inconsistent or now.tasks.get(name) != stored:
                records: list[Record] = [task_record(name, task, config) for task, config in enumerate(stored)]
                self._store.write([*records, commit_record(name, len(stored))])
                reached(HerderStep.TASKS_WRITTEN, name)
        return True

    def _start_task(self, name: str, run: _Run, task: int) -> None:
        self._expiries.pop(f"{name}-{task}", None)
        settings = {
            "worker": self._properties,
            "connector": run.config,
            "task": task,
            "generation": run.generation,
            **run.tasks[task],
        }
        self.processes.start(f"{name}-{task}", _SINK if run.sink else _SOURCE, settings)

    def _restart(self, name: str, run: _Run, tasks: Sequence[int]) -> None:
        chosen = [task for task in tasks if task < len(run.tasks)]
        self._end(name, chosen)
        for task in chosen:
            self._put(name, task, "RESTARTING", None)
            self._start_task(name, run, task)

    def _stop(self, name: str) -> None:
        run = self._runs.pop(name, None)
        if run is not None:
            self._fence_left(name, self._end(name, range(len(run.tasks))), run)

    def _fence_left(self, name: str, tasks: list[int], run: _Run) -> None:
        """Fence tasks that did not end by themselves, unless another worker leads: they are its own then."""
        if tasks and not run.sink:
            with suppress(SemelError):
                self._store.check_leader()
                fence_tasks(self._config, name, tasks, run.admin)

    def _end(self, name: str, tasks: Sequence[int]) -> list[int]:
        """End these tasks. Returns those that did not end by themselves."""
        names = [f"{name}-{task}" for task in tasks]
        left = set(self.processes.stop(self._config.graceful_timeout_ms / 1000, names))
        self.processes.forget(names)
        return [task for task in tasks if f"{name}-{task}" in left]

    def _fail(self, name: str, error: BaseException) -> None:
        log.error("connector %s failed: %s", name, error, exc_info=None if isinstance(error, SemelError) else error)
        trace = "".join(traceback.format_exception(error))
        self._statuses.put_connector(name, self._state("FAILED", trace))

    def _put(self, name: str, task: int, state: str, trace: str | None) -> None:
        self._statuses.put_task(name, task, self._state(state, trace))

    def _state(self, state: str, trace: str | None = None) -> TaskState:
        return TaskState(state, self._config.rest.advertised, trace)

    def _lock_of(self, name: str) -> threading.RLock:
        with self._guard:
            return self._locks.setdefault(name, threading.RLock())


def _made(raw: Mapping[str, str], worker: WorkerConfig) -> _Made:
    """Ask a connector for its tasks. All of its own code runs here."""
    config = ConnectorConfig.parse(raw, worker)
    tasks = _tasks(config)
    class_name = ask_connector(config.name, "task_class_name", config.connector.task_class_name)
    return _Made(config, tasks, [_stored(raw, config, class_name, task) for task in tasks])


def _tasks(config: ConnectorConfig) -> list[Mapping[str, Any]]:
    def ask() -> list[Mapping[str, Any]]:
        return [_named(task) for task in config.connector.tasks(config.own, config.max_tasks)]

    tasks = ask_connector(config.name, "tasks", ask)
    if len(tasks) > config.max_tasks:
        raise ConfigError(
            f"connector {config.name!r} has {len(tasks)} tasks, and tasks.max is {config.max_tasks}. Nothing was"
            " started. Raise tasks.max, or correct the connector.",
            tag="TOO_MANY_TASKS",
        )
    return tasks


def _named(task: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(task, Mapping) or not all(isinstance(name, str) for name in task):
        raise TypeError(f"a task's configuration is {type(task).__name__}, and must be a mapping of texts")
    return task


def _own_part(config: ConnectorConfig, task: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Divide a task's configuration into what it copies from the connector's, and its own part."""
    shared = [name for name, value in task.items() if name in config.own and config.own[name] == value]
    return shared, {name: value for name, value in task.items() if name not in shared}


def _sent(config: ConnectorConfig, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of its process. What it takes from the connector's configuration is read where it runs."""
    shared, own = _own_part(config, task)
    return {"shared": shared, "own": own}


def _stored(
    raw: Mapping[str, str], config: ConnectorConfig, class_name: str, task: Mapping[str, Any]
) -> dict[str, str]:
    """Return a task's configuration as Kafka Connect stores it: the connector's properties and its own part."""
    _, own = _own_part(config, task)
    return {
        **raw,
        "task.class": class_name,
        **{name: as_text(one) for name, one in own.items()},
    }
