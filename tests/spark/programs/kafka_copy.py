"""What a query is before it moves to semel: Spark's own Kafka source and sink, the second at-least-once. It needs
Spark's connector (spark.jars).

Its argument is a :class:`tests.spark.support.topics_and_drivers.Copy` as JSON.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.support.topics_and_drivers import Copy


def main(copy: Copy) -> None:
    spark = SparkSession.builder.getOrCreate()
    kafka = {"kafka.bootstrap.servers": copy.servers}
    reading: dict[str, Any] = {
        "subscribe": copy.source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": copy.per_batch,
    }
    rows = spark.readStream.format("kafka").options(**kafka, **reading).load().select("key", "value")
    writer = rows.writeStream.format("kafka").options(**kafka, topic=copy.target, checkpointLocation=copy.checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Copy.parse(sys.argv[1]))
