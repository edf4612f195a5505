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
                    self.config["topic"],
                    str(i),
                    self.partition,
                    {"next": i + 1},
                    key=f"k{i % 7}",
                    timestamp=1_000 + i,
                    headers=[("number", str(i)), ("raw", b"\xff"), ("none", None)],
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


class Chosen(SourceConnector):
    """Counts to a limit, ten numbers a poll, and says itself where its transactions end: behind each seventh number,
    and at once behind those that it discards.
    """

    config: ClassVar[Mapping[str, type | Setting]] = {"topic": str, "limit": int}

    def task(self) -> SourceTask:
        return ChosenTask()

    def exactly_once_support(self, config: Mapping[str, Any]) -> bool:
        return True

    def can_define_transaction_boundaries(self, config: Mapping[str, Any]) -> bool:
        return True


class ChosenTask(SourceTask):
    def start(self, config: Mapping[str, Any], context: TaskContext) -> None:
        self.config, self.transaction = config, context.transaction
        self.next = (context.offset({"id": "chosen"}) or {"next": 0})["next"]

    def poll(self) -> Any:
        records = []
        assert self.transaction is not None
        for number in range(self.next, min(self.next + 10, self.config["limit"])):
            record = SourceRecord(self.config["topic"], str(number), {"id": "chosen"}, {"next": number + 1})
            records.append(record)
            if number % 7 == 6:
                discarded = number % 21 == 20
                (self.transaction.abort_transaction if discarded else self.transaction.commit_transaction)(record)
        self.next += len(records)
        return records


class Forgetful(Numbers):
    """A connector that keeps its offset in memory alone: after a crash it begins again."""

    def task(self) -> SourceTask:
        return ForgetfulTask()


class ForgetfulTask(NumbersTask):
    def start(self, config: Mapping[str, Any], context: TaskContext) -> None:
        super().start(config, TaskContext(lambda _: None))


class Stuck(Numbers):
    """A connector whose tasks, or whose constructor, do not come before they are let go; or which ends its thread."""

    config: ClassVar[Mapping[str, type | Setting]] = {**Numbers.config, "how": Setting(str, default="block")}
    let_go = threading.Event()

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Any:
        if config["how"] == "exit":
            raise SystemExit(3)
        if config["how"] == "interrupt":
            raise KeyboardInterrupt
        if config["how"] == "nonsense":
            return [3]
        self.let_go.wait()
        return [config]


class StuckAtOnce(Numbers):
    def __init__(self) -> None:
        Stuck.let_go.wait()


class Guarded(Numbers):
    """A connector that has a secret."""

    config: ClassVar[Mapping[str, type | Setting]] = {**Numbers.config, "token": Setting(str, secret=True)}

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Any:
        if "${" in config["token"]:
            raise ValueError("the variable stands for nothing here")
        if config["then"] == "raise in tasks":
            raise LookupError("the table is gone")
        return [{**config, "part": 1}]


class Announced(Numbers):
    """A connector that says when one of it is made."""

    made = threading.Event()

    def __init__(self) -> None:
        self.made.set()
