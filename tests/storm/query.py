"""The program that the storm strikes: one query, kept running until a file says that it may end.

Its argument is a :class:`Job` as JSON.
"""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from semel.spark import KafkaSink, keep_running
from tests.storm.job import WATERMARK_S, WINDOW_S, Job

_POLL_S = 0.2
#: Short enough that a broker that is frozen is missed, and a driver's sleep may outlast its transaction.
_PATIENCE = {
    "kafka.request.timeout.ms": "5000",
    "kafka.socket.connection.setup.timeout.ms": "3000",
    "kafka.delivery.timeout.ms": "60000",
    "kafka.transaction.timeout.ms": "90000",
}


def planned(kind: str, rows: DataFrame) -> DataFrame:
    """What the query of this kind writes."""
    if kind == "keyed":
        return rows.select("key", "value")
    if kind == "free":
        return rows.select("value")
    fields = f.from_json(f.col("value").cast("string"), "id long, at long, user string")
    events = rows.select(fields.alias("e")).select("e.id", f.timestamp_seconds("e.at").alias("at"), "e.user")
    windows = events.withWatermark("at", f"{WATERMARK_S} seconds").groupBy(
        f.window("at", f"{WINDOW_S} seconds"), "user"
    )
    counted = windows.agg(f.count("*").alias("n"), f.sum("id").alias("ids")).withColumn(
        "w", f.col("window.start").cast("long")
    )
    return counted.select(
        f.concat_ws("-", "user", "w").alias("key"), f.to_json(f.struct("w", "user", "n", "ids")).alias("value")
    )


def start(spark: SparkSession, job: Job) -> StreamingQuery:
    """A run of the query."""
    kafka = {"kafka.bootstrap.servers": job.servers, "kafka.group.id": job.group, **_PATIENCE}
    reading = {"subscribe": job.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(job.per_batch)}
    if job.kind == "keyed":
        reading["minRecordsPerPartition"] = (
            "1"  # shuffled, however few rows there are; the others are read as they come
        )
    rows = spark.readStream.format("semel").options(**kafka, **reading).load()
    sink = KafkaSink(topic=job.target, transactionalIdPrefix=job.target, **kafka)
    writer = (
        planned(job.kind, rows)
        .writeStream.queryName(job.kind)
        .foreachBatch(sink)
        .option("checkpointLocation", job.checkpoint)
    )
    return (
        writer.outputMode("update" if job.kind == "counted" else "append")
        .trigger(processingTime="500 milliseconds")
        .start()
    )


def end_when_told(spark: SparkSession, job: Job, stop: threading.Event, over: threading.Event) -> None:
    """Stop whichever run there is, as soon as the file is there."""
    while not over.wait(_POLL_S):
        if Path(job.stop).exists():
            stop.set()
            for query in spark.streams.active:
                query.stop()


def main(job: Job) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("semel").setLevel(logging.DEBUG)
    spark = SparkSession.builder.getOrCreate()
    stop, over = threading.Event(), threading.Event()
    ending = threading.Thread(target=end_when_told, args=(spark, job, stop, over))
    ending.start()
    try:
        keep_running(lambda: start(spark, job), stop=stop)
    finally:
        over.set()
        ending.join()
    spark.stop()


if __name__ == "__main__":
    main(Job.parse(sys.argv[1]))
