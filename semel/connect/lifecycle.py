"""The running tasks of each connector, made equal to what is stored: computed, fenced, started, stopped.

One thread at a time works on one connector. A change of what is stored wakes it, and does not wait for it.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from semel.connect.config import WorkerConfig
from semel.connect.connector_config import ConnectorConfig, ask_connector
from semel.connect.definitions import as_text
from semel.connect.fencing import fence_generation, fence_tasks
from semel.connect.leader import Leader
from semel.connect.stores.config_format import (
    PAUSED,
    STARTED,
    Record,
    commit_record,
    count_record,
    task_record,
)
from semel.connect.stores.configs import ConfigStore
from semel.connect.stores.own_offsets import ensure_offsets_topic
from semel.connect.stores.statuses import StatusStore, TaskState
from semel.errors import AbortAndRetry, ConfigError, Fenced, Retriable, SemelError
from semel.runtime.supervisor import State, Status
from semel.steps import HerderStep, reached

__all__ = ["Lifecycle", "Processes"]

log = logging.getLogger("semel.connect")

_ENTRY = "semel.connect.tasks.loop:run"
#: How many connectors are started or stopped at a time.
_THREADS = 8
_RETRY_S = 2.0
_MOST_EXPIRIES = 3
_STATES = {State.UNASSIGNED: "UNASSIGNED", State.RESTARTING: "RESTARTING", State.FAILED: "FAILED"}


class Processes(Protocol):
    """The start and stop of processes: a :class:`~semel.runtime.supervisor.Supervisor`."""

    def start(self, name: str, entry: str, settings: Mapping[str, Any]) -> None:
        """Keep a process running."""

    def stop(self, graceful_s: float, names: Sequence[str]) -> list[str]:
        """Stop these; the names of those that did not end by themselves."""

    def forget(self, names: Sequence[str]) -> None:
        """Free these names."""


@dataclass
class _Run:
    """The tasks of one connector that have been started."""

    generation: int
    config: Mapping[str, str]
    tasks: list[Mapping[str, Any]]
    #: Properties of the connector's admin client.
    admin: Mapping[str, str]


class Lifecycle:
    """Starts and stops tasks."""

    def __init__(
        self,
        config: WorkerConfig,
        properties: Mapping[str, str],
        store: ConfigStore,
        statuses: StatusStore,
        leader: Leader,
    ) -> None:
        self._config, self._properties = config, dict(properties)
        self._store, self._statuses, self._leader = store, statuses, leader
        self.processes: Processes
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="semel-connect")
        self._locks: dict[str, threading.RLock] = {}
        self._guard = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._closed = threading.Event()
        #: How often in a row the transactions of a task have expired.
        self._expiries: dict[str, int] = {}

    def wake(self, name: str, *, tasks: Sequence[int] = (), again: bool = False) -> Future[None]:
        """Make what runs equal to what is stored; ``again`` also where it is, and start these tasks again."""
        return self._pool.submit(self._work, name, tuple(tasks), again)

    @contextmanager
    def quiet(self, name: str) -> Iterator[None]:
        """Hold a connector as it is, once what is stored of it has come true."""
        with self._lock_of(name):
            self._apply(name, (), False)
            yield

    def close(self) -> None:
        """Stop all tasks, and wait for it."""
        self._closed.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
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
        self._leader.check()
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

    def _work(self, name: str, tasks: tuple[int, ...], again: bool) -> None:
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
            log.error("%s", error)  # noqa: TRY400  its message says all
        except Exception as error:
            log.exception("connector %s", name)
            self._fail(name, error)

    def _apply(self, name: str, again_tasks: Sequence[int], again: bool) -> None:
        config, target = self._store.now.connectors.get(name), self._store.now.targets.get(name, STARTED)
        if config is None:
            self._stop(name)
            self._statuses.forget(name)
        elif target != STARTED:
            self._stop(name)
            self._show_stopped(name, target)
        else:
            run = self._runs.get(name)
            if run is None or again or run.config != config or name in self._store.now.pending:
                self._start(name, config, run)
            elif again_tasks:
                self._restart(name, run, again_tasks)

    def _show_stopped(self, name: str, target: str) -> None:
        self._statuses.put_connector(name, self._state(target))
        tasks = self._store.now.tasks.get(name, []) if target == PAUSED else []
        for task in range(len(tasks)):
            self._put(name, task, PAUSED, None)
        self._statuses.forget_tasks(name, len(tasks))

    def _start(self, name: str, raw: Mapping[str, str], run: _Run | None) -> None:
        try:
            config = ConnectorConfig.parse(raw, self._config)
            tasks = _tasks(config)
            ensure_offsets_topic(self._config, config)
        except (Retriable, AbortAndRetry):
            raise
        except SemelError as error:
            self._stop(name)
            self._fail(name, error)
            return
        self._statuses.put_connector(name, self._state("RUNNING"))
        stored = [_stored(raw, config, task) for task in tasks]
        if run is not None and run.config == raw and stored == self._store.now.tasks.get(name):
            return
        self._stop(name)
        self._statuses.forget_tasks(name, len(tasks))
        if not self._write_tasks(name, raw, stored, changed=run is not None):
            return  # it was changed meanwhile, and that change has woken this thread again
        if self._config.exactly_once and name in self._store.now.pending:
            fence_generation(self._config, self._store, config, len(tasks))
            reached(HerderStep.PREDECESSORS_FENCED, name)
            self._store.write([count_record(name, len(tasks))])
            reached(HerderStep.COUNT_WRITTEN, name)
        generation = self._store.now.generations.get(name, 0)
        run = _Run(generation, dict(raw), [_sent(config, task) for task in tasks], config.clients.admin)
        self._runs[name] = run
        for task in range(len(tasks)):
            self._start_task(name, run, task)

    def _write_tasks(self, name: str, raw: Mapping[str, str], stored: list[dict[str, str]], *, changed: bool) -> bool:
        with self._store.lock:
            now = self._store.now
            if now.connectors.get(name) != raw or now.targets.get(name) != STARTED:
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
        self.processes.start(f"{name}-{task}", _ENTRY, settings)

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
        if tasks:
            with suppress(SemelError):
                self._leader.check()
                fence_tasks(self._config, name, tasks, run.admin)

    def _end(self, name: str, tasks: Sequence[int]) -> list[int]:
        """End these tasks. Returns those that did not end by themselves."""
        names = [f"{name}-{task}" for task in tasks]
        left = set(self.processes.stop(self._config.graceful_timeout_ms / 1000, names))
        self.processes.forget(names)
        return [task for task in tasks if f"{name}-{task}" in left]

    def _fail(self, name: str, error: BaseException) -> None:
        trace = "".join(traceback.format_exception(error))
        self._statuses.put_connector(name, self._state("FAILED", trace))

    def _put(self, name: str, task: int, state: str, trace: str | None) -> None:
        self._statuses.put_task(name, task, self._state(state, trace))

    def _state(self, state: str, trace: str | None = None) -> TaskState:
        return TaskState(state, self._config.advertised, trace)

    def _lock_of(self, name: str) -> threading.RLock:
        with self._guard:
            return self._locks.setdefault(name, threading.RLock())


def _tasks(config: ConnectorConfig) -> list[Mapping[str, Any]]:
    tasks = ask_connector(config.name, "tasks", lambda: list(config.connector.tasks(config.own, config.max_tasks)))
    if len(tasks) > config.max_tasks:
        raise ConfigError(
            f"connector {config.name!r} has {len(tasks)} tasks, and tasks.max is {config.max_tasks}. Nothing was"
            " started. Raise tasks.max, or correct the connector.",
            tag="TOO_MANY_TASKS",
        )
    return tasks


def _own_part(config: ConnectorConfig, task: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Divide a task's configuration into what it copies from the connector's, and its own part."""
    shared = [name for name, value in task.items() if name in config.own and config.own[name] == value]
    return shared, {name: value for name, value in task.items() if name not in shared}


def _sent(config: ConnectorConfig, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of its process. What it takes from the connector's configuration is read where it runs."""
    shared, own = _own_part(config, task)
    return {"shared": shared, "own": own}


def _stored(raw: Mapping[str, str], config: ConnectorConfig, task: Mapping[str, Any]) -> dict[str, str]:
    """Return a task's configuration as Kafka Connect stores it: the connector's properties and its own part."""
    _, own = _own_part(config, task)
    return {
        **raw,
        "task.class": config.connector.task_class_name(),
        **{name: as_text(one) for name, one in own.items()},
    }
