"""Files of a ``FileSink`` as objects of S3. Each is made where none is, so no task can write what another one wrote.

An object store has no rename, and no folder to claim. The files of a partition are a chain: the name of each is the
offset after the one before it, and its metadata says how far it reaches. A task that was frozen while another one wrote
has the same next name in its hand, and the store refuses the second of the two (``If-None-Match: *``).

What is not promised: a task that is frozen for longer than a file is left where it was written finds its name free.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from semel.connect.connectors.sinks.folder import Mark
from semel.connect.connectors.sinks.objects import Objects
from semel.connect.connectors.sinks.places import PartitionFiles
from semel.connect.sink_api import TopicPartition
from semel.errors import ConfigError, Fenced
from semel.settings import NOTHING

__all__ = ["BucketPlace"]

#: Metadata of an object: the offset after its last record, and the task that made it.
_NEXT, _WRITER = "semel-next-offset", "semel-writer"


class BucketPlace:
    """The objects below a prefix of a bucket. ``settings`` are the connector's."""

    def __init__(self, bucket: str, prefix: str, settings: Mapping[str, Any], extensions: str) -> None:
        self._bucket, self._prefix, self._extensions = bucket, prefix, extensions
        self._objects = Objects(bucket, settings)

    def __str__(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    def owner(self, topic: str) -> Mark | None:
        """Return the mark of a topic's folder."""
        found = self._objects.read(self._owner_key(topic))
        return None if found is None else Mark.parse(found.decode())

    def mark_owner(self, topic: str, mark: Mark) -> Mark | None:
        """Mark a topic's folder, unless it is marked. Return its mark.

        Raises :class:`ConfigError` for a store that makes an object where one is.
        """
        key = self._owner_key(topic)
        self._objects.make(key, mark.text().encode(), {})
        self._objects.check_conditional(key)
        return self.owner(topic)

    def files(self, partition: TopicPartition, extension: str) -> PartitionFiles:
        """Return the files of a partition."""
        topic, index = partition
        folder, start = f"{self._prefix}/{topic}/partition={index}", self._start_key(partition)
        name = re.compile(rf"{re.escape(f'{folder}/{topic}+{index}+')}(\d{{10,}})\.({self._extensions})")
        return _BucketFiles(self._objects, partition, folder, start, name, extension)

    def forget(self, partition: TopicPartition) -> None:
        """Let a partition without files begin at another offset."""
        self._objects.remove(self._start_key(partition))

    def _owner_key(self, topic: str) -> str:
        return f"{self._prefix}/{topic}/.semel/owner"

    def _start_key(self, partition: TopicPartition) -> str:
        return f"{self._prefix}/{partition[0]}/.semel/start-{partition[1]}"


class _Newest(NamedTuple):
    key: str
    first: int
    extension: str


class _BucketFiles:
    """The chain of one partition. ``_at`` is the name of the next file."""

    def __init__(
        self,
        objects: Objects,
        partition: TopicPartition,
        folder: str,
        start: str,
        name: re.Pattern[str],
        extension: str,
    ) -> None:
        self._objects, self._partition, self._folder, self._start = objects, partition, folder, start
        self._name, self._extension, self._writer = name, extension, uuid.uuid4().hex
        self._at = 0

    def open(self, position: int) -> int:
        matches = (self._name.fullmatch(one) for one in self._objects.keys(f"{self._folder}/"))
        files = [_Newest(one[0], int(one[1]), one[2]) for one in matches if one is not None]
        if files:
            newest = max(files, key=lambda one: one.first)
            self._check_format(newest)
            self._at = self._next_of(newest.key)
            return self._at
        # all tasks have one first name, wherever their group had its offset: a skipped record moves it
        self._objects.make(self._start, f"{position}\n{self._extension}\n".encode(), {})
        text = self._objects.read(self._start) or b""
        at, _, rest = text.decode().partition("\n")
        self._check_format(_Newest(self._start, 0, rest.strip()))
        self._at = int(at)
        return 0

    def write(self, first: int, last: int, data: bytes, before: Callable[[], None]) -> None:
        topic, index = self._partition
        key = f"{self._folder}/{topic}+{index}+{self._at:010d}.{self._extension}"
        before()
        said = {_NEXT: str(last + 1), _WRITER: self._writer}
        if not self._objects.make(key, data, said) and self._objects.metadata(key) != said:  # else the answer was lost
            raise Fenced(
                f"another task has written the file of {topic}-{index} from offset {self._at} on. Nothing of this file"
                " was written by this task. Nothing: the task that has the partition writes it.",
                tag="SINK_FENCED",
            )
        self._at = last + 1

    def _next_of(self, key: str) -> int:
        said = self._objects.metadata(key).get(_NEXT, "")
        if not said.isdecimal():
            raise ConfigError(
                f"the object {key:.200} does not say how far it reaches: it has no metadata {_NEXT}. {NOTHING} Copy it"
                " with its metadata, or give the connector another topics.dir.",
                tag="FILE_SINK",
            )
        return int(said)

    def _check_format(self, newest: _Newest) -> None:
        """Refuse another format: a late task of the old one would write under another name."""
        if newest.extension != self._extension:
            raise ConfigError(
                f"{self._partition[0]}-{self._partition[1]} has files of {newest.extension:.20}, and format.class makes"
                f" {self._extension}. {NOTHING} Give the connector another topics.dir, or the format of before.",
                tag="FILE_SINK",
            )
