"""How long to go on repeating, and how long to wait in between. Monotonic time only: a wall clock may jump."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

__all__ = ["Deadline"]


class Deadline:
    """A point in time after which nothing is repeated, with Kafka's growing, jittered back-off on the way to it."""

    def __init__(self, timeout_ms: float, *, backoff_ms: float = 100, backoff_max_ms: float = 1_000) -> None:
        self._end = time.monotonic() + timeout_ms / 1000
        self._backoff = min(backoff_ms, backoff_max_ms) / 1000
        self._backoff_max = backoff_max_ms / 1000
        self.timeout_ms = timeout_ms

    @property
    def remaining(self) -> float:
        """Seconds left; never negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return self.remaining == 0.0

    def pause(self) -> None:
        """Wait one back-off, but not beyond the end."""
        time.sleep(min(self._backoff * random.uniform(0.8, 1.2), self.remaining))
        self._backoff = min(self._backoff * 2, self._backoff_max)

    def attempts(self) -> Iterator[None]:
        """One pass through a loop at once, and one after each back-off until no time is left. What is behind the loop
        says that it was in vain.
        """
        yield
        while not self.passed:
            self.pause()
            yield
