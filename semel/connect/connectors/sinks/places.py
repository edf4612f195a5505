"""Where the files of a ``FileSink`` are: the folder of all topics, on a file system or in a bucket.

A place keeps the owner of each topic's folder, and gives the files of a partition to the task that takes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from semel.connect.connectors.sinks.folder import Folder, Mark, mark_owner, owner
from semel.connect.sink_api import TopicPartition
from semel.errors import ConfigError, Fenced
from semel.settings import NOTHING

__all__ = ["FolderPlace", "PartitionFiles", "Place", "folder_of"]


def folder_of(path: str) -> Path:
    """Return the folder that a path names. Raise :class:`ConfigError` for one of another system."""
    url = urlsplit(path)
    folder = Path(unquote(url.path) if url.scheme == "file" else path)
    if url.scheme not in ("", "file") or url.netloc or not folder.is_absolute():
        raise ConfigError(
            f"path={path!s:.200} is no folder that this sink writes to. {NOTHING} Give an absolute path, or file:///…,"
            " of a file system that all tasks reach, or s3://bucket/prefix.",
            tag="FILE_SINK",
        )
    return folder


class PartitionFiles(Protocol):
    """The files of one partition, as one task writes them."""

    def open(self, position: int) -> int:
        """Take the partition over from other tasks. Return the offset after its last file, or 0.

        ``position`` is where the group reads from.
        """

    def write(self, first: int, last: int, data: bytes, before: Callable[[], None]) -> None:
        """Write the file of these offsets, once, whole. ``before`` is called when only its name is missing.

        Raises :class:`Fenced` if another task has the partition, and ``OSError`` if it may be tried again.
        """


class Place(Protocol):
    """The folder of all topics."""

    def owner(self, topic: str) -> Mark | None:
        """Return the mark of a topic's folder."""

    def mark_owner(self, topic: str, mark: Mark) -> Mark | None:
        """Mark a topic's folder, unless it is marked. Return its mark."""

    def files(self, partition: TopicPartition, extension: str) -> PartitionFiles:
        """Return the files of a partition."""

    def forget(self, partition: TopicPartition) -> None:
        """Let a partition without files begin at another offset."""


class FolderPlace:
    """A folder that all tasks reach."""

    def __init__(self, path: Path, extensions: str) -> None:
        self._path, self._extensions = path, extensions

    def __str__(self) -> str:
        return str(self._path)

    def owner(self, topic: str) -> Mark | None:
        """Return the mark of a topic's folder."""
        return owner(self._path / topic)

    def mark_owner(self, topic: str, mark: Mark) -> Mark | None:
        """Mark a topic's folder, unless it is marked. Return its mark."""
        return mark_owner(self._path / topic, mark)

    def files(self, partition: TopicPartition, extension: str) -> PartitionFiles:
        """Return the files of a partition."""
        topic, index = partition
        return _FolderFiles(Folder(self._path / topic / f"partition={index}"), partition, extension, self._extensions)

    def forget(self, partition: TopicPartition) -> None:
        """Do nothing: the names of files say all."""


class _FolderFiles:
    """Files whose names are their first and last offset. The claim of the folder keeps other tasks out."""

    def __init__(self, folder: Folder, partition: TopicPartition, extension: str, extensions: str) -> None:
        self._folder, self._partition, self._extension = folder, partition, extension
        topic, index = partition
        self._name = re.compile(rf"{re.escape(topic)}\+{index}\+(\d{{10,}})\+(\d{{10,}})\.(?:{extensions})")

    def open(self, position: int) -> int:
        self._folder.claim()
        return max((last + 1 for _, last in self._ranges()), default=0)

    def write(self, first: int, last: int, data: bytes, before: Callable[[], None]) -> None:
        topic, index = self._partition
        others = [one for one in self._ranges() if one[1] >= first]
        if others and others != [(first, last)]:
            raise Fenced(
                f"{topic}-{index} has files of other offsets from {first} on than this task has. Nothing of this file"
                " was written by this task. Nothing: the task that has the partition writes it.",
                tag="SINK_FENCED",
            )
        if others:
            return
        try:
            self._folder.write(f"{topic}+{index}+{first:010d}+{last:010d}.{self._extension}", data, before)
        except FileNotFoundError as error:
            if not self._folder.lost():
                raise
            raise Fenced(
                f"another task has claimed the folder of {topic}-{index}. Nothing of this file was written by this"
                " task. Nothing: the task that has the partition writes it.",
                tag="SINK_FENCED",
            ) from error

    def _ranges(self) -> list[tuple[int, int]]:
        """Return the first and the last offset of each file."""
        matches = (self._name.fullmatch(one) for one in self._folder.names())
        return [(int(one[1]), int(one[2])) for one in matches if one is not None]
