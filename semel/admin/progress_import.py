"""Offsets in a checkpoint of Spark's own ``kafka`` source: the positions where a query that moves to semel must
continue (``semel progress import``).

Spark writes ``offsets/N`` before batch N runs, and ``commits/N`` when it is done. So everything below the ends of the
newest *committed* batch was written. The rows between these and the ends of the newest *planned* batch may have been
written, in part or whole, by a sink that is at-least-once. Before its first commit, a query is at its first offsets,
``sources/<number>/0``.

The files are read as text from a local folder: Spark is not needed. Not promised: that the topics are the same ones
(these offsets hold no topic ids), and that the query is stopped: call :func:`read` again, and compare.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from semel.errors import ConfigError
from semel.strict_json import read_object

__all__ = ["KafkaCheckpoint", "SourceEnd", "read"]

#: The text in place of an offset, for a source that has none yet.
_NONE = "-"
_VERSIONS = ("v1", "v2")

Offsets = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """A source: the next offset to read of each partition, and the planned end of the batch that was not committed.

    ``name`` is set if the query names its sources. ``planned`` is ``next`` if no batch was left unfinished.
    """

    next: Offsets
    planned: Offsets
    name: str | None = None


@dataclass(frozen=True, slots=True)
class KafkaCheckpoint:
    """A checkpoint. ``committed`` is the newest batch that Spark logged as done, or None.

    ``stateful`` is True if it keeps state, which cannot be moved.
    """

    query: str
    committed: int | None
    sources: tuple[SourceEnd, ...]
    stateful: bool


def read(location: str) -> KafkaCheckpoint:
    """Read a checkpoint: a folder of this machine, or a ``file:`` URI.

    Raise :class:`ConfigError` for a folder that is no checkpoint, for sources that are not Spark's ``kafka``, and for
    missing files.
    """
    folder = _local(location)
    offsets, commits = _numbers(folder / "offsets"), _numbers(folder / "commits")
    if not offsets:
        raise _refused(
            f"{location} has no folder `offsets` with a batch in it: it is no checkpoint, or no batch was ever"
            " planned.",
            "NO_CHECKPOINT",
        )
    planned = _logged(folder, offsets[-1])
    committed = commits[-1] if commits else None
    if committed is not None and committed not in offsets:
        raise _refused(
            f"batch {committed} of {location} is committed, and offsets/{committed} is gone, so it is not"
            " known where it ended.",
            "NO_OFFSETS",
        )
    ends = _logged(folder, committed) if committed is not None else {}
    sources = tuple(_source(folder, key, ends.get(key), end) for key, end in planned.items())
    return KafkaCheckpoint(_query(folder), committed, sources, stateful=(folder / "state").is_dir())


def _local(location: str) -> Path:
    parsed = urlparse(location)
    if parsed.scheme not in ("", "file"):
        raise _refused(
            f"{location} is not on this machine, and a checkpoint is read as files here. Copy its folders `offsets`,"
            " `commits`, `sources` and `state` (`hdfs dfs -get`, `aws s3 cp --recursive`) and its file `metadata`,"
            " and name the copy. By `state`, where there is one, it is seen that the old query keeps state, which"
            " cannot be carried over: of that folder any one file will do.",
            "NOT_LOCAL",
        )
    return Path(unquote(parsed.path) if parsed.scheme else location)


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) if folder.is_dir() else []


def _query(folder: Path) -> str:
    try:
        return str(read_object((folder / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError):
        return "unknown"


def _lines(path: Path) -> Sequence[str]:
    """Return the lines of one of Spark's logs, checked for the version in its first line. Spark may put a zero byte
    before that line.
    """
    try:
        version, *lines = path.read_bytes().removeprefix(b"\0").decode().split("\n")
    except (OSError, ValueError) as error:
        raise _refused(f"{path} cannot be read: {type(error).__name__}.", "NO_OFFSETS") from None
    if version not in _VERSIONS:
        raise _refused(
            f"{path} has version {version!r:.100}, and {' and '.join(_VERSIONS)} are known here.", "CHECKPOINT_VERSION"
        )
    return [version, *lines]


def _logged(folder: Path, batch: int) -> dict[str, str]:
    """Return the ends of one batch, as text: by the source's number, or by its name (version 2)."""
    version, *lines = _lines(folder / "offsets" / str(batch))
    rows = [line for line in lines[1:] if line]  # the first is Spark's settings
    if version == "v1":
        return {str(number): text for number, text in enumerate(rows)}
    return {key: text for key, _, text in (row.partition(":") for row in rows)}


def _source(folder: Path, key: str, end: str | None, planned: str) -> SourceEnd:
    where = f"source {key} of {folder}"
    if end is None or end == _NONE:
        end = _first(folder, key)
    there = _offsets(end, where)
    return SourceEnd(there, there if planned == _NONE else _offsets(planned, where), None if key.isdecimal() else key)


def _first(folder: Path, key: str) -> str:
    """Return the first offsets of a source, which it wrote before its first batch."""
    path = folder / "sources" / key / "0"
    try:
        there = path.exists()
    except OSError:  # a name that is too long for a file
        there = False
    if not there:
        raise _refused(
            f"source {key} of {folder} has no committed batch, and sources/{key}/0 is not there, so"
            " it is not known where it stands.",
            "NO_OFFSETS",
        )
    return "".join(_lines(path)[1:])


def _offsets(text: str, where: str) -> dict[str, dict[int, int]]:
    try:
        value = read_object(text)
        if type(value.get("v")) is int:
            raise _refused(
                f"{where} is semel's own: nothing has to be carried over. Go on with this checkpoint.", "SEMELS_OWN"
            )
        offsets = {
            topic: {int(index): _offset(offset) for index, offset in row.items()} for topic, row in value.items()
        }
    except (ValueError, AttributeError):
        raise _refused(
            f"{where} is not Spark's `kafka` source: {text:.100}. Only offsets of Kafka can be carried over.",
            "NOT_KAFKA",
        ) from None
    if not offsets:
        raise _refused(
            f"{where} has read no topic yet: there is nothing to carry over. Start the new query by its"
            " startingOffsets.",
            "NOT_KAFKA",
        )
    return offsets


def _offset(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(json.dumps(value))
    return value


def _refused(what: str, tag: str) -> ConfigError:
    return ConfigError(f"{what} Nothing was changed.", tag=tag)
