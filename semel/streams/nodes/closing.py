"""Windows of keys that are handed on once, when they have closed: which ones a row has closed."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

from semel.streams.state.state_store import StateStore
from semel.streams.windows.kind import WindowsOfKey
from semel.streams.windows.record_keys import SessionKeys

__all__ = ["ClosedWindow", "Closing"]


class ClosedWindow(NamedTuple):
    """A window by its end, in Kafka Streams' order. ``entry`` was in the store before the batch."""

    end: int
    start: int
    key: bytes
    name: bytes
    entry: bytes | None


class Closing:
    """The windows that rows of one batch may close: those of the store until ``latest``, and those that are put."""

    def __init__(self, windows: WindowsOfKey, store: StateStore, latest: int) -> None:
        self._close_ms, names = windows.close_ms, windows.store_keys
        #: All windows that end before this time are closed.
        self._until = max(store.stream_time - self._close_ms, 0)
        self._seen: set[bytes] = set()
        self._open: list[tuple[int, int, bytes, bytes]] = []
        self._entries: dict[bytes, bytes] = {}
        last = latest - self._close_ms - 1
        if last < self._until:
            return
        session = isinstance(names, SessionKeys)
        reach = 0 if session else windows.reach_ms  # these are stored by their start
        for name, entry in store.scan(*names.segments(max(self._until - reach, 0), last)):
            end = names.bound(name) + reach
            if self._until <= end <= last:
                self._open.append((end, names.start(name), names.key(name), name))
                self._entries[name] = entry
        heapify(self._open)

    def add(self, name: bytes, key: bytes, start: int, end: int) -> None:
        """Take note of a window that was put, or deleted."""
        heappush(self._open, (end, start, key, name))

    def until(self, now: int) -> list[ClosedWindow]:
        """Return the windows that close at this stream time."""
        self._until = max(self._until, now - self._close_ms)
        found = []
        while self._open and self._open[0][0] < self._until:
            end, start, key, name = heappop(self._open)
            if name not in self._seen:
                self._seen.add(name)
                found.append(ClosedWindow(end, start, key, name, self._entries.get(name)))
        return found
