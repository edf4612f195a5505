"""A client of Spark Connect: writes a batch job into the source of a copy, twice, then copies it by a stream.

Its arguments are the server's address, and a :class:`tests.spark.support.topics_and_drivers.Copy` as JSON. It prints
the name of its session's class.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.spark.support.topics_and_drivers import Copy

ROWS, LOT = 600, 100


def main(remote: str, copy: Copy) -> None:
    spark = SparkSession.builder.remote(remote).getOrCreate()
    print(type(spark).__module__)
    kafka = {"kafka.bootstrap.servers": copy.servers}
    number = f.col("id").cast("int")
    value = f.to_json(f.struct(number.alias("id"), (number / LOT).cast("int").alias("lot")))
    rows = spark.range(ROWS).select(value.alias("value"))
    for _ in range(2):
        job = rows.write.format("semel").options(**kafka, topic=copy.source, transactionalIdPrefix=copy.source)
        job.option("version", 1).mode("append").save()
    reading: dict[str, Any] = {"subscribe": copy.source, "startingOffsets": "earliest"}
    reading["maxOffsetsPerTrigger"] = copy.per_batch
    source = spark.readStream.format("semel").options(**kafka, **reading).load().select("key", "value")
    writing = {"topic": copy.target, "transactionalIdPrefix": copy.prefix, "checkpointLocation": copy.checkpoint}
    query = source.writeStream.format("semel").options(**kafka, **writing).option("kafka.group.id", copy.group)
    query.trigger(availableNow=True).start().awaitTermination()
    print(json.dumps({"rows": ROWS}))


if __name__ == "__main__":
    main(sys.argv[1], Copy.parse(sys.argv[2]))
