"""A folder of files that are whole or not there: written under a temporary name, and renamed.

Nothing survives a power failure by its name alone: the file and its folder reach the disk before the write returns.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["Folder"]

_TEMPORARY = ".tmp"


class Folder:
    """One folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        """Return the names of whole files; none if the folder is missing."""
        with suppress(FileNotFoundError):
            return sorted(one.name for one in self._path.iterdir() if not one.name.startswith("."))
        return []

    def prepare(self) -> None:
        """Make the folder, and remove what others have not renamed: their renaming fails from now on."""
        self._path.mkdir(parents=True, exist_ok=True)
        for one in self._path.glob(f".*{_TEMPORARY}"):
            one.unlink(missing_ok=True)

    def write(self, name: str, data: bytes, before_rename: Callable[[], None]) -> None:
        """Write one file. ``before_rename`` is called when all of it is on the disk."""
        temporary = self._path / f".{name}.{uuid.uuid4().hex}{_TEMPORARY}"
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            before_rename()
            temporary.rename(self._path / name)
        finally:
            temporary.unlink(missing_ok=True)
        folder = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
