"""What the tests of the source, the sink and their internals share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from semel.spark.jvm import status_store
from tests.spark.support import bounded_runs
from tests.spark.support.running_queries import PATIENCE
from tests.spark.support.session import KEPT_STAGES
from tests.spark.support.source_queries import Batches, Start


@pytest.fixture
def nothing_is_forgotten(spark: SparkSession) -> None:
    """For a test of up to ten stages.

    Where Spark keeps all that it may, the next one has it forget a tenth, those that were found done first. A store
    that keeps many more has stopped forgetting (seen: 977 of 200, with no error): there is nothing to wait for then.
    """
    room = 10
    for _ in range(2 * room):
        if len(status_store.stages(spark, range(1_000_000))) <= KEPT_STAGES - room:
            break
        spark.sparkContext.parallelize([1], 1).count()
        assert status_store.wait_until_current(spark, PATIENCE)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start streaming queries; they are stopped when the test ends."""
    queries: list[StreamingQuery] = []

    def begin(df: DataFrame, callback: Batches, checkpoint: Path, *, ends: bool = False) -> StreamingQuery:
        writer = df.writeStream.foreachBatch(callback).option("checkpointLocation", str(checkpoint))
        if ends:
            queries.append(bounded_runs.start(writer))
        else:
            queries.append(writer.trigger(processingTime="100 milliseconds").start())
        return queries[-1]

    yield begin
    for query in queries:
        query.stop()
