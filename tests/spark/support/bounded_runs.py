"""A query that reads what is there when it starts, in batches of its limits, and ends: on every version of Spark.

By ``availableNow``. Spark before 4.2 makes one batch of that, so there a thread stops the query when it has read all.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from semel.spark.jvm import versions
from tests.support.waiting import PATIENCE_S


def start(writer: DataStreamWriter) -> StreamingQuery:
    """Start it. It ends by itself."""
    if versions.current().limits_each_batch:
        return writer.trigger(availableNow=True).start()
    query = writer.start()
    threading.Thread(target=_stop_when_done, args=(query,), daemon=True).start()
    return query


def finish(query: StreamingQuery) -> None:
    """Wait for its end. Raises what it ended with."""
    try:
        assert query.awaitTermination(PATIENCE_S), "the query did not end"
    finally:
        query.stop()


def _stop_when_done(query: StreamingQuery) -> None:
    with suppress(PySparkException):  # `finish` raises it
        query.processAllAvailable()
        query.stop()
