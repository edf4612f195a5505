"""Windows of time: tumbling and hopping, by the time of the records, as in Kafka Streams.

A window takes rows until stream time (the highest time that its task has seen) has passed its end and its grace.
Session and sliding windows are not there yet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from semel.errors import ConfigError, Unsupported

__all__ = ["Windows", "hopping", "milliseconds", "session", "sliding", "tumbling"]

_UNITS = {"ms": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*([a-z]+)")
#: What Kafka Streams keeps of a window store beyond its windows, so that a late look still finds them.
_KEPT_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of ``size_ms``, one beginning each ``advance_ms``; rows are late ``grace_ms`` after the end."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    @property
    def retention_ms(self) -> int:
        """The time that a window stays in the store after it began."""
        return max(self.size_ms + self.grace_ms, _KEPT_MS)

    def assign(self, times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each row and each window that it belongs to: the number of the row, and where the window begins."""
        newest = times - times % self.advance_ms
        each = -(-self.size_ms // self.advance_ms)
        rows = np.repeat(np.arange(len(times)), each)
        begins = np.repeat(newest, each) - np.tile(np.arange(each) * self.advance_ms, len(times))
        inside = (begins >= 0) & (begins > np.repeat(times, each) - self.size_ms)
        return rows[inside], begins[inside]


def tumbling(size: str | int, *, grace: str | int = 0) -> Windows:
    """Windows that touch and do not overlap: ``tumbling("1 min")``."""
    length = milliseconds(size, "size")
    return _checked(Windows(length, length, milliseconds(grace, "grace")))


def hopping(size: str | int, advance: str | int, *, grace: str | int = 0) -> Windows:
    """Windows that overlap: ``hopping("10 min", "1 min")``. Each row counts in each window that it falls into."""
    return _checked(Windows(milliseconds(size, "size"), milliseconds(advance, "advance"), milliseconds(grace, "grace")))


def session(*_: object, **__: object) -> NoReturn:
    """Not there yet: raises :class:`Unsupported`."""
    raise _later("session windows")


def sliding(*_: object, **__: object) -> NoReturn:
    """Not there yet: raises :class:`Unsupported`."""
    raise _later("sliding windows")


def _later(what: str) -> Unsupported:
    return Unsupported(f"{what} are not there yet. Nothing was read. Use tumbling or hopping windows.", tag="NOT_YET")


def _checked(found: Windows) -> Windows:
    if found.size_ms < 1 or not 0 < found.advance_ms <= found.size_ms:
        raise ConfigError(
            f"windows of {found.size_ms} ms that begin each {found.advance_ms} ms cannot be. Nothing was read. The"
            " size is at least 1 ms, and the advance is between 1 ms and the size.",
            tag="WRONG_VALUE",
        )
    return found


def milliseconds(given: Any, name: str) -> int:
    """Parse a duration: milliseconds, or a text such as ``"5 min"``. Raise :class:`ConfigError` for anything else."""
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    match = _DURATION.fullmatch(str(given).strip())
    if match is None or match[2] not in _UNITS:
        raise ConfigError(
            f'the {name} {given!r} is no duration. Nothing was read. Give milliseconds, or a text such as "500 ms",'
            ' "30 s", "5 min", "1 h".',
            tag="WRONG_VALUE",
        )
    return int(match[1]) * _UNITS[match[2]]
