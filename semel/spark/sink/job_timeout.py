"""A job that has outlived its transaction is cancelled: nothing that it still writes could ever be committed (DESIGN
rule 10).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from semel.errors import AbortAndRetry

__all__ = ["HOW_IT_FITS", "cancel_jobs_after"]

#: The batch is planned in Spark's offset log, so it keeps its size however often it runs.
HOW_IT_FITS = (
    "Raise kafka.transaction.timeout.ms, and above 15 minutes also transaction.max.timeout.ms of the brokers. A lower"
    " maxOffsetsPerTrigger makes later batches smaller, not this one."
)


@contextmanager
def cancel_jobs_after(spark: SparkSession, milliseconds: float, tag: str) -> Iterator[None]:
    """Run jobs under this tag for at most that long; then they are cancelled, and :class:`AbortAndRetry` tagged EXPIRED
    is raised instead.
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
