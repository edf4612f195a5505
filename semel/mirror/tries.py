"""Trying again what may pass: how often in a row, and after which pause."""

from __future__ import annotations

import logging
import threading

from semel.errors import SemelError
from semel.mirror.meter import FlowMeter
from semel.wire.backoff import Backoff

__all__ = ["Tries"]

log = logging.getLogger("semel.mirror")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0


class Tries:
    """The failures in a row, and the pause after each. ``most`` of None means to retry for ever."""

    def __init__(self, meter: FlowMeter, stop: threading.Event, most: int | None) -> None:
        self._meter, self._stop, self._most = meter, stop, most
        self._failed = 0
        self._backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)

    def succeeded(self) -> None:
        """Start to count again."""
        self._failed = 0
        self._backoff.reset()
        self._meter.tries_again = False

    def failed(self, error: SemelError) -> None:
        """Wait, or raise the error where it was tried often enough. What a stop has interrupted is no failure."""
        self._failed += 1
        if self._stop.is_set():
            return
        if self._most is not None and self._failed >= self._most:
            raise error
        self._meter.tries_again = True
        pause = self._backoff.next()
        log.warning("%s: tried again in %.1f s: %s", self._meter.title, pause, error)
        self._stop.wait(pause)
