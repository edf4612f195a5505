"""A sink for the tests: it notes what it is given, one file for each of its tasks, and misbehaves as it is asked to."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from semel.connect import Setting, SinkBatch, SinkConnector, SinkContext, SinkRecord, SinkTask
from semel.errors import Retriable
from semel.serdes.schemas.struct import Struct

#: The value of a record that the task reports, where it is asked to.
UNWANTED = "unwanted"
#: The value after which the task goes back to the first record of the partition, once.
BACK = "back"


class Collecting(SinkConnector):
    """Notes each record in ``folder``."""

    config: ClassVar[Mapping[str, type | Setting]] = {"folder": str, "how": Setting(str, default="")}

    def task(self) -> SinkTask:
        return CollectingTask()

    def alter_offsets(self, config: Mapping[str, Any], offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True


class CollectingTask(SinkTask):
    def start(self, config: Mapping[str, Any], context: SinkContext) -> None:
        self.context, self.how = context, config["how"]
        self.file = Path(config["folder"]) / f"{os.getpid()}.jsonl"
        self.refused: set[int] = set()
        self.went_back = False

    def open(self, partitions: Collection[tuple[str, int]]) -> None:
        self._note({"opened": sorted(partitions)})

    def put(self, batch: SinkBatch) -> None:
        if self.how == "refuse":
            self._note({"refused": batch.start})
            raise Retriable("the target is busy", tag="DATABASE")
        if self.how == "retry" and batch.start not in self.refused:
            self.refused.add(batch.start)
            self.context.timeout(50)
            raise Retriable("the target is busy", tag="DATABASE")
        for record in batch.records():
            if self.how == "report" and record.value == UNWANTED:
                assert self.context.errant_record_reporter is not None
                self.context.errant_record_reporter(record, ValueError("nobody wants it"))
                continue
            self._note(_shown(record))
            if self.how == "rewind" and record.value == BACK and not self.went_back:
                self.went_back = True
                self.context.offset(batch.partition, 0)
        if self.how == "turns":
            self.context.resume(*self.context.assignment)
            self.context.pause(batch.partition)

    def _note(self, noted: Mapping[str, Any]) -> None:
        with self.file.open("a") as file:
            file.write(json.dumps(noted) + "\n")


def _shown(record: SinkRecord) -> dict[str, Any]:
    headers = [[name, None if value is None else value.decode()] for name, value in record.headers]
    place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    key = record.key.decode() if isinstance(record.key, bytes) else record.key
    value = record.value
    if isinstance(value, Struct):
        assert value.schema.fields is not None
        value = {one.name: value[one.name] for one in value.schema.fields}
    return {**place, "key": key, "value": value, "timestamp": record.timestamp, "headers": headers}


def noted(folder: Path) -> list[dict[str, Any]]:
    """Return what the tasks noted, each in its order."""
    texts = [file.read_text() for file in sorted(folder.glob("*.jsonl"))]
    return [json.loads(line) for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the records among it."""
    return [one for one in noted(folder) if "offset" in one]
