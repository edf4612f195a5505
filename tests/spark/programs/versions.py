"""Reads and writes on executors that have another semel, and prints as JSON what each of it was told.

Its arguments are the cluster's address, a topic to read, and one to write.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from semel.spark import KafkaSink, error


def told(work: Callable[[], object]) -> list[str]:
    """Class, tag and text of our error."""
    try:
        work()
    except Exception as raised:
        found = error(raised)
        return (
            [type(found).__name__, found.tag, found.message]
            if found is not None
            else [type(raised).__name__, "", str(raised)]
        )
    return ["", "", "nothing was refused"]


def main(servers: str, source: str, target: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    kafka = {"kafka.bootstrap.servers": servers}
    rows = spark.range(40, numPartitions=2)
    read = spark.read.format("semel").options(**kafka, subscribe=source).load()
    keyed = rows.select(f.col("id").cast("string").alias("key"), f.lit("x").alias("value"))
    sink = KafkaSink(topic=target, transactionalIdPrefix=target, **kafka)
    said = {
        "read": told(read.collect),
        "keyed": told(lambda: sink.write(keyed, version=1)),
        "free": told(lambda: sink.write(keyed.select("value"), version=2)),
    }
    spark.stop()
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
