"""What the sink prints, and batch jobs: versions, prefixes, rows whose keys decide nothing."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from semel.admin.progress_rename import rename
from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from semel.wire.client import Client
from tests.spark.support.copy_query import Line
from tests.spark.support.topics_and_drivers import create, produce, unique, values

#: However few rows there are.
SEVERAL_TASKS = {"minRecordsPerPartition": 1}


def sink(kafka: Sandbox, topic: str, **options: object) -> KafkaSink:
    return KafkaSink(
        **{
            "topic": topic,
            "transactionalIdPrefix": topic,
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            **options,
        }
    )


def rows(spark: SparkSession, text: str, *, count: int = 40) -> DataFrame:
    number = f.col("id").cast("string")
    return spark.range(0, count, 1, 2).select(
        f.concat(f.lit("k"), number).alias("key"), f.concat(f.lit(text), number).alias("value")
    )


def test_each_commit_is_one_line(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = Line.new(spark, kafka, tmp_path, "logged")
    produce(kafka, line.source, range(250))
    with caplog.at_level(logging.INFO, "semel"):
        line.run()
    line_of_a_commit = re.compile(r"batch \d+ of '.+': 1?\d\d? rows, \d+ bytes, \d+ ms")
    told = [
        r.getMessage() for r in caplog.records if r.name == "semel.spark" and line_of_a_commit.fullmatch(r.getMessage())
    ]
    assert [text.split(" rows")[0] for text in told] == [
        f"batch {n} of {line.prefix!r}: {rows}" for n, rows in enumerate((100, 100, 50))
    ]


def test_without_a_version_it_is_said_that_a_second_run_writes_again(
    spark: SparkSession, kafka: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create(kafka, "again", 2)
    with caplog.at_level(logging.WARNING, "semel"):
        for _ in range(2):
            sink(kafka, topic).write(rows(spark, "v"))
    assert caplog.text.count("if this job is run again, its rows are written again") == 2
    assert len(values(kafka.bootstrap_servers, topic)) == 80


def test_a_batch_job_that_is_renamed_goes_on_where_it_was(spark: SparkSession, kafka: Sandbox) -> None:
    topic, new = create(kafka, "renamed", 2), unique("renamed-new")
    assert sink(kafka, topic).write(rows(spark, "v"), version=7) is not None
    with Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as client:
        rename(client, topic, new, scope="batch")
    renamed = {"transactionalIdPrefix": new}
    assert sink(kafka, topic, **renamed).write(rows(spark, "v"), version=7) is None
    assert sink(kafka, topic, **renamed).write(rows(spark, "w"), version=8) is not None
    with pytest.raises(ConfigError, match="PREFIX_MOVED"):
        sink(kafka, topic).write(rows(spark, "x"), version=9)
    assert len(values(kafka.bootstrap_servers, topic)) == 80


def test_keys_that_decide_nothing(spark: SparkSession, kafka: Sandbox) -> None:
    """``partitioner=any``: keyed rows are neither shuffled nor hashed, and each task writes the partitions of its
    ticket.
    """
    topic = create(kafka, "any", 4)
    totals = sink(kafka, topic, partitioner="any", **SEVERAL_TASKS).write(rows(spark, "v"), version=1)
    assert totals is not None
    assert (totals.rows, totals.retries) == (40, 0)
    assert sorted(values(kafka.bootstrap_servers, topic)) == sorted(f"v{i}" for i in range(40))


@pytest.mark.parametrize(("key", "shuffled"), [("cast(null as string)", False), ("if(id < 0, 'k', null)", True)])
def test_keys_that_are_null(
    spark: SparkSession, kafka: Sandbox, caplog: pytest.LogCaptureFixture, key: str, shuffled: bool
) -> None:
    """Where the plan says so, they are not shuffled; where only the rows say so, all of them come as well."""
    topic = create(kafka, "null", 4)
    with caplog.at_level(logging.DEBUG, "semel"):
        totals = sink(kafka, topic, **SEVERAL_TASKS).write(
            spark.range(0, 40, 1, 2).selectExpr(f"{key} key", "concat('v', id) value"), version=1
        )
    assert totals is not None
    assert (totals.rows, totals.retries) == (40, 0)
    assert ("not shuffled" in caplog.text) != shuffled
    assert sorted(values(kafka.bootstrap_servers, topic)) == sorted(f"v{i}" for i in range(40))


@pytest.mark.parametrize("codec", [pytest.param("none", marks=pytest.mark.exhaustive), "lz4"])
def test_large_rows_that_shrink_and_that_do_not(spark: SparkSession, kafka: Sandbox, codec: str) -> None:
    """They cross the shuffle compressed or as they are, and come out the same, in the codec of the sink."""
    topic = create(kafka, "shrinks", 3)
    text = f.when(f.col("id") % 2 == 0, f.repeat(f.lit("v"), 40_000)).otherwise(
        f.concat(*(f.sha2(f.concat_ws("-", "id", f.lit(part)), 512) for part in range(300)))
    )
    df = spark.range(0, 60, 1, 2).select(f.col("id").cast("string").alias("key"), text.alias("value"))
    totals = sink(kafka, topic, **SEVERAL_TASKS, **{"kafka.compression.type": codec}).write(df, version=1)
    assert totals is not None
    assert (totals.rows, totals.retries) == (60, 0)
    assert sorted(values(kafka.bootstrap_servers, topic)) == sorted(row.value for row in df.collect())


def test_a_job_does_not_fence_a_query_of_its_own_application(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path
) -> None:
    line = Line.new(spark, kafka, tmp_path, "live")
    produce(kafka, line.source, range(100))
    writer = (
        line.rows()
        .select("key", "value")
        .writeStream.foreachBatch(line.sink())
        .option("checkpointLocation", str(line.checkpoint))
    )
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        with pytest.raises(ConfigError, match="PREFIX_IN_USE"):
            line.sink().write(rows(spark, "v"), version=1)
        produce(kafka, line.source, range(100, 200))
        query.processAllAvailable()
    finally:
        query.stop()
    line.assert_exact()
