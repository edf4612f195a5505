"""Time windows: tumbling and hopping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from semel.errors import ConfigError
from semel.streams.windows.duration import milliseconds
from semel.streams.windows.kind import Windows

__all__ = ["TimeWindows", "hopping", "tumbling"]


@dataclass(frozen=True, slots=True)
class TimeWindows(Windows):
    """Windows of ``size_ms``, one beginning each ``advance_ms``; rows are late ``grace_ms`` after the end."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    @property
    def longest_ms(self) -> int:
        """The size of each window."""
        return self.size_ms

    @property
    def in_words(self) -> str:
        """Name the size and the advance."""
        return f"window of {self.size_ms} ms each {self.advance_ms} ms"

    def assign(self, times: Any) -> tuple[Any, Any, Any]:
        """Return the number of the row, the start and the end, for each row and each window that it falls into."""
        newest = times - times % self.advance_ms
        each = -(-self.size_ms // self.advance_ms)
        rows = np.repeat(np.arange(len(times)), each)
        starts = np.repeat(newest, each) - np.tile(np.arange(each)[::-1] * self.advance_ms, len(times))
        inside = (starts >= 0) & (starts > np.repeat(times, each) - self.size_ms)
        starts = starts[inside]
        return rows[inside], starts, starts + self.size_ms


def tumbling(size: str | int, *, grace: str | int = 0) -> TimeWindows:
    """Windows that touch and do not overlap: ``tumbling("1 min")``."""
    length = milliseconds(size, "size")
    return _checked(TimeWindows(length, length, milliseconds(grace, "grace")))


def hopping(size: str | int, advance: str | int, *, grace: str | int = 0) -> TimeWindows:
    """Windows that overlap: ``hopping("10 min", "1 min")``. Each row counts in each window that it falls into."""
    size_ms = milliseconds(size, "size")
    return _checked(TimeWindows(size_ms, milliseconds(advance, "advance"), milliseconds(grace, "grace")))


def _checked(found: TimeWindows) -> TimeWindows:
    if found.size_ms < 1 or not 0 < found.advance_ms <= found.size_ms:
        raise ConfigError(
            f"windows of {found.size_ms} ms that begin each {found.advance_ms} ms cannot be. Nothing was read. The"
            " size is at least 1 ms, and the advance is between 1 ms and the size.",
            tag="WRONG_VALUE",
        )
    return found
