"""The query that the crash tests kill: copies one topic to another by key, until it has read what was there when it
started.

Its argument is a :class:`tests.spark.support.topics_and_drivers.Copy` as JSON. Given several, the application runs as
many queries at once.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from semel.spark import KafkaSink
from tests.spark.programs.begin import begin
from tests.spark.support import bounded_runs
from tests.spark.support.topics_and_drivers import Copy


def start(spark: SparkSession, copy: Copy) -> StreamingQuery:
    properties = {"bootstrap.servers": copy.servers, "group.id": copy.group, **copy.kafka}
    kafka = {f"kafka.{name}": value for name, value in properties.items()}
    reading: dict[str, Any] = {
        "subscribe": copy.source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": copy.per_batch,
        "minRecordsPerPartition": copy.min_records,
    }
    rows = spark.readStream.format("semel").options(**kafka, **reading).load().select("key", "value")
    where = {"topics": ",".join(copy.topics)} if copy.topics else {"topic": copy.target}
    if copy.topics:
        names = f.array(*map(f.lit, copy.topics))
        number = f.get_json_object(f.col("value").cast("string"), "$.id").cast("int")
        rows = rows.withColumn("topic", names[(number / 2).cast("int") % len(copy.topics)])
    options = {"transactionalIdPrefix": copy.prefix, **where, **kafka, **copy.sink}
    writer = (
        rows.writeStream.format("semel").options(**options)
        if copy.task_scope
        else rows.writeStream.foreachBatch(KafkaSink(**options))
    )
    return bounded_runs.start(writer.option("checkpointLocation", copy.checkpoint))


def main(copies: list[Copy]) -> None:
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("semel").setLevel(logging.DEBUG)
    spark = SparkSession.builder.getOrCreate()
    if len(copies) > 1:
        begin(spark, copies[0].servers, copies[0].source, f"{copies[0].checkpoint}-begin")
    for query in [start(spark, copy) for copy in copies]:
        bounded_runs.finish(query)
    spark.stop()


if __name__ == "__main__":
    main([Copy.parse(text) for text in sys.argv[1:]])
