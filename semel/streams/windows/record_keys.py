"""The keys of stores that are asked for one key's entries: by segment of time, key, time and another number.

A changelog has Kafka Streams' form: the record's key, 8 bytes of time, 4 bytes that tell records of one time apart.
Before it a store has the last millisecond of the record's segment: a key's records are one range of a segment, and old
segments go as one range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow.compute as pc

__all__ = ["RecordKeys", "SessionKeys"]

_TIME = 8
#: As in Kafka Streams: half the retention, and at least a minute.
_SHORTEST_MS = 60_000


@dataclass(frozen=True, slots=True)
class RecordKeys:
    """The written form of a record's place in a store that keeps records for ``retention_ms``."""

    retention_ms: int
    _number: ClassVar[int] = 4

    @property
    def tail(self) -> int:
        """The bytes after the record's key."""
        return _TIME + self._number

    @property
    def _interval(self) -> int:
        return max(self.retention_ms // 2, _SHORTEST_MS)

    def in_store(self, key: bytes, time: int, number: int) -> bytes:
        """Return the store's key of a record. ``number`` tells it from others of its key and time."""
        tail = time.to_bytes(_TIME, "big") + (number & 0x7FFFFFFF_FFFFFFFF >> 8 * (8 - self._number)).to_bytes(
            self._number, "big"
        )
        return self._segment(time) + key + tail

    def ranges(self, key: bytes, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """Return the ranges of a store in which records of a key from ``first`` to ``last`` lie, both included. Other
        keys that begin with this one may lie there, too.
        """
        starts = range(first - first % self._interval, last + 1, self._interval)
        segments = [self._segment(start) + key for start in starts]
        ends = first.to_bytes(_TIME, "big"), (last + 1).to_bytes(_TIME, "big")
        return [(segment + ends[0], segment + ends[1]) for segment in segments]

    def segments(self, first: int, last: int) -> tuple[bytes, bytes]:
        """Return the range of a store with the segments from ``first`` to ``last``, of all keys."""
        after = int.from_bytes(self._segment(last), "big") + 1
        return self._segment(first), after.to_bytes(_TIME, "big")

    def in_changelog(self, stored: list[bytes]) -> list[bytes]:
        """Return the changelog's keys of a store's keys."""
        return [key[_TIME:] for key in stored]

    def from_changelog(self, keys: list[bytes]) -> list[bytes]:
        """Return the store's keys of a changelog's keys."""
        return [self._segment(int.from_bytes(key[-self.tail : -self._number], "big")) + key for key in keys]

    def of_key(self, keys: Any, key: bytes) -> Any:
        """Return which of a changelog's keys are records of this key."""
        return pc.and_(pc.equal(pc.binary_length(keys), len(key) + self.tail), pc.starts_with(keys, pattern=key))

    def key(self, stored: bytes) -> bytes:
        """Return the record's key in a store's key."""
        return stored[_TIME : -self.tail]

    def start(self, stored: bytes) -> int:
        """Return the record's time in a store's key, or where its window begins."""
        return int.from_bytes(stored[-self.tail : -self._number], "big")

    def bound(self, stored: bytes) -> int:
        """Return the time that orders a store's key."""
        return int.from_bytes(stored[-self.tail : -self._number], "big")

    def number(self, stored: bytes) -> int:
        """Return what ends a store's key."""
        return int.from_bytes(stored[-self._number :], "big")

    @staticmethod
    def first(time: int) -> bytes:
        """Return what the store's keys of segments that end at ``time`` or later are not less than."""
        return time.to_bytes(_TIME, "big")

    def _segment(self, time: int) -> bytes:
        return (time - time % self._interval + self._interval - 1).to_bytes(_TIME, "big")


@dataclass(frozen=True, slots=True)
class SessionKeys(RecordKeys):
    """The written form of a session: by its end, and then by its start."""

    _number: ClassVar[int] = 8

    def start(self, stored: bytes) -> int:
        """Return where the session of a store's key begins."""
        return int.from_bytes(stored[-self._number :], "big")
