"""A query that reads what is there when it starts, in batches of its limits, and ends: on every version of Spark.

By ``availableNow``. Spark before 4.2 makes one batch of that, so there the query is stopped when it has read all.
"""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from semel.spark.jvm import versions
from tests.support.waiting import PATIENCE_S


def start(writer: DataStreamWriter) -> StreamingQuery:
    """Start it."""
    return (writer.trigger(availableNow=True) if versions.current().limits_each_batch else writer).start()


def finish(query: StreamingQuery) -> None:
    """Wait for its end. Raises what it ended with."""
    try:
        if versions.current().limits_each_batch:
            assert query.awaitTermination(PATIENCE_S), "the query did not end"
        else:
            query.processAllAvailable()
    finally:
        query.stop()
