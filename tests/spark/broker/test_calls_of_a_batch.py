"""How often a batch asks Spark's Java: each call takes 0.1 ms and more, before and after the job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from tests.spark.support.copy_query import Callback, Line
from tests.spark.support.java_calls import calls_of_the_jvm
from tests.spark.support.spark_books import job_group
from tests.spark.support.topics_and_drivers import create, produce

BATCHES = 4


def counting(counts: list[int]) -> Callable[[KafkaSink], Callback]:
    def around(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, batch: int) -> None:
            with calls_of_the_jvm() as calls:
                sink(df, batch)
            counts.append(len(calls))

        return callback

    return around


@pytest.mark.parametrize(("shuffled", "most"), [(False, 38), (True, 60)])
def test_calls_of_a_micro_batch(spark: SparkSession, kafka: Sandbox, tmp_path: Path, shuffled: bool, most: int) -> None:
    """The first one looks at the query. The others ask for what is theirs alone."""
    line = Line.new(spark, kafka, tmp_path, "calls", per_batch=100)
    produce(kafka, line.source, range(100 * BATCHES))
    counts: list[int] = []
    line.run(around=counting(counts), reading={"minRecordsPerPartition": 1 if shuffled else 1_000})
    assert len(counts) == BATCHES
    assert min(counts[1:]) <= most < counts[0]


def test_calls_of_a_batch_job(spark: SparkSession, kafka: Sandbox) -> None:
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "minRecordsPerPartition": 1}
    rows = spark.range(0, 300, 1, 2).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    counts = []
    for name in ("first", "second", "third"):
        topic = create(kafka, f"calls-{name}", 3)
        sink = KafkaSink(topic=topic, transactionalIdPrefix=topic, **options)
        # the proof looks at the jobs before it in its group: those of other tests may need a look at their stages
        with job_group(spark, topic), calls_of_the_jvm() as calls:
            sink.write(rows, version=1)
        counts.append(len(calls))
    assert min(counts[1:]) <= 85
