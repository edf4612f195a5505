"""The classes of Kafka as Java keeps them parsed (class data sharing): a broker that finds them is up in half the time,
with half the work.

Java writes the archive when a broker ends that was started for it, and ignores one that does not fit Java or jars. It
is made by ``python -m semel.sandbox``, a few seconds once a version; without it brokers start as they are.
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
    """Whether it was made."""
    return _path(version).exists()


def reading(version: str) -> Sequence[str]:
    """The options of a Java that uses it; none where it was not made."""
    return (*_SILENT, "-Xshare:auto", f"-XX:SharedArchiveFile={_path(version)}") if exists(version) else ()


@contextmanager
def writing(version: str) -> Iterator[Sequence[str]]:
    """Give the options of a Java that writes it, which must have ended, in order, with the block."""
    draft = _path(version).with_suffix(f".{os.getpid()}")
    yield (*_SILENT, f"-XX:ArchiveClassesAtExit={draft}")
    if draft.exists():
        draft.rename(_path(version))
