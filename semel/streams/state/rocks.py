"""A backend on RocksDB, by ``rocksdict``: one folder for each store of each task.

The position lies beside the entries and is written with them, in one batch. RocksDB writes it ahead to its log, so that
SIGKILL costs nothing; a machine that loses power may lose the last batches, entries and position alike.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from semel.errors import ConfigError
from semel.extras import needs_extras
from semel.streams.state.backend import DamagedStore, Position

__all__ = ["Rocks"]

_POSITION = b"\0"
_ENTRY = b"\1"


class Rocks:
    """The committed entries of one store. Raises :class:`DamagedStore` for what RocksDB cannot read."""

    def __init__(self, folder: Path) -> None:
        with needs_extras("a store", "streams", "Nothing was read."):
            from rocksdict import Options, Rdict
        self._folder = folder
        self._options = Options(raw_mode=True)
        self._options.create_if_missing(True)
        self._options.set_keep_log_file_num(2)
        self._open = Rdict
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = Rdict(str(folder), self._options)
        except Exception as error:
            if any(said in str(error) for said in ("lock hold by", "While lock file")):
                raise ConfigError(
                    f"another process has the store {folder} open. Nothing was read. Give each worker a state.dir of"
                    " its own, or wait until the other one has ended.",
                    tag="STATE_LOCKED",
                ) from None
            raise DamagedStore(folder, error) from None

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the entries of these keys."""
        try:
            found: Any = self._db.get([_ENTRY + key for key in keys])
        except Exception as error:
            raise DamagedStore(self._folder, error) from None
        entries: list[bytes | None] = found
        return entries

    def scan(self, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from ``start`` to before ``end``, by key."""
        try:
            items: Any = self._db.items(from_key=_ENTRY + start)
            for key, entry in items:
                if end is not None and key[1:] >= end:
                    return
                yield key[1:], entry
        except Exception as error:
            raise DamagedStore(self._folder, error) from None

    def keys(self, start: bytes, end: bytes | None) -> list[bytes]:
        """Return the keys from ``start`` to before ``end``."""
        try:
            found: Any = self._db.keys(from_key=_ENTRY + start)
            return [key[1:] for key in takewhile(lambda key: end is None or key[1:] < end, found)]
        except Exception as error:
            raise DamagedStore(self._folder, error) from None

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes], position: Position | None) -> None:
        """One write batch: after a kill all of it is there, or nothing."""
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        for key, entry in puts:
            batch.put(_ENTRY + key, entry)
        for key in deletes:
            batch.delete(_ENTRY + key)
        if position is not None:
            batch.put(_POSITION, position.encode())
        try:
            self._db.write(batch)
        except Exception as error:
            raise DamagedStore(self._folder, error) from None

    def position(self) -> Position | None:
        """Return the position that was last written with the entries."""
        try:
            text: Any = self._db.get(_POSITION)
        except Exception as error:
            raise DamagedStore(self._folder, error) from None
        try:
            return None if text is None else Position.parse(text)
        except ValueError as error:
            raise DamagedStore(self._folder, error) from None

    def clear(self) -> None:
        """Delete the folder, and begin with an empty one."""
        self._db.close()
        shutil.rmtree(self._folder)
        self._db = self._open(str(self._folder), self._options)

    def close(self) -> None:
        """Close the folder: another worker may open it."""
        self._db.close()
