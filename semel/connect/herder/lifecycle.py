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
from typing import Any, Protocol

from semel.connect.herder.connector_calls import within
from semel.connect.herder.fencing import fence_predecessors, fence_tasks
from semel.connect.herder.made_tasks import MadeTasks, make_tasks, sent
from semel.connect.herder.reports import Reports, Run
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
from semel.connect.stores.statuses import StatusStore
from semel.errors import AbortAndRetry, Fenced, Retriable, SemelError
from semel.processes.supervisor import State
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
        self.reports = Reports(config, store, statuses)
        self._runs, self._closed = self.reports.runs, self.reports.closed

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
        self._statuses.put_connector(name, self.reports.state(target))
        tasks = self._store.now.tasks.get(name, []) if target == PAUSED else []
        for task in range(len(tasks)):
            self.reports.put(name, task, PAUSED, None)
        self._statuses.forget_tasks(name, len(tasks))

    def _start(self, name: str, raw: Mapping[str, str], run: Run | None) -> None:
        worker = self._config
        try:
            with self._asked:
                made = within(worker.connector_timeout_ms, name, lambda: make_tasks(raw, worker))
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

    def _start_made(self, name: str, raw: Mapping[str, str], run: Run | None, made: MadeTasks) -> None:
        config, tasks, stored = made
        self._statuses.put_connector(name, self.reports.state("RUNNING"))
        if run is not None and run.config == raw and stored == self._store.now.tasks.get(name):
            return
        self._stop(name)
        self._statuses.forget_tasks(name, len(tasks))
        if not self._write_tasks(name, raw, stored, changed=run is not None):
            return
        if config.sink is None:
            fence_predecessors(self._config, self._store, config, len(tasks))
        generation = self._store.now.generations.get(name, 0)
        arguments: list[Mapping[str, Any]] = [sent(config, task) for task in tasks]
        run = Run(generation, dict(raw), arguments, config.clients.admin, config.sink is not None)
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

    def _start_task(self, name: str, run: Run, task: int) -> None:
        self.reports.begin(f"{name}-{task}")
        settings = {
            "worker": self._properties,
            "connector": run.config,
            "task": task,
            "generation": run.generation,
            **run.tasks[task],
        }
        self.processes.start(f"{name}-{task}", _SINK if run.sink else _SOURCE, settings)

    def _restart(self, name: str, run: Run, tasks: Sequence[int]) -> None:
        chosen = [task for task in tasks if task < len(run.tasks)]
        self._end(name, chosen)
        for task in chosen:
            self.reports.put(name, task, "RESTARTING", None)
            self._start_task(name, run, task)

    def _stop(self, name: str) -> None:
        run = self._runs.pop(name, None)
        if run is not None:
            self._fence_left(name, self._end(name, range(len(run.tasks))), run)

    def _fence_left(self, name: str, tasks: list[int], run: Run) -> None:
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
        self._statuses.put_connector(name, self.reports.state("FAILED", trace))

    def _lock_of(self, name: str) -> threading.RLock:
        with self._guard:
            return self._locks.setdefault(name, threading.RLock())
