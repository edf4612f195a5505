"""The program that the demo kills: reads orders, prices them, writes them.

What stands between the two marks is all that a user writes.
"""

from __future__ import annotations

import sys

# --- the user's code
from pyspark.sql import SparkSession

from semel.spark import KafkaSink


def main(servers: str, checkpoint: str, output: str, batch: str, **delivery: str) -> None:
    """Copy topic ``orders`` to ``output``, with each order's value added tax."""
    spark = SparkSession.builder.appName("orders").getOrCreate()
    kafka = {"kafka.bootstrap.servers": servers}
    options = {"subscribe": "orders", "startingOffsets": "earliest", "maxOffsetsPerTrigger": batch}
    options["minRecordsPerPartition"] = "1"  # a task for each partition, also of few orders: each kill meets several
    orders = spark.readStream.format("semel").options(**kafka, **options).load()
    priced = orders.selectExpr(
        "key", "concat(substr(cast(value as string), 1, length(value) - 1), ',\"vat\":19}') as value"
    )
    sink = KafkaSink(topic=output, transactionalIdPrefix=output, **kafka, **delivery)
    query = priced.writeStream.queryName(output).foreachBatch(sink).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


# --- the end of it

if __name__ == "__main__":
    main(*sys.argv[1:5], **dict(argument.split("=", 1) for argument in sys.argv[5:]))
