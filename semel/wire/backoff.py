"""The pause before something is tried again: it doubles up to a limit."""

from __future__ import annotations

import random

__all__ = ["Backoff"]


class Backoff:
    """Pauses in a row, in seconds. ``jitter`` is the share by which each varies, so that clients do not try at once."""

    def __init__(self, first_s: float, longest_s: float, *, jitter: float = 0.0) -> None:
        self._first_s, self._longest_s, self._jitter = min(first_s, longest_s), longest_s, jitter
        self._next_s = self._first_s

    def reset(self) -> None:
        """Begin with the first pause again, after a success."""
        self._next_s = self._first_s

    def next(self) -> float:
        """Return the pause before the next try."""
        pause, self._next_s = self._next_s, min(self._next_s * 2, self._longest_s)
        return pause * random.uniform(1 - self._jitter, 1 + self._jitter)
