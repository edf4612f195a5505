"""``FileStreamSource``: the lines of a growing file, by the names and offsets of Kafka Connect's own.

A line ends with ``\\n``, ``\\r\\n`` or ``\\r``; a last line waits until its end has been written. The source partition
is ``{"filename": file}``, its offset ``{"position": bytes}``. A file that was truncated or replaced while the task runs
stops it. Not seen: a file replaced by a longer one while nothing ran, since the offset knows only a position.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.connect.api import Offset, Partition, Polled, Setting, SourceBatch, SourceConnector, SourceTask, TaskContext
from semel.errors import ConfigError, DataLoss
from semel.records.arrays import joined

__all__ = ["FileStreamSource", "FileStreamSourceTask", "split_lines"]

_NEWLINE, _RETURN = 10, 13
#: Read in one go; more only where one line is longer.
_CHUNK = 4 << 20
_LONGEST_LINE = 64 << 20

#: Text, by its schema. It is not decoded here: the converter checks what it writes as text.
_LINES = pa.schema([pa.field("value", pa.string(), nullable=False)])

_Ints = NDArray[np.int64]


class FileStreamSource(SourceConnector):
    """Reads the lines of one file, in one task."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        "file": str,
        "topic": str,
        "batch.size": Setting(int, default=2000, at_least=1),
    }

    def task(self) -> SourceTask:
        """Make its task."""
        return FileStreamSourceTask()

    def task_class_name(self) -> str:
        """Kafka Connect's own, which resumes where this one stopped."""
        return "org.apache.kafka.connect.file.FileStreamSourceTask"

    def alter_offsets(self, config: Mapping[str, Any], offsets: Sequence[tuple[Partition, Offset]]) -> bool:
        """Check that they are positions in files."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if "position" not in offset:
                raise ValueError("Offset objects should either be null or contain the key 'position'")
            if type(offset["position"]) is not int or offset["position"] < 0:
                raise ValueError("The value for the 'position' key in the offset is expected to be a Long value")
            if "filename" not in partition:
                raise ValueError("Partition objects should contain the key 'filename'")
        return True

    def exactly_once_support(self, config: Mapping[str, Any]) -> bool:
        """Say yes: a position says all of a file."""
        return True


class FileStreamSourceTask(SourceTask):
    """Follows the file."""

    def start(self, config: Mapping[str, Any], context: TaskContext) -> None:
        """Begin where the offset says; the file may come later."""
        self._path, self._topic, self._most = config["file"], config["topic"], config["batch.size"]
        self._partition = {"filename": self._path}
        offset = context.offset(self._partition)
        self._position = _position(offset, self._path)
        self._file = -1
        self._lines: Any = joined([], pa.binary())
        self._ends: _Ints = np.zeros(0, np.int64)
        self._next = 0
        #: How far the file reached when no whole line was there: until it grows, there is none.
        self._seen = -1

    def poll(self) -> Polled:
        """Give the next lines."""
        if self._next == len(self._lines) and not self._read():
            return None
        last = min(self._next + self._most, len(self._lines))
        lines, position = self._lines.slice(self._next, last - self._next), int(self._ends[last - 1])
        self._next = last
        table = pa.Table.from_arrays([lines.view(pa.string())], schema=_LINES)
        return SourceBatch(self._topic, table, self._partition, {"position": position})

    def stop(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read(self) -> bool:
        """Read the next whole lines, if there are any."""
        if self._file < 0 and not self._open():
            return False
        size = os.fstat(self._file).st_size
        if size < self._position:
            raise self._lost("FILE_TRUNCATED", f"it has {size} bytes now, and {self._position} were read")
        length = _CHUNK
        while size > self._position and size != self._seen:
            data = os.pread(self._file, length, self._position)
            lines, ends = split_lines(data)
            if len(lines):
                self._lines, self._ends, self._next = lines, ends + self._position, 0
                self._position += int(ends[-1])
                return True
            if len(data) < length:
                self._seen = size
            elif length >= _LONGEST_LINE:
                raise ConfigError(
                    f"the line of {self._path} at byte {self._position} is longer than {_LONGEST_LINE} bytes. Nothing"
                    " of it was written. Is it a text file?",
                    tag="LINE_TOO_LONG",
                )
            length *= 2
        self._check_not_replaced()
        return False

    def _open(self) -> bool:
        try:
            self._file = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be read: {error.strerror}. Nothing was written. It must be a file that the"
                " executors can read.",
                tag="FILE_UNREADABLE",
            ) from error
        before = os.pread(self._file, 1, self._position - 1) if self._position else b""
        if before and before not in b"\r\n":
            raise self._lost("FILE_REPLACED", f"no line ends at byte {self._position}, up to which it was read")
        return True

    def _check_not_replaced(self) -> None:
        """Ask at the end of the file only: all of its lines are read by then."""
        try:
            there = Path(self._path).stat()
        except FileNotFoundError:  # maybe about to be replaced; what is appended to the old one is still read
            return
        if (there.st_dev, there.st_ino) != (os.fstat(self._file).st_dev, os.fstat(self._file).st_ino):
            raise self._lost("FILE_REPLACED", "another file has its name now")

    def _lost(self, tag: str, what: str) -> DataLoss:
        return DataLoss(
            f"{self._path} was truncated or replaced: {what}. All lines up to the last commit are written; those of an"
            " open interval are not. To read the new file from its beginning, rename it, and set the connector's file"
            " to that path.",
            tag=tag,
        )


def _position(offset: Mapping[str, Any] | None, path: str) -> int:
    if offset is None:
        return 0
    found = offset.get("position")
    if type(found) is not int or found < 0:
        raise DataLoss(
            f"the offset of {path} has {found!r:.100} as its position, which is none. Nothing was read. Another"
            " connector may have used this name: give this one a name of its own.",
            tag="OFFSET_DAMAGED",
        )
    return found


def split_lines(data: bytes) -> tuple[Any, _Ints]:
    """Return the whole lines in ``data`` as a binary array without line ends, and where the next line begins after
    each.

    A ``\\r`` at the very end is not taken for an end yet: a ``\\n`` may follow.
    """
    raw = np.frombuffer(data, np.uint8)
    if b"\r" in data:
        return _split_all(raw)
    ends = np.flatnonzero(raw == _NEWLINE)
    if not len(ends):
        return joined([], pa.binary()), np.zeros(0, np.int64)
    starts = ends - np.arange(len(ends))  # of the next line, once the newlines are gone
    return _lines(starts, data[: ends[-1]].replace(b"\n", b"")), ends + 1


def _split_all(raw: NDArray[np.uint8]) -> tuple[Any, _Ints]:
    """Split lines that end in any of the three ways, as :func:`split_lines` does."""
    newline = raw == _NEWLINE
    returned = np.flatnonzero(raw == _RETURN)
    following = returned[returned + 1 < len(raw)]
    ends = np.union1d(np.flatnonzero(newline), following[~newline[following + 1]])
    if not len(ends):
        return joined([], pa.binary()), np.zeros(0, np.int64)
    whole = raw[: ends[-1] + 1]
    kept = (whole != _NEWLINE) & (whole != _RETURN)
    return _lines(np.cumsum(kept, dtype=np.int32)[ends], whole[kept]), (ends + 1).astype(np.int64)


def _lines(starts: NDArray[Any], data: bytes | NDArray[np.uint8]) -> Any:
    """Return a binary array of values that follow each other. ``starts`` has the start of the next value after each."""
    offsets = np.zeros(len(starts) + 1, np.int32)
    offsets[1:] = starts
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
