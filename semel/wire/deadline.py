"""The time limit of repetitions, and the pauses between them. Monotonic time only: a wall clock may jump."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from semel.wire.backoff import Backoff

__all__ = ["Deadline"]

log = logging.getLogger("semel.wire")

#: A longer wait, in seconds, logs its reason.
_QUIET_S = 10.0


class Deadline:
    """A point in time after which nothing is repeated, with Kafka's growing, jittered back-off until then."""

    def __init__(self, timeout_ms: float, *, backoff_ms: float = 100, backoff_max_ms: float = 1_000) -> None:
        self._began = time.monotonic()
        self._end = self._began + timeout_ms / 1000
        self._warned = False
        self._backoff = Backoff(backoff_ms / 1000, backoff_max_ms / 1000, jitter=0.2)
        self.timeout_ms = timeout_ms

    @property
    def remaining(self) -> float:
        """The seconds left; never negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """True if no time is left."""
        return self.remaining == 0.0

    def expire(self) -> None:
        """End the time now: nothing is repeated any more. Any thread may call this."""
        self._end = min(self._end, time.monotonic())

    def pause(self) -> None:
        """Wait one back-off, but not beyond the end."""
        time.sleep(min(self._backoff.next(), self.remaining))

    def warn(self, waiting_for: str) -> None:
        """Log the reason of a long wait, once."""
        if not self._warned and time.monotonic() - self._began > _QUIET_S:
            self._warned = True
            log.warning("still waiting, for at most %.0f s more: %s", self.remaining, waiting_for)

    def cause(self, before: str, seen: str) -> str:
        """Return the problem to report: the one from before, if no time was left in which to see another."""
        return before if before and self.passed else seen

    def attempts(self) -> Iterator[None]:
        """Yield once at once, and once after each back-off until no time is left. The code after the loop reports that
        no attempt succeeded.
        """
        yield
        while not self.passed:
            self.pause()
            yield
