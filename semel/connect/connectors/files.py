"""``FilesSource``: the lines of all files that a pattern matches, shared out over tasks, each followed as it grows.

A file is always read by the task that the hash of its path chooses; new ones are looked for every
``directory.poll.interval.ms``. Each has a source partition of its own, ``{"filename": path}``, and the offsets of
``FileStreamSource``. ``format`` is ``lines`` (the line as it is), ``json`` (each line an object, which
becomes a record without a schema) or ``csv`` (a header, then lines whose fields have its names).
"""

from __future__ import annotations

import glob
import io
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv as pacsv

from semel.connect.api import (
    Offset,
    Partition,
    Polled,
    Setting,
    SourceBatch,
    SourceConnector,
    SourceRecord,
    SourceTask,
    TaskContext,
)
from semel.connect.connectors.file import FileStreamSource, FileStreamSourceTask
from semel.errors import ConfigError
from semel.strict_json import read_object

__all__ = ["FilesSource", "FilesSourceTask"]


class FilesSource(SourceConnector):
    """Reads many files."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        "files": Setting(str, documentation="A pattern of paths, as a shell has it: /data/*.log, /data/**/*.csv"),
        "topic": str,
        "format": Setting(str, default="lines", one_of=("lines", "json", "csv")),
        "batch.size": Setting(int, default=2000, at_least=1),
        "directory.poll.interval.ms": Setting(int, default=1000, at_least=0),
    }

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Sequence[Mapping[str, Any]]:
        """Return as many tasks as allowed, because files may come later."""
        return [{**config, "task": number, "tasks": max_tasks} for number in range(max_tasks)]

    def task(self) -> SourceTask:
        """Make a task."""
        return FilesSourceTask()

    def exactly_once_support(self, config: Mapping[str, Any]) -> bool:
        """Say yes: a position says all of a file."""
        return True

    def alter_offsets(self, config: Mapping[str, Any], offsets: Sequence[tuple[Partition, Offset]]) -> bool:
        """Check that they are positions in files."""
        return FileStreamSource().alter_offsets(config, offsets)


class FilesSourceTask(SourceTask):
    """Follows its files in turn."""

    def start(self, config: Mapping[str, Any], context: TaskContext) -> None:
        """Find the files that are there."""
        self._config, self._context = config, context
        self._files: dict[str, FileStreamSourceTask] = {}
        self._headers: dict[str, list[str]] = {}
        #: Where the next lines of each file begin: its first line is a header.
        self._starts: dict[str, int] = {}
        self._order: list[str] = []
        self._looked = float("-inf")
        self._turn = 0
        self._look()

    def poll(self) -> Polled:
        """Give the next lines of the next file that has some."""
        if time.monotonic() - self._looked >= self._config["directory.poll.interval.ms"] / 1000:
            self._look()
        for _ in self._order:
            self._turn = (self._turn + 1) % len(self._order)
            path = self._order[self._turn]
            found = self._files[path].poll()
            if isinstance(found, SourceBatch):
                return self._parsed(path, found)
        return None

    def stop(self) -> None:
        """Close them."""
        for file in getattr(self, "_files", {}).values():
            file.stop()

    def _look(self) -> None:
        self._looked = time.monotonic()
        for path in glob.glob(self._config["files"], recursive=True):  # noqa: PTH207  Path.glob takes no absolute pattern
            mine = zlib.crc32(path.encode(errors="surrogateescape")) % self._config["tasks"] == self._config["task"]
            if mine and path not in self._files and Path(path).is_file():
                file = FileStreamSourceTask()
                file.start(
                    {"file": path, "topic": self._config["topic"], "batch.size": self._config["batch.size"]},
                    self._context,
                )
                self._files[path] = file
                self._starts[path] = (self._context.offset({"filename": path}) or {"position": 0})["position"]
                self._order.append(path)

    def _parsed(self, path: str, batch: SourceBatch) -> Polled:
        kind = self._config["format"].lower()
        start, self._starts[path] = self._starts[path], (batch.offset or {})["position"]
        if kind == "lines":
            return batch
        lines = batch.table.column("value").cast(pa.binary()).to_pylist()  # it may be no text
        if kind == "csv":
            if path not in self._headers:
                self._headers[path] = _header(path)
            lines = lines[1:] if start == 0 else lines
        try:
            if kind == "json":  # what is no text in it is named when it is converted
                values = [read_object(line.decode(errors="surrogateescape")) for line in lines if line.strip()]
                records = [SourceRecord(batch.topic, value, batch.partition, batch.offset) for value in values]
                return records or _empty(batch)
            table = _csv(io.BytesIO(b"\n".join(lines) + b"\n"), self._headers[path]) if lines else None
        except (pa.ArrowInvalid, ValueError) as error:
            raise ConfigError(
                f"a line of {path} before byte {(batch.offset or {})['position']} is not {kind}: {error}. Nothing of it"
                " was written. Correct the file under another name, or read it as lines.",
                tag="NOT_PARSED",
            ) from error
        if table is None:
            return _empty(batch)
        value = table.combine_chunks().to_struct_array()
        if isinstance(value, pa.ChunkedArray):
            value = value.combine_chunks()
        return SourceBatch(batch.topic, pa.table({"value": value}), batch.partition, batch.offset)


def _empty(batch: SourceBatch) -> SourceBatch:
    """Return no records, with the offset of the lines that gave none."""
    return SourceBatch(batch.topic, batch.table.slice(0, 0), batch.partition, batch.offset)


def _header(path: str) -> list[str]:
    with Path(path).open("rb") as file:
        return [str(name) for name in pacsv.read_csv(io.BytesIO(file.readline().rstrip(b"\r\n") + b"\n")).schema.names]


def _csv(data: io.BytesIO, names: list[str]) -> pa.Table:
    """Every field as text: what looks like a number in one batch may not in the next."""
    options = pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    return pacsv.read_csv(data, pacsv.ReadOptions(column_names=names), convert_options=options)
