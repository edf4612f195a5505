"""A copy that is kept running until the program is told to end, or that ends by itself in the middle of a batch.

Its arguments are a :class:`tests.spark.support.topics_and_drivers.Copy` as JSON, and one of :class:`Way`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType

from semel.spark import KafkaSink, keep_running
from tests.spark.support.topics_and_drivers import Copy

_POLL_S = 0.1
_ENDS_WITH = 3


class Way(StrEnum):
    """How it goes."""

    KEPT = "kept"  # by keep_running, which takes signals
    ALONE = "alone"  # without it: the program ends when a file is there
    WORKER_DIES = "worker-dies"  # as KEPT; the user's function kills its Python process once


def start(spark: SparkSession, copy: Copy, way: Way) -> StreamingQuery:
    """The query."""
    kafka = {"kafka.bootstrap.servers": copy.servers}
    reading: dict[str, Any] = {
        "subscribe": copy.source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": copy.per_batch,
        "kafka.group.id": copy.group,
    }
    rows = spark.readStream.format("semel").options(**kafka, **reading).load().select("key", "value")
    if way is Way.WORKER_DIES:
        died = Path(f"{copy.checkpoint}-died")

        @f.udf(returnType=StringType())
        def passed_on(value: bytes) -> str:
            if not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return value.decode()

        rows = rows.withColumn("value", passed_on("value"))
    sink = KafkaSink(topic=copy.target, transactionalIdPrefix=copy.prefix, **kafka)
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", copy.checkpoint)
    return writer.trigger(processingTime="200 milliseconds").start()


def main(copy: Copy, way: Way) -> None:
    """Keep it running, or end where it stands."""
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("semel").setLevel(logging.INFO)
    spark = SparkSession.builder.getOrCreate()
    if way is not Way.ALONE:
        keep_running(lambda: start(spark, copy, way))
        spark.stop()
        return
    start(spark, copy, way)
    while not Path(f"{copy.checkpoint}-end").exists():
        time.sleep(_POLL_S)
    sys.exit(_ENDS_WITH)


if __name__ == "__main__":
    main(Copy.parse(sys.argv[1]), Way(sys.argv[2]))
