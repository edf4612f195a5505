"""What an application does first that runs several queries at once."""

from __future__ import annotations

from pyspark.sql import SparkSession


def begin(spark: SparkSession, servers: str, source: str, checkpoint: str) -> None:
    """Run a query that reads nothing, alone.

    Spark 4.3 puts variables of each query into one map of the data source, without a lock
    (PythonStreamingSourceRunner): queries that are the first ones and begin together may break it, and then none of the
    application plans any more ("Illegal size 5 of collection, expected 6").
    """
    rows = spark.readStream.format("semel").options(**{"kafka.bootstrap.servers": servers, "subscribe": source}).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
