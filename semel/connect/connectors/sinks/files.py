"""``FileSink``: each record once in files of JSON lines, CSV or Parquet, by the names of the S3 sink connector.

A file holds the values of one partition from its first offset to its last. It appears whole. A task resumes after the
last file of its partition, whatever its group has committed. What keeps a task that is late from writing, and what a
name says, depends on the place: a folder (``places``), or a bucket of S3 (``bucket``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from semel.connect.api import Setting
from semel.connect.connectors.sinks.bucket import BucketPlace
from semel.connect.connectors.sinks.buffered import BUFFERED, BufferedSinkTask, PartitionTarget, refused
from semel.connect.connectors.sinks.file_formats import FORMATS, FileFormat
from semel.connect.connectors.sinks.folder import Mark
from semel.connect.connectors.sinks.objects import S3, bucket_of, check_client
from semel.connect.connectors.sinks.places import FolderPlace, PartitionFiles, Place, folder_of
from semel.connect.sink_api import SinkConnector, SinkContext, SinkTask, TopicPartition
from semel.errors import ConfigError
from semel.records.codecs import Codec
from semel.settings import NOTHING

__all__ = ["FileSink", "FileSinkTask"]

#: The ends of names, in all formats.
_EXTENSIONS = "|".join(sorted({one.extension for one in FORMATS.values()}))


class FileSink(SinkConnector):
    """Writes values to files."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        "path": Setting(str, documentation="A folder that all tasks reach, as a path or file:///…, or s3://bucket/…"),
        "topics.dir": Setting(str, default="topics", documentation="The folder of all topics, below path."),
        "format.class": Setting(str, default="JsonFormat", one_of=tuple(FORMATS)),
        **BUFFERED,
        **S3,
        "parquet.codec": Setting(str, default="snappy", one_of=tuple(one.name.lower() for one in Codec)),
    }

    def validate(self, config: Mapping[str, Any]) -> None:
        """Refuse a path of another system, and a package that is missing."""
        check_client(config["path"])
        _place(config)

    def task(self) -> SinkTask:
        """Make a task."""
        return FileSinkTask()

    def alter_offsets(self, config: Mapping[str, Any], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Say yes: what was written before a file's end is never written again."""
        place = _place(config)
        for partition in offsets:
            try:
                place.forget(partition)
            except OSError as error:
                raise refused(error) from error
        return True


class FileSinkTask(BufferedSinkTask):
    """Keeps records until a file is full."""

    def start(self, config: Mapping[str, Any], context: SinkContext) -> None:
        """Remember the settings."""
        super().start(config, context)
        self._place = _place(config)

    def target(self, partition: TopicPartition) -> PartitionTarget:
        """Return the files of a partition."""
        made = FORMATS[self._config["format.class"]]
        return _Formatted(self._place.files(partition, made.extension), made, self._config["parquet.codec"])

    def own(self, topics: Collection[str]) -> None:
        """Mark the topics' folders as this connector's. Raise :class:`ConfigError` if one is another's, or has files of
        another topic of its name.
        """
        marks = {topic: Mark(self._config["name"], self._context.topic_ids.get(topic, "")) for topic in sorted(topics)}
        for topic, mark in marks.items():  # mark none if one is another's
            self._check(topic, mark, self._place.owner(topic))
        for topic, mark in marks.items():
            self._check(topic, mark, self._place.mark_owner(topic, mark))

    def _check(self, topic: str, mine: Mark, there: Mark | None) -> None:
        if there is None:
            return
        folder = f"{self._place!s:.150}/{topic:.100}"
        if there.owner != mine.owner:
            raise ConfigError(
                f"the folder {folder} belongs to connector {there.owner!r:.200}. {NOTHING} Give this connector a path"
                " or topics.dir of its own.",
                tag="FILE_SINK_OWNER",
            )
        if there.topic_id and mine.topic_id and there.topic_id != mine.topic_id:
            raise ConfigError(
                f"the folder {folder} has files of another topic of this name: it was made again, or is of another"
                " cluster. Nothing more was written: its records would be taken for those of the files. Give the"
                " connector another topics.dir, or move that folder away.",
                tag="SINK_TOPIC",
            )


class _Formatted:
    """Files of one format."""

    def __init__(self, files: PartitionFiles, made: FileFormat, codec: str) -> None:
        self._files, self._format, self._codec = files, made, codec

    def open(self, position: int) -> int:
        return self._files.open(position)

    def write(self, first: int, last: int, column: Any, field: pa.Field, before: Callable[[], None]) -> None:
        self._files.write(first, last, self._format.data(column, field, self._codec), before)


def _place(config: Mapping[str, Any]) -> Place:
    """Return the folder of all topics. Raise :class:`ConfigError` for a path of another system."""
    topics, bucket = str(config["topics.dir"]), bucket_of(config["path"])
    if bucket is not None:
        return BucketPlace(bucket[0], "/".join(filter(None, (bucket[1], topics))), config, _EXTENSIONS)
    return FolderPlace(folder_of(config["path"]) / topics, _EXTENSIONS)
