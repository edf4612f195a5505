"""Waiting in tests: for a condition, and with patience, since the machine may do much else at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: How long anything may take.
PATIENCE_S = 300
#: How long a transaction that a test leaves open stays so, unless the test ends it. The broker allows no more than 15
#: minutes.
TRANSACTION_MS = 600_000
#: Between two looks at the condition: twice as long as a look takes, so that reading a topic again and again leaves the
#: machine to what is waited for.
_SHORTEST_S, _LONGEST_S = 0.02, 1.0


def wait_for(condition: Callable[[], object], what: str | Callable[[], str], seconds: float = PATIENCE_S) -> None:
    """Return when the condition holds. Raises :class:`AssertionError` that says ``what`` was waited for, if it does not
    within the time.

    ``what`` may be a function, for what is only known then: what a process has said meanwhile.
    """
    end = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        began = time.monotonic()
        if condition():
            return
        looked = time.monotonic()
        assert looked < end, f"not within {seconds} s: {what if isinstance(what, str) else what()}"
        pause.wait(min(max(_SHORTEST_S, 2 * (looked - began)), _LONGEST_S))
