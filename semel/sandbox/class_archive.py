"""Kafka's classes in Java's parsed form (class data sharing): with them a broker starts in half the time, with half the
work.

Java writes the archive when a broker ends that was started for it. Java ignores an archive that does not fit Java or
jars. ``python -m semel.sandbox`` makes it, a few seconds once a version. Without it brokers start as usual.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from semel.sandbox.jars import cache_directory

__all__ = ["exists", "reading", "writing"]

_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def _path(version: str) -> Path:
    return cache_directory() / "kafka" / f"{version}.jsa"


def exists(version: str) -> bool:
    """Return True if the archive exists."""
    return _path(version).exists()


def reading(version: str) -> Sequence[str]:
    """Return the options of a Java that uses the archive, or none if it does not exist."""
    return (*_SILENT, "-Xshare:auto", f"-XX:SharedArchiveFile={_path(version)}") if exists(version) else ()


@contextmanager
def writing(version: str) -> Iterator[Sequence[str]]:
    """Yield the options of a Java that writes the archive. That Java must have ended, in order, within the block."""
    draft = _path(version).with_suffix(f".{os.getpid()}")
    yield (*_SILENT, f"-XX:ArchiveClassesAtExit={draft}")
    if draft.exists():
        draft.rename(_path(version))
