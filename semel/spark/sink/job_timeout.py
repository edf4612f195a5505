"""A job that has outlived its transaction is cancelled: nothing that it still writes could ever be committed (DESIGN
rule 10).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from semel.errors import AbortAndRetry

__all__ = ["cancel_jobs_after"]


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
                " passed, so they were cancelled. Nothing of the batch is visible. Make batches smaller"
                " (maxOffsetsPerTrigger), or raise kafka.transaction.timeout.ms.",
                tag="EXPIRED",
            ) from None
        raise
    finally:
        timer.cancel()
        context.removeJobTag(tag)
