"""Work beside the copy, again and again: in a thread of its own, so that it never holds up or ends a flow.

What does not go well is logged once, and tried again after a growing pause.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from semel.errors import SemelError
from semel.wire.backoff import Backoff

__all__ = ["PeriodicWork"]

log = logging.getLogger("semel.mirror")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
#: The end of a flow waits so long for work that is under way. A cluster that is away may keep it longer.
_JOIN_S = 5.0


class PeriodicWork:
    """Does ``work`` every ``interval_s`` seconds. ``lacking`` says what is not done while it fails.

    ``release`` is called when no more work comes, by the thread that has done it.
    """

    def __init__(
        self,
        title: str,
        lacking: str,
        work: Callable[[], None],
        release: Callable[[], None],
        interval_s: int,
        *,
        at_once: bool,
    ) -> None:
        self._title, self._lacking, self._work, self._release = title, lacking, work, release
        self._interval_s, self._at_once = interval_s, at_once
        self._pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        self._failing = False
        self._stop = threading.Event()
        #: Any thread may do the work once more.
        self._working = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"{title} {lacking}", daemon=True)

    def start(self) -> None:
        """Work from now on, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end."""
        self._stop.set()

    def close(self) -> None:
        """End the thread. Do not wait long for work that is under way."""
        self._stop.set()
        if self._thread.ident is None:
            self._release()
        else:
            self._thread.join(_JOIN_S)

    def do(self) -> bool:
        """Do the work once, now. Any thread may call it. Return False after an error, which is logged."""
        with self._working:
            try:
                self._work()
            except Exception as error:  # whatever it is: the copy has nothing to do with it
                if not self._failing and not self._stop.is_set():
                    unexpected = not isinstance(error, SemelError)
                    log.warning(
                        "%s: records are copied, and %s: %s", self._title, self._lacking, error, exc_info=unexpected
                    )
                self._failing = True
                return False
            self._failing = False
            self._pauses.reset()
            return True

    def _run(self) -> None:
        pause: float = 0 if self._at_once else self._interval_s
        try:
            while not self._stop.wait(pause):
                pause = self._interval_s if self.do() else self._pauses.next()
        finally:
            self._release()
