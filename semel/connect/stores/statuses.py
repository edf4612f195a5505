"""The status topic: the state of each connector and task, byte for byte as Kafka Connect's JsonConverter writes it.

Only REST reads it, so a background thread writes it, without a transaction. What a former worker left is read once. If
there is no topic, all of it is kept in memory.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from semel._version import __version__
from semel.connect.stores.config_format import as_json
from semel.connect.stores.internal_topics import record_table
from semel.errors import SemelError
from semel.read.raw_log import LogRecord, read_raw
from semel.records.encode import encode
from semel.records.partitioner import partition_of
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.api.produce import Appender
from semel.wire.client import Client

__all__ = ["StatusStore", "TaskState"]

log = logging.getLogger("semel.connect")


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a connector or of a task, in Kafka Connect's words."""

    state: str
    worker_id: str
    trace: str | None = None

    def shown(self) -> dict[str, Any]:
        """Return the form that REST shows."""
        made: dict[str, Any] = {"state": self.state, "worker_id": self.worker_id, "version": __version__}
        return made if self.trace is None else {**made, "trace": self.trace}


class StatusStore:
    """The states of all connectors and tasks, and the topics that a connector has written to."""

    def __init__(self, client: Client, topic: str | None) -> None:
        self._client, self.topic = client, topic
        self._lock = threading.Lock()
        self.connectors: dict[str, TaskState] = {}
        self.tasks: dict[str, dict[int, TaskState]] = {}
        self.topics: dict[str, dict[str, None]] = {}
        self._left: set[bytes] = set()
        self._queue: SimpleQueue[tuple[bytes, bytes | None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Read which records are there, and begin to write."""
        if self.topic is None:
            return
        known = self._client.refresh({self.topic}).topics[self.topic]
        self._partitions, self._topic_id = len(known.partitions), known.id
        deadline = self._client.deadline()
        wanted = {(self.topic, index): LATEST for index in known.partitions}
        ends = list_offsets(self._client, wanted, read_committed=False, deadline=deadline)
        for partition, end in ends.items():
            for record in read_raw(self._client, partition, end.offset, deadline):
                if isinstance(record, LogRecord) and record.key is not None:
                    (self._left.discard if record.value is None else self._left.add)(record.key)
        self._thread = threading.Thread(target=self._write_all, name="semel-connect-status", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is due, and stop."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(10)

    # ---- states

    def put_connector(self, name: str, state: TaskState) -> None:
        """Keep the state of a connector."""
        with self._lock:
            self.connectors[name] = state
            self._put(f"status-connector-{name}", state)

    def put_task(self, name: str, task: int, state: TaskState) -> None:
        """Keep the state of a task."""
        with self._lock:
            self.tasks.setdefault(name, {})[task] = state
            self._put(f"status-task-{name}-{task}", state)

    def put_topic(self, name: str, task: int, topic: str) -> None:
        """Note that a connector has written to a topic."""
        with self._lock:
            if topic not in self.topics.setdefault(name, {}):
                self.topics[name][topic] = None
                found = {"name": topic, "connector": name, "task": task, "discoverTimestamp": int(time.time() * 1000)}
                self._queue.put((f"status-topic-{topic}:connector-{name}".encode(), as_json({"topic": found})))

    def reset_topics(self, name: str) -> None:
        """Forget which topics it has written to."""
        with self._lock:
            for topic in self.topics.pop(name, {}):
                self._queue.put((f"status-topic-{topic}:connector-{name}".encode(), None))

    def forget_tasks(self, name: str, first: int = 0) -> None:
        """Forget the tasks from this number on, those that a former worker left too."""
        with self._lock:
            for task in [task for task in self.tasks.get(name, {}) if task >= first]:
                del self.tasks[name][task]
                self._queue.put((f"status-task-{name}-{task}".encode(), None))
            stem = f"status-task-{name}-".encode()
            for key in [key for key in self._left if key.startswith(stem) and key[len(stem) :].isdigit()]:
                self._left.discard(key)
                if int(key[len(stem) :]) >= first and int(key[len(stem) :]) not in self.tasks.get(name, {}):
                    self._queue.put((key, None))

    def forget(self, name: str) -> None:
        """Forget a connector that was deleted."""
        self.forget_tasks(name)
        self.reset_topics(name)
        with self._lock:
            self.tasks.pop(name, None)
            if self.connectors.pop(name, None) is not None:
                self._queue.put((f"status-connector-{name}".encode(), None))

    def shown(
        self, name: str, stored: Mapping[int, TaskState] | None = None, kind: str = "source"
    ) -> dict[str, Any] | None:
        """Return the state of a connector of this kind for REST, or None if it is unknown. ``stored`` are the states of
        its tasks until they have others.
        """
        with self._lock:
            found = {**(stored or {}), **self.tasks.get(name, {})}
            connector = self.connectors.get(name) or (stored or {}).get(0)
        if connector is None:
            return None
        return {
            "name": name,
            "connector": connector.shown(),
            "tasks": [{"id": task, **state.shown()} for task, state in sorted(found.items())],
            "type": kind,
        }

    def _put(self, key: str, state: TaskState) -> None:
        made: Mapping[str, Any] = {
            "state": state.state,
            "trace": state.trace,
            "worker_id": state.worker_id,
            "generation": 0,
            "version": __version__,
        }
        self._queue.put((key.encode(), as_json(made)))

    # ---- the thread that writes

    def _write_all(self) -> None:
        while True:
            found = self._queue.get()
            due: dict[bytes, bytes | None] = {}
            while found is not None:  # of several states of one task only the last one is written
                due[found[0]] = found[1]
                if self._queue.empty():
                    break
                found = self._queue.get()
            try:
                self._write(due)
            except SemelError as error:
                log.warning("states were not written to %s; REST shows them all the same: %s", self.topic, error)
            if found is None:
                return

    def _write(self, due: Mapping[bytes, bytes | None]) -> None:
        assert self.topic is not None
        placed: dict[int, list[bytes]] = {}
        for key in due:
            placed.setdefault(partition_of(key, self._partitions), []).append(key)
        appender = Appender(self._client, {self.topic: self._topic_id})
        for index, keys in placed.items():
            rows = record_table(keys, [due[key] for key in keys], [0] * len(keys))
            appender.submit(((self.topic, index), batch) for batch in encode(rows, where=self.topic))
        appender.flush()
