"""Run a query, restart it after the errors that ask for it (DESIGN rule 2), and stop it on a signal."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from semel.errors import AbortAndRetry, Retriable
from semel.spark.errors import error
from semel.spark.sink import foreach_batch
from semel.wire.backoff import Backoff

__all__ = ["keep_running"]

log = logging.getLogger("semel.spark")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
#: How often the query is asked whether it has ended, and the caller whether it is to stop.
_POLL_S = 0.5
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: Spark's words for failures that pass: a process was killed, and its data is lost with it. A batch that ends so was
#: aborted.
_PASSES = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "ExecutorLostFailure",
    "FetchFailedException",
    "MetadataFetchFailedException",
)
#: Two drivers use one checkpoint, as in a rolling deployment.
_TWO_DRIVERS = "CONCURRENT_STREAM_LOG_UPDATE"


def keep_running(start: Callable[[], StreamingQuery], *, stop: threading.Event | None = None) -> None:
    """Run the query that ``start()`` starts until it ends or is stopped. Restart it after :class:`AbortAndRetry`,
    :class:`Retriable` and the errors of Spark that pass (docs/operations.md has the table).

    A stateful query needs this: a new run replays an aborted batch, with the state that belongs to the committed
    output. The pause between runs grows from 1 to 60 seconds, and is short again after a run that lasted longer. Every
    other error is raised, as semel's own class if Spark's contains one.

    ``stop`` ends it: the query is stopped, its open transaction is aborted, and this returns. SIGTERM and SIGINT do the
    same in the main thread, unless the program has its own handlers. A second signal ends the process at once.
    """
    stop = stop or threading.Event()
    backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
    with _stopped_by_signals(stop):
        while not stop.is_set():
            began = time.monotonic()
            log.info("starting the query")
            query = _started(start)
            try:
                _await_end(query, stop)
            except StreamingQueryException as raised:
                passes = _passing(query, raised)
                if time.monotonic() - began > _LONGEST_PAUSE:
                    backoff.reset()
                pause = backoff.next()
                log.warning("restarting the query in %.0f s: %s", pause, passes)
                stop.wait(pause)
            except Py4JError as broken:
                if not stop.is_set() or isinstance(broken, Py4JJavaError):
                    raise
                foreach_batch.abort_open()  # Spark has ended too, and its tasks with it
                log.info("Spark has ended; what was open is aborted")
                return
            else:
                return


def _started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start the query. Raise our error if Spark's contains one, for example of a Python without semel."""
    try:
        return start()
    except PySparkException as raised:
        found = error(raised)
        if found is None:
            raise
        raise found from raised


def _await_end(query: StreamingQuery, stop: threading.Event) -> None:
    """Return when the query has ended, or was stopped. Raise the error that ended it."""
    while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # Spark takes fractions of a second
        if stop.is_set():
            query.stop()
            log.info("the query is stopped; what was open is aborted")
            return


def _passing(query: StreamingQuery, raised: StreamingQueryException) -> object:
    """Return why the query is restarted. Raise the error if it must not be restarted."""
    found = error(raised)
    if found is not None:
        if isinstance(found, AbortAndRetry | Retriable):
            return found
        raise found from raised
    text = str(raised)
    if _TWO_DRIVERS in text and foreach_batch.check_owners(str(query.runId)):
        return "another driver has written to its checkpoint, and this one has taken over its prefix"
    for known in _PASSES:
        if known in text:
            return f"{known} (Spark)"
    raise raised


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Set ``stop`` at the first signal. A second one has its former handler."""
    former: dict[signal.Signals, object] = {}

    def stop_query(number: int, _: FrameType | None) -> None:
        log.warning("%s: stopping the query", signal.Signals(number).name)
        stop.set()
        give_back()

    def give_back() -> None:
        while former:
            signal.signal(*former.popitem())  # type: ignore[arg-type]

    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if handler in (signal.SIG_DFL, signal.default_int_handler) or _is_sparks(handler):
                former[number] = handler
                signal.signal(number, stop_query)
    try:
        yield
    finally:
        give_back()


def _is_sparks(handler: object) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("pyspark.")
