"""Objection 11: output topics of one partition and of a thousand, keyed and free."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from semel.testing.records import read
from tests.spark.support.topics_and_drivers import create

ROWS = 20_000


@pytest.mark.parametrize("partitions", [1, 2, 7, 1_000])
def test_partitions(spark: SparkSession, kafka: Sandbox, partitions: int) -> None:
    topic = create(kafka, f"of-{partitions}", partitions)
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "minRecordsPerPartition": 1}
    sink = KafkaSink(topic=topic, transactionalIdPrefix=topic, **options)
    keyed = spark.range(ROWS).select(f.col("id").cast("string").alias("key"), f.col("id").cast("string").alias("value"))
    free = spark.range(ROWS, 2 * ROWS).select(f.col("id").cast("string").alias("value"))
    sink.write(keyed, version=1)
    sink.write(free, version=2)
    seen = read(kafka.bootstrap_servers, [topic], {"value": "value"})
    numbers = sorted(map(int, seen["value"].to_pylist()))
    assert numbers == list(range(2 * ROWS))
    assert len({row["partition"] for row in seen.to_pylist() if int(row["value"]) < ROWS}) == partitions
