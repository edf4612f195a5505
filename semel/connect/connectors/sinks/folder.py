"""A folder of files that are whole or not there, and of one owner.

A file is written under a temporary name, and renamed. Nothing survives a power failure by its name alone: the file and
its folder reach the disk before the write returns.

The temporary names are in a folder of the writer's claim. Another writer takes that folder away with one rename: what
the first one has not renamed yet, it cannot rename any more.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["Folder", "Mark", "mark_owner", "owner"]

#: A folder that holds the owner's name. It appears whole.
_MARK, _OWNER = ".semel", "owner"
#: The folder of a writer, and what is left of it once another writer has come.
_CLAIM, _ENDED = ".claim-", ".ended-"


class Mark(NamedTuple):
    """A mark of a topic's folder: its connector, and the id of its topic. Older marks have no id."""

    owner: str
    topic_id: str = ""

    @classmethod
    def parse(cls, text: str) -> Mark:
        """Parse a mark."""
        return cls(*text.split("\n")[:2])

    def text(self) -> str:
        """Return the text of the mark."""
        return "".join(f"{line}\n" for line in self if line)


class Folder:
    """One folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._claim = path / f"{_CLAIM}{uuid.uuid4().hex}"

    def names(self) -> list[str]:
        """Return the names of whole files; none if the folder is missing. Folders are passed over."""
        with suppress(FileNotFoundError), os.scandir(self._path) as entries:
            return sorted(one.name for one in entries if one.is_file())
        return []

    def claim(self) -> None:
        """Make the folder, and be its only writer: all others' writing fails from now on."""
        self._claim.mkdir(parents=True, exist_ok=True)
        for one in self._path.glob(f"{_CLAIM}*"):  # the own claim was made before: of two writers one loses, or both
            if one != self._claim:
                with suppress(FileNotFoundError):
                    one.rename(self._path / f"{_ENDED}{uuid.uuid4().hex}")
        for one in self._path.glob(f"{_ENDED}*"):
            shutil.rmtree(one, ignore_errors=True)
        for one in (self._path, *self._path.parents[:3]):  # what others renamed counts from now on
            _sync(one)

    def lost(self) -> bool:
        """Return True if the folder is there, and another writer has claimed it."""
        return self._path.is_dir() and not self._claim.is_dir()

    def write(self, name: str, data: bytes, before_rename: Callable[[], None]) -> None:
        """Write one file. ``before_rename`` is called when all of it is on the disk."""
        temporary = self._claim / f".{uuid.uuid4().hex}.tmp"
        try:
            _write(temporary, data)
            before_rename()
            temporary.rename(self._path / name)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(self._path)


def owner(path: Path) -> Mark | None:
    """Return the mark of a folder."""
    with suppress(FileNotFoundError):
        return Mark.parse((path / _MARK / _OWNER).read_text())
    return None


def mark_owner(path: Path, mark: Mark) -> Mark | None:
    """Mark a folder, unless it is marked. Return its mark."""
    if owner(path) is None:
        made = path / f"{_MARK}-{uuid.uuid4().hex}"
        made.mkdir(parents=True)
        try:
            _write(made / _OWNER, mark.text().encode())
            _sync(made)
            try:
                made.rename(path / _MARK)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another was first
                    raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
        _sync(path)
    return owner(path)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
