"""Run a query, and start it again after the errors that ask for it (DESIGN rule 2)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from semel.errors import AbortAndRetry, Retriable
from semel.spark.errors import error

__all__ = ["keep_running"]

log = logging.getLogger("semel")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


def keep_running(start: Callable[[], StreamingQuery], *, stop: threading.Event | None = None) -> None:
    """Run the query that ``start()`` starts until it ends or is stopped; start it again after :class:`AbortAndRetry`
    and :class:`Retriable`.

    A stateful query needs this: an aborted batch is replayed by a new run, which loads the state that belongs to the
    committed output. The pause between runs grows from 1 to 60 seconds, and shrinks again once a run lasted longer than
    that. ``stop`` ends the waiting between two runs. Every other error is raised, as our own class where it is one of
    ours.
    """
    stop = stop or threading.Event()
    pause = _FIRST_PAUSE
    while not stop.is_set():
        began = time.monotonic()
        log.info("the query is being started: the first line of its own comes with its first batch")
        try:
            start().awaitTermination()
        except StreamingQueryException as raised:
            found = error(raised)
            if not isinstance(found, AbortAndRetry | Retriable):
                raise (found or raised) from (raised if found else None)
            if time.monotonic() - began > _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            log.warning("the query is started again in %.0f s: %s", pause, found)
            stop.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        else:
            return
