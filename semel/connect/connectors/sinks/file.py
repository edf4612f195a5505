"""``FileStreamSink``: each value as a line of one file, at least once, as Kafka Connect's own does it.

Lines are appended, and flushed before their offsets are committed. After a crash the lines since the last commit come
again. Without a file they go to the standard output of the task.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from io import FileIO
from typing import Any, ClassVar

from semel.connect.api import Setting
from semel.connect.sink_api import SinkBatch, SinkConnector, SinkContext, SinkTask, TopicPartition
from semel.errors import ConfigError
from semel.serdes.columns import is_json, whole
from semel.serdes.java_value import java_string
from semel.serdes.text import write_text

__all__ = ["FileStreamSink", "FileStreamSinkTask"]


class FileStreamSink(SinkConnector):
    """Appends values to one file."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        "file": Setting(str, None, documentation="The file; the standard output of the task without one.")
    }

    def task(self) -> SinkTask:
        """Make a task."""
        return FileStreamSinkTask()

    def task_class_name(self) -> str:
        """Kafka Connect's own, which continues where this one stopped."""
        return "org.apache.kafka.connect.file.FileStreamSinkTask"

    def alter_offsets(self, config: Mapping[str, Any], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Say yes: only the group keeps offsets."""
        return True


class FileStreamSinkTask(SinkTask):
    """Appends values to its file."""

    def start(self, config: Mapping[str, Any], context: SinkContext) -> None:
        """Open the file."""
        self._opened, path = ExitStack(), config["file"]
        try:
            file = None if path is None else self._opened.enter_context(FileIO(path, "ab"))
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be written: {error.strerror}. Nothing was written. Correct the property file.",
                tag="FILE_SINK",
            ) from error
        self._file, self._own = file or sys.stdout.buffer, file is not None

    def put(self, batch: SinkBatch) -> None:
        """Append a line for each record."""
        for table in batch.tables:
            self._file.write(b"".join(line + b"\n" for line in _lines(table)))

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Bring all lines to the disk."""
        self._file.flush()
        if self._own:
            os.fsync(self._file.fileno())

    def stop(self) -> None:
        """Close the file."""
        self._opened.close()


def _lines(table: Any) -> list[bytes]:
    """Return each value as Java shows it."""
    column = whole(table["value"])
    if is_json(column.type):
        values = [None if one is None else json.loads(one) for one in column.storage.to_pylist()]
        return [b"null" if one is None else java_string(None, one).encode() for one in values]
    return [b"null" if one is None else one for one in write_text(column).to_pylist()]
