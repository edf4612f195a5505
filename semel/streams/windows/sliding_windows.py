"""Sliding windows: of one length, one for each set of records of a key that lie so near each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from semel.errors import ConfigError
from semel.streams.windows.duration import milliseconds
from semel.streams.windows.kind import KeyState, Steps, WindowsOfKey

__all__ = ["SlidingWindows", "sliding"]


@dataclass(frozen=True, slots=True)
class SlidingWindows(WindowsOfKey):
    """Windows that end at a record, or begin 1 ms after one. Both bounds are in the window, ``difference_ms`` apart."""

    needs_value: ClassVar[bool] = True
    difference_ms: int
    grace_ms: int

    @property
    def in_words(self) -> str:
        """Name the time difference."""
        return f"sliding window of {self.difference_ms} ms"

    @property
    def retention_ms(self) -> int:
        """The time in which a late record may still need a window, from its start."""
        return 3 * self.difference_ms + self.grace_ms + 1

    @property
    def kept_ms(self) -> int:
        """Twice the time difference and the grace, as in Kafka Streams."""
        return 2 * self.difference_ms + self.grace_ms

    @property
    def reach_ms(self) -> int:
        """A window begins so far before a record at most."""
        return self.difference_ms

    def take(self, key: KeyState, time: int, now: int, steps: Steps) -> bool:
        """Update the windows that a record falls into, and make those that begin or end with it."""
        if time + self.difference_ms < now - self.grace_ms:
            return False
        first = 0 if time < self.difference_ms else max(0, time - 2 * self.difference_ms)
        there = [one for one in key.windows() if first <= one[0] <= time + 1]
        record = _Record(self, key, time, now - self.grace_ms, steps)
        if time < self.difference_ms:
            record.take_early(there)
        else:
            record.take(there[::-1])
        return True


@dataclass
class _Record:
    """A record that is put into its windows, as Kafka Streams does it."""

    windows: SlidingWindows
    key: KeyState
    time: int
    close: int
    steps: Steps

    def take(self, newest_first: list[tuple[int, int, Any, int]]) -> None:
        """Take a record whose left window does not begin before 0."""
        left: Any = None
        right: tuple[Any, int] | None = None
        previous: int | None = None
        left_there = right_there = False
        for start, end, state, newest in newest_first:
            if start == self.time + 1:
                right_there = True
            elif end > self.time:
                right = right or (state, newest)
                self._update(start, state, newest)
            elif end == self.time:
                left_there = True
                self._update(start, state, newest)
                if newest >= self.time:
                    return
                previous = newest
            else:
                left, previous = state, newest
                break
        starts = {one[0] for one in newest_first}
        difference = self.windows.difference_ms
        if previous is not None and previous + 1 not in starts and previous + 1 + difference >= self.time:
            self._update(previous + 1, self.steps.initial(), self.time)
        if not left_there:
            near = previous is not None and self.time - difference <= previous
            self._update(self.time - difference, left if near else self.steps.initial(), self.time)
        self._begin_right(right, there=right_there)

    def take_early(self, oldest_first: list[tuple[int, int, Any, int]]) -> None:
        """Take a record whose left window would begin before 0: all of these are in the window that begins at 0."""
        combined: tuple[Any, int] | None = None
        right: tuple[Any, int] | None = None
        previous: int | None = None
        right_there = False
        for start, _, state, newest in oldest_first:
            if start == 0:
                combined = state, newest
                previous = newest if newest < self.time else None
            elif start <= self.time:
                right = state, newest
                self._update(start, state, newest)
            else:
                right_there = True
        if right is None and combined is not None and combined[1] > self.time:
            right = combined
        self._begin_right(right, there=right_there)
        if previous is not None and previous + 1 not in {one[0] for one in oldest_first}:
            self._update(previous + 1, self.steps.initial(), self.time)
        state, newest = combined or (self.steps.initial(), self.time)
        self._update(0, state, newest)

    def _begin_right(self, right: tuple[Any, int] | None, *, there: bool) -> None:
        if not there and right is not None and right[1] > self.time:
            start = self.time + 1
            self.key.put(start, start + self.windows.difference_ms, right[0], right[1], old=right[0])

    def _update(self, start: int, state: Any, newest: int) -> None:
        end = start + self.windows.difference_ms
        if end >= self.close:
            time = self.time if state is None else max(self.time, newest)
            self.key.put(start, end, self.steps.add(state), time, old=state)


def sliding(difference: str | int, *, grace: str | int = 0) -> SlidingWindows:
    """Return Kafka Streams' sliding windows of records that lie ``difference`` apart at most: ``sliding("10 s")``."""
    found = SlidingWindows(milliseconds(difference, "time difference"), milliseconds(grace, "grace"))
    if found.difference_ms < 1:
        raise ConfigError(
            "sliding windows with a time difference of 0 ms hold single records. Nothing was read. Give at least 1 ms.",
            tag="WRONG_VALUE",
        )
    return found
