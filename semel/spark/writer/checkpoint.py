"""Spark's checkpoint, read from its files: the planning process of a data source has no session to ask.

Spark writes ``offsets/N`` before it plans batch N, and ``commits/N`` after the sink has committed it. The form of the
files is Spark's own, of its versions 1 and 2. Not promised: checkpoints on a file system that ``pyarrow.fs`` does not
reach, which are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pyarrow import fs

from semel.errors import ConfigError
from semel.spark.jvm.offset_log import parse_offset_log
from semel.spark.jvm.values import OffsetLogEntry, SourceInfo
from semel.spark.sink.micro_batch import SourceBatch, not_logged, position, source_batch, texts_of
from semel.transaction.progress.record import Source

__all__ = ["Checkpoint"]

#: What Spark's users write, and what pyarrow calls it.
_SCHEMES = {"s3a": "s3", "s3n": "s3"}
_NO_CLIENT = "HDFS needs Hadoop's native client (libhdfs), and JAVA_HOME and CLASSPATH as in pyarrow's page on HDFS"


class Checkpoint:
    """The checkpoint of a streaming query. Reads at each call. ``location`` is a path or a URI."""

    def __init__(self, location: str) -> None:
        self._location = location
        try:
            self._files, self._root = fs.FileSystem.from_uri(_uri(location))
        except (OSError, ValueError) as error:
            if location.startswith("hdfs:") and "Unable to load" in str(error):
                raise self._unreadable(_NO_CLIENT) from None
            raise self._unreadable(f"{type(error).__name__}: {error}") from None

    def query(self) -> str:
        """Return the id of the query."""
        text = self._read("metadata")
        try:
            return str(json.loads(text or "")["id"])
        except (ValueError, KeyError, TypeError):
            raise self._unreadable("there is no file metadata with the query's id") from None

    def batch(self) -> int:
        """Return the number of the batch at hand: the newest of the offset log."""
        numbers = [int(name) for name in self._names("offsets") if name.isdecimal()]
        if not numbers:
            raise self._unreadable("its folder offsets has no batch")
        return max(numbers)

    def stateful(self) -> bool:
        """Return whether the query keeps state: Spark describes it there before it runs the first batch."""
        return any(name.isdecimal() for name in self._names("state"))

    def sources(self, batch: int) -> tuple[SourceBatch, ...]:
        """Return the sources of a batch, where it starts and ends."""
        end = self._entry(batch)
        before = self._entry(batch - 1) if batch > 0 else None
        if end is None or (before is None and batch > 0):
            raise not_logged(self._location, batch if end is None else batch - 1)
        infos = _infos(end)
        starts = texts_of(before, infos) if before is not None else (None,) * len(infos)
        ends = texts_of(end, infos)
        return tuple(
            source_batch(info, batch, start, text) for info, start, text in zip(infos, starts, ends, strict=True)
        )

    def ends(self, batch: int) -> tuple[Source | None, ...] | None:
        """Return where a batch ended, by source. None if the log does not have it any more."""
        entry = self._entry(batch)
        if entry is None:
            return None
        infos = _infos(entry)
        return tuple(
            position(info, text, f"offsets/{batch}") for info, text in zip(infos, texts_of(entry, infos), strict=True)
        )

    def _entry(self, batch: int) -> OffsetLogEntry | None:
        text = self._read(f"offsets/{batch}")
        if text is None:
            return None
        return parse_offset_log(text, f"offsets/{batch}")

    def _read(self, name: str) -> str | None:
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as file:
                return bytes(file.read()).decode()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(f"{name}: {error}") from None

    def _names(self, folder: str) -> list[str]:
        try:
            files = self._files.get_file_info(fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True))
        except OSError as error:
            raise self._unreadable(f"{folder}: {error}") from None
        return [file.base_name for file in files]

    def _unreadable(self, why: str) -> ConfigError:
        return ConfigError(
            f"the checkpoint {self._location} cannot be read by the sink: {why:.300}. Nothing was written. Give"
            " checkpointLocation with its scheme (file:, hdfs:, s3a:, gs:), where the driver's Python can read it, or"
            " use semel.spark.KafkaSink.",
            tag="CHECKPOINT_UNREADABLE",
        )


def _uri(location: str) -> str:
    scheme, colon, rest = location.partition("://")
    if colon:
        return f"{_SCHEMES.get(scheme, scheme)}://{rest}"
    return str(Path(location.removeprefix("file:")).absolute())


def _infos(entry: OffsetLogEntry) -> tuple[SourceInfo, ...]:
    """Return the sources of an entry: semel's own are known by their text."""
    return tuple(
        SourceInfo(None if key.isdecimal() else key, key, ours=_is_ours(text)) for key, text in entry.offsets.items()
    )


def _is_ours(text: str | None) -> bool:
    try:
        value: Mapping[str, object] = json.loads(text or "")
        return {"v", "cluster", "topics"} <= value.keys()
    except (ValueError, AttributeError):
        return False
