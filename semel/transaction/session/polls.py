"""The time between two polls of a session, and what is said where it is too long."""

from __future__ import annotations

import logging
import time

__all__ = ["PollWatch"]

log = logging.getLogger("semel.transaction")

_COMMITTED = "These rows are committed, with a commit that took its share of the time"
_AGAIN = "Nothing of these rows is visible, and they are handed out again"


class PollWatch:
    """A member that polls too late loses its membership, each time for the same rows: that is said with the numbers."""

    def __init__(self, transactional_id: str, interval_ms: int) -> None:
        self._transactional_id, self._interval_ms = transactional_id, interval_ms
        self._rows = 0
        self._since = 0.0

    def handed_out(self, rows: int) -> None:
        """Take note of the rows that are worked on from now on."""
        self._rows, self._since = rows, time.monotonic()

    def polled(self, *, committed: bool) -> None:
        """Check what was handed out before this poll, and forget it."""
        self.check(committed=committed)
        self._rows = 0

    def check(self, *, committed: bool = False) -> None:
        """Warn if the rows took longer than the interval."""
        took_ms = (time.monotonic() - self._since) * 1000
        if self._rows and took_ms > self._interval_ms:
            log.warning(
                "session %r: %d rows took %.0f ms (%.1f ms a row), and max.poll.interval.ms is %d: the group continues"
                " without this member. %s. Take fewer rows at a time (max.poll.records), make the work quicker, or"
                " raise max.poll.interval.ms.",
                self._transactional_id,
                self._rows,
                took_ms,
                took_ms / self._rows,
                self._interval_ms,
                _COMMITTED if committed else _AGAIN,
            )
            self._rows = 0
