"""The place of committed entries: what a store asks of it, one in memory, and the position that is kept beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from semel.strict_json import is_version, of_kind, read_object, write_object

__all__ = ["Backend", "DamagedStore", "Memory", "Position"]

_FORM = 2


class DamagedStore(Exception):
    """A store cannot be read. It is thrown away, and restored from its changelog."""

    def __init__(self, folder: Path, reason: object) -> None:
        super().__init__(f"{folder}: {reason}")
        self.folder = folder


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a backend.

    ``topic_id`` and ``offset`` are the changelog's; ``stream_time`` is the highest time of its entries, ``written_ms``
    when it was written, by the clock; ``holds`` is what the store's spec said. Version 1 had no such field.
    """

    topic_id: str
    offset: int
    stream_time: int
    written_ms: int
    holds: str = ""

    def encode(self) -> bytes:
        """Encode as JSON."""
        return write_object(
            {
                "v": _FORM,
                "topic": self.topic_id,
                "offset": self.offset,
                "stream_time": self.stream_time,
                "written": self.written_ms,
                "holds": self.holds,
            }
        )

    @classmethod
    def parse(cls, text: bytes) -> Position:
        """From its JSON. Raises ``ValueError`` for what is none."""
        try:
            row = read_object(text)
            if not any(is_version(row["v"], known) for known in (1, _FORM)):
                raise ValueError(f"its form is version {row['v']!r:.20}")
            holds = of_kind(str, row["holds"]) if row["v"] == _FORM else ""
            offset, stream_time, written = (of_kind(int, row[name]) for name in ("offset", "stream_time", "written"))
            return cls(of_kind(str, row["topic"]), offset, stream_time, written, holds)
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from None


class Backend(Protocol):
    """Keeps the committed entries."""

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the entries of these keys."""

    def scan(self, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from ``start`` to before ``end``, by key."""

    def keys(self, start: bytes, end: bytes | None) -> list[bytes]:
        """Return the keys from ``start`` to before ``end``. None lies after the last."""

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes], position: Position | None) -> None:
        """All of it, or nothing."""

    def position(self) -> Position | None:
        """Return the position that was last written with the entries, or None."""

    def clear(self) -> None:
        """Forget everything."""

    def close(self) -> None:
        """Close it."""


class Memory:
    """Keeps entries in this process: for the test driver."""

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}
        self._position: Position | None = None

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the entries of these keys."""
        return [self._entries.get(key) for key in keys]

    def scan(self, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from ``start`` to before ``end``, by key."""
        return iter([(key, self._entries[key]) for key in sorted(self.keys(start, end))])

    def keys(self, start: bytes, end: bytes | None) -> list[bytes]:
        """Return the keys from ``start`` to before ``end``."""
        return [key for key in self._entries if start <= key and (end is None or key < end)]

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes], position: Position | None) -> None:
        """All of it."""
        self._entries.update(puts)
        for key in deletes:
            self._entries.pop(key, None)
        self._position = position

    def position(self) -> Position | None:
        """Return the position that was last written with the entries."""
        return self._position

    def clear(self) -> None:
        """Forget everything."""
        self._entries, self._position = {}, None

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
