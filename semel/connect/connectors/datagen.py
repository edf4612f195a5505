"""``DatagenSource``: numbered records, as many and as fast as the settings say. For trying things, and for tests.

Record ``n`` of a task is the same whenever it is made: its source partition is ``{"task": t}``, its offset
``{"next": n}``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.api import Polled, Setting, SourceBatch, SourceConnector, SourceTask, TaskContext

__all__ = ["DatagenSource", "DatagenSourceTask"]

_WAIT_S = 0.5


class DatagenSource(SourceConnector):
    """Makes records of the form ``{"task", "id", "text"}``."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        "topic": str,
        "iterations": Setting(int, default=-1, documentation="How many records each task makes; -1 never ends."),
        "rate": Setting(float, default=0.0, at_least=0, documentation="Records a second and task; 0 is all it can."),
        "batch.size": Setting(int, default=1000, at_least=1),
        "record.size": Setting(int, default=100, at_least=0, documentation="Letters in the text of a record."),
    }

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Sequence[Mapping[str, Any]]:
        """Return as many tasks as allowed."""
        return [{**config, "task": number} for number in range(max_tasks)]

    def task(self) -> SourceTask:
        """Make a task."""
        return DatagenSourceTask()

    def exactly_once_support(self, config: Mapping[str, Any]) -> bool:
        """Say yes: a number says all."""
        return True


class DatagenSourceTask(SourceTask):
    """Counts."""

    def start(self, config: Mapping[str, Any], context: TaskContext) -> None:
        """Resume after the last committed number."""
        self._config, self._task = config, config["task"]
        self._partition = {"task": self._task}
        self._next = self._first = (context.offset(self._partition) or {"next": 0})["next"]
        self._began = time.monotonic()

    def poll(self) -> Polled:
        """Give the next records, as soon as they are due."""
        count = self._config["batch.size"]
        if self._config["iterations"] >= 0:
            count = min(count, self._config["iterations"] - self._next)
        if count <= 0:
            return None
        rate = self._config["rate"]
        if rate:
            due = self._began + (self._next + count - self._first) / rate - time.monotonic()
            if due > _WAIT_S:
                count = min(count, max(1, int(rate * _WAIT_S)))
                due = self._began + (self._next + count - self._first) / rate - time.monotonic()
            time.sleep(max(0.0, due))
        return self._batch(count)

    def _batch(self, count: int) -> SourceBatch:
        ids = pa.array(np.arange(self._next, self._next + count))
        text = pc.utf8_lpad(ids.cast(pa.string()), self._config["record.size"], "x")
        tasks = pa.array(np.full(count, self._task, np.int32))
        self._next += count
        value = pa.StructArray.from_arrays([tasks, ids, text], ["task", "id", "text"])
        return SourceBatch(self._config["topic"], pa.table({"value": value}), self._partition, {"next": self._next})
