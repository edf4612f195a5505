"""The records of the config topic, byte for byte as Kafka Connect's JsonConverter writes them, and what they amount to.

A text as the key, JSON without blanks as the value. What a connector's tasks are counts from its commit record on: the
task records before it are kept apart until then, and a set with gaps is inconsistent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "PAUSED",
    "STARTED",
    "STOPPED",
    "Configs",
    "Record",
    "as_json",
    "commit_record",
    "connector_record",
    "count_record",
    "session_key_record",
    "target_record",
    "task_record",
]

Record = tuple[bytes, bytes | None]
STARTED, PAUSED, STOPPED = "STARTED", "PAUSED", "STOPPED"


def as_json(value: Mapping[str, Any]) -> bytes:
    """JSON without blanks, with nothing escaped but what JSON must."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def connector_record(name: str, config: Mapping[str, str] | None) -> Record:
    """Return the record of a connector's configuration. None deletes it."""
    return f"connector-{name}".encode(), None if config is None else as_json({"properties": dict(config)})


def task_record(name: str, task: int, config: Mapping[str, str]) -> Record:
    """One task's configuration, which counts from the next commit record on."""
    return f"task-{name}-{task}".encode(), as_json({"properties": dict(config)})


def commit_record(name: str, tasks: int) -> Record:
    """From here on the connector has so many tasks."""
    return f"commit-{name}".encode(), as_json({"tasks": tasks})


def target_record(name: str, state: str | None) -> Record:
    """Return the record of the state that the user wants. Older workers know no STOPPED, and read PAUSED."""
    old = PAUSED if state == STOPPED else state
    return f"target-state-{name}".encode(), None if state is None else as_json({"state": old, "state.v2": state})


def count_record(name: str, tasks: int) -> Record:
    """So many ids were in use by the newest generation: those before it are fenced."""
    return f"tasks-fencing-{name}".encode(), as_json({"task-count": tasks})


def session_key_record(key: str, created_ms: int) -> Record:
    """Return the record of a session key: a leader's claim, which Kafka Connect takes for its own kind (KIP-507)."""
    return b"session-key", as_json({"key": key, "algorithm": "HmacSHA256", "creation-timestamp": created_ms})


@dataclass
class Configs:
    """The contents of a config topic, record by record."""

    connectors: dict[str, dict[str, str]] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    #: Of each connector whose tasks are complete.
    tasks: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    #: Connectors whose newest tasks may not start before their predecessors are fenced.
    pending: set[str] = field(default_factory=set)
    inconsistent: set[str] = field(default_factory=set)
    generations: dict[str, int] = field(default_factory=dict)
    _deferred: dict[str, dict[int, dict[str, str]]] = field(default_factory=dict)

    def same_as(self, other: Configs) -> bool:
        """Return True if the connectors are the same, and their tasks."""
        return self._of_connectors() == other._of_connectors()

    def _of_connectors(self) -> dict[str, tuple[object, ...]]:
        """Return all that counts of each connector. Compaction leaves more or less of those that were deleted."""
        return {
            name: (
                config,
                self.targets.get(name),
                self.tasks.get(name),
                self.counts.get(name),
                name in self.pending,
                name in self.inconsistent,
            )
            for name, config in self.connectors.items()
        }

    def after(self, records: Sequence[Record]) -> Configs:
        """Return the contents once these records are applied, too."""
        made = deepcopy(self)
        for key, value in records:
            made.apply(key, value)
        return made

    def apply(self, key: bytes | None, value: bytes | None) -> bool:
        """Take one record. Returns False for one that says nothing known."""
        try:
            text = (key or b"").decode()
            found = None if value is None else json.loads(value)
            return self._apply(text, found)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return False

    def _apply(self, key: str, value: Any) -> bool:
        kind, name = next(((kind, key[len(kind) :]) for kind in _KINDS if key.startswith(kind)), ("", ""))
        if kind == "connector-":
            self._take_connector(name, value)
        elif kind == "target-state-":
            self._take_target(name, value)
        elif kind == "task-" and value is not None and "-" in name:
            name, _, number = name.rpartition("-")
            task, config = int(number), _properties(value)
            self._deferred.setdefault(name, {})[task] = config
        elif kind == "commit-" and value is not None:
            self._commit(name, int(value["tasks"]))
        elif kind == "tasks-fencing-" and value is not None:
            self.counts[name] = int(value["task-count"])
            self.pending.discard(name)
        else:
            return key == "session-key" or key.startswith(("restart-connector-", "logger-cluster-"))
        return True

    def _take_connector(self, name: str, value: Any) -> None:
        if value is None:
            for kept in (self.connectors, self.targets, self.tasks, self._deferred):
                kept.pop(name, None)
        else:
            self.connectors[name] = _properties(value)
            self.targets.setdefault(name, STARTED)

    def _take_target(self, name: str, value: Any) -> None:
        if value is None:
            self.targets.pop(name, None)
        else:
            self.targets[name] = str(value.get("state.v2") or value["state"])

    def _commit(self, name: str, count: int) -> None:
        given = self._deferred.get(name, {})
        if any(number not in given for number in range(count)):
            self.inconsistent.add(name)
            return
        self.tasks[name] = [given[number] for number in range(count)]
        self._deferred.pop(name, None)
        self.inconsistent.discard(name)
        self.pending.add(name)
        self.generations[name] = self.generations.get(name, 0) + 1


#: Longer ones first where one begins like another.
_KINDS = ("connector-", "tasks-fencing-", "target-state-", "task-", "commit-")


def _properties(value: Any) -> dict[str, str]:
    return {str(name): str(one) for name, one in value["properties"].items() if one is not None}
