"""The driver's side of a job of tickets: how long it may run, what Spark's errors mean, and the receipts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from semel.errors import AbortAndRetry, SemelError
from semel.spark.errors import error
from semel.spark.jvm.streaming_query import executor_lost
from semel.transaction.participant import SECOND_ATTEMPT
from semel.transaction.ticket import Receipt

__all__ = ["HOW_IT_FITS", "cancel_jobs_after", "receipts_of", "spark_errors"]

#: The batch is planned in Spark's offset log, so it keeps its size however often it runs.
HOW_IT_FITS = (
    "Raise kafka.transaction.timeout.ms, and above 15 minutes also transaction.max.timeout.ms of the brokers. A lower"
    " maxOffsetsPerTrigger makes later batches smaller, not this one."
)


@contextmanager
def cancel_jobs_after(spark: SparkSession, milliseconds: float, tag: str) -> Iterator[None]:
    """Run jobs under this tag for at most that long; then they are cancelled, and :class:`AbortAndRetry` tagged EXPIRED
    is raised instead.

    Nothing that a job writes after its transaction has timed out can be committed (DESIGN rule 10).
    """
    context = spark.sparkContext
    late = threading.Event()

    def cancel() -> None:
        late.set()
        context.cancelJobsWithTag(tag)

    timer = threading.Timer(milliseconds / 1000, cancel)
    timer.daemon = True
    context.addJobTag(tag)
    timer.start()
    try:
        yield
    except Exception:
        if late.is_set():
            raise AbortAndRetry(
                f"the tasks were still writing when the transaction timeout of {milliseconds / 1000:.0f} s had"
                f" passed, so they were cancelled. Nothing of the batch is visible. {HOW_IT_FITS}",
                tag="EXPIRED",
            ) from None
        raise
    finally:
        timer.cancel()
        context.removeJobTag(tag)


@contextmanager
def spark_errors(*, runs_users_code: bool) -> Iterator[None]:
    """Raise the error of ours that Spark's text holds, and :class:`AbortAndRetry` where Spark gave the job up.

    A job that ``runs_users_code`` may fail by that code; such an error stays Spark's.
    """
    try:
        yield
    except Exception as raised:
        found = error(raised)
        if found is not None:
            raise found from raised
        if executor_lost(raised) or (isinstance(raised, Py4JJavaError) and not runs_users_code):
            raise AbortAndRetry(
                f"Spark gave the job up: {_first_line(raised)}. Nothing of it is visible where it was a transaction;"
                " with delivery=at_least_once some rows may be, and come again. Run it again.",
                tag="JOB_LOST",
            ) from raised
        raise


def _first_line(raised: Exception) -> str:
    said = raised.java_exception.getMessage() if isinstance(raised, Py4JJavaError) else raised
    return (str(said).splitlines() or ["it does not say why"])[0][:300]


def receipts_of(results: Iterable[Receipt | SemelError]) -> list[Receipt]:
    """Return the receipts among the results of tasks. Raise the first error among them."""
    results = list(results)
    ours = [result for result in results if isinstance(result, SemelError)]
    if ours:
        # a second attempt only echoes the error of the first one, if that is known too
        raise next((each for each in ours if each.tag != SECOND_ATTEMPT), ours[0])
    return [result for result in results if isinstance(result, Receipt)]
