"""Join windows: how far apart in time two records may be that are joined."""

from __future__ import annotations

from dataclasses import dataclass

from semel.errors import ConfigError
from semel.streams.windows.duration import milliseconds

__all__ = ["JoinWindows", "join"]


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """A record of the left stream meets those of the right one from ``before_ms`` before to ``after_ms`` after it."""

    before_ms: int
    after_ms: int
    grace_ms: int

    @property
    def retention_ms(self) -> int:
        """The time that records stay in the stores of a join."""
        return self.before_ms + self.after_ms + self.grace_ms

    @property
    def in_words(self) -> str:
        """Name the window. The words are kept with each store: other words refuse the store."""
        return f"join window of {self.before_ms} ms before and {self.after_ms} ms after, grace {self.grace_ms} ms"


def join(
    difference: str | int,
    *,
    before: str | int | None = None,
    after: str | int | None = None,
    grace: str | int = 0,
) -> JoinWindows:
    """Return Kafka Streams' JoinWindows of a time difference and a grace: ``join("5 min", before=0, grace="10 s")``.

    ``before`` and ``after`` take the place of ``difference`` on one side. A number below 0 is allowed there.
    """
    both = milliseconds(difference, "time difference")
    found = JoinWindows(
        both if before is None else _signed(before, "before"),
        both if after is None else _signed(after, "after"),
        milliseconds(grace, "grace"),
    )
    if found.before_ms + found.after_ms < 0:
        raise ConfigError(
            f"a join window from {found.before_ms} ms before to {found.after_ms} ms after ends before it begins."
            " Nothing was read. The sum of before and after is at least 0.",
            tag="WRONG_VALUE",
        )
    return found


def _signed(given: str | int, name: str) -> int:
    return -milliseconds(-given, name) if isinstance(given, int) and given < 0 else milliseconds(given, name)
