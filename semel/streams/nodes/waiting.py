"""Records of a left or outer join that have no partner yet: they wait until their window has closed.

Keys and values are Kafka Streams': time, side and key; a list of values, each with its side.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from semel.streams.state.state_store import StateStore
from semel.streams.windows.join_windows import JoinWindows

__all__ = ["Unmatched", "Waiting", "unmatched"]

_WORD = 8
_NEVER = 2**63 - 1
#: Lists of values of any length are marked so by Kafka's serialiser.
_ANY_LENGTH = b"\1"
#: Greater than the name of any record.
_AFTER_ALL = b"\xff"


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A record whose window has closed."""

    key: bytes
    time: int
    left: bool
    value: bytes


class Waiting:
    """The store of these records in one task.

    As in Kafka Streams, ``_earliest`` may be later than the earliest record after a look: the next look comes then.
    """

    def __init__(self, store: StateStore, windows: JoinWindows) -> None:
        self._store, self._windows = store, windows
        self._earliest = _NEVER if store.empty else 0
        #: No record waits before this name in the store.
        self._first = b""

    @property
    def stream_time(self) -> int:
        """The highest time of both sides."""
        return self._store.stream_time

    def saw(self, time: int) -> None:
        """Take note of the time of a record."""
        self._store.saw(time)

    def add(self, key: bytes, time: int, value: bytes, *, left: bool) -> None:
        """Let a record wait."""
        self._earliest = min(self._earliest, time)
        name = _name(key, time, left=left)
        self._first = min(self._first, name)
        (before,) = self._store.get([name])
        values = [] if before is None else _values(before[_WORD:])
        values.append(bytes([left]) + value)
        self._store.put([name], [time.to_bytes(_WORD, "big") + _list(values)])

    def remove(self, key: bytes, time: int, *, left: bool) -> None:
        """Let the records of a key, a time and a side wait no longer: they have a partner."""
        name = _name(key, time, left=left)
        if self._store.get([name]) != [None]:
            self._store.delete(name, time)

    def closed(self, *, left: bool) -> list[Unmatched]:
        """Remove and return what waits no longer, when a record of this side comes."""
        windows, now = self._windows, self.stream_time
        after = windows.after_ms if left else windows.before_ms
        if self._earliest + after + windows.grace_ms >= now:
            return []
        names = list(self._look(now))
        found = [one for name, entry in names for one in unmatched(name, entry)]
        for name, _ in names:
            self._store.delete(name, now)
        return found

    def _look(self, now: int) -> Iterator[tuple[bytes, bytes]]:
        self._earliest = _NEVER
        still_open: set[bool] = set()
        begin, self._first = self._first, _AFTER_ALL
        for name, entry in self._store.scan(begin):
            time, left = int.from_bytes(name[:_WORD], "big"), bool(name[_WORD])
            self._earliest = time
            if len(still_open) == 2:
                return
            if time + (self._windows.after_ms if left else self._windows.before_ms) + self._windows.grace_ms >= now:
                self._first = min(self._first, name)
                still_open.add(left)
            else:
                yield name, entry


def _name(key: bytes, time: int, *, left: bool) -> bytes:
    return time.to_bytes(_WORD, "big") + bytes([left]) + key


def unmatched(name: bytes, entry: bytes) -> Iterator[Unmatched]:
    """Yield the records of an entry of the store."""
    time, left, key = int.from_bytes(name[:_WORD], "big"), bool(name[_WORD]), name[_WORD + 1 :]
    for value in _values(entry[_WORD:]):
        yield Unmatched(key, time, left, value[1:])


def _list(values: list[bytes]) -> bytes:
    return _ANY_LENGTH + struct.pack(">i", len(values)) + b"".join(struct.pack(">i", len(one)) + one for one in values)


def _values(data: bytes) -> list[bytes]:
    (count,) = struct.unpack_from(">i", data, 1)
    found, at = [], 5
    for _ in range(count):
        (size,) = struct.unpack_from(">i", data, at)
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found
