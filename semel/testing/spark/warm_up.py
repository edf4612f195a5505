"""The query whose classes ``spark_home`` archives: small, with a shuffle, Python workers and a callback.

It prints the process id of its Java.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def _copied(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _main() -> None:
    spark = SparkSession.builder.getOrCreate()
    seen = threading.Semaphore(0)

    def callback(frame: DataFrame, number: int) -> None:
        frame.select("value").repartition(2, "value").mapInArrow(_copied, "value long").collect()
        seen.release()

    query = spark.readStream.format("rate").load().writeStream.foreachBatch(callback).start()
    for _ in range(2):
        seen.acquire()
    query.stop()
    jvm = spark._jvm
    assert jvm is not None
    print(jvm.java.lang.ProcessHandle.current().pid())


if __name__ == "__main__":
    _main()
