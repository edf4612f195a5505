"""Connectors for the tests: one that counts, and one that does not behave."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, ClassVar

from semel.connect import Setting, SourceConnector, SourceRecord, SourceTask, TaskContext


class Numbers(SourceConnector):
    """Counts to a limit, ten numbers a poll, with keys that repeat."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        "topic": str,
        "limit": int,
        "then": Setting(str, default="idle"),
    }

    def task(self) -> SourceTask:
        return NumbersTask()


class NumbersTask(SourceTask):
    def start(self, config: Mapping[str, Any], context: TaskContext) -> None:
        self.config = config
        self.partition = {"name": "numbers", "base": 10}
        self.next = (context.offset(self.partition) or {"next": 0})["next"]

    def poll(self) -> Any:
        first, end = self.next, min(self.next + 10, self.config["limit"])
        self.next = end
        if first < end:
            return [
                SourceRecord(
                    self.config["topic"], str(i), self.partition, {"next": i + 1}, key=f"k{i % 7}", timestamp=1_000 + i
                )
                for i in range(first, end)
            ]
        return self._misbehave(self.config["then"])

    def _misbehave(self, how: str) -> Any:
        if how == "raise":
            raise LookupError("the table is gone")
        if how == "exit":
            raise SystemExit(3)
        if how == "block":
            threading.Event().wait()
        if how == "nonsense":
            return {"value": 1}
        if how == "nested":
            return [SourceRecord(self.config["topic"], "x", self.partition, {"next": {"deep": 1}})]
        return None
