"""The source's own columns ``partition`` and ``timestamp`` that are written on: a warning says what they do."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from semel.sandbox import Sandbox
from semel.testing.records import read
from tests.spark.support.copy_query import Line
from tests.spark.support.topics_and_drivers import create, produce

PARTITION = "partition: each row goes to the partition number it was read from"
TIMESTAMP = "timestamp: each row keeps its time"


@pytest.fixture
def line(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Line:
    made = Line.new(spark, kafka, tmp_path, "columns")
    produce(kafka, made.source, range(20))
    return made


def test_rows_go_where_they_came_from_and_a_warning_says_so(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    line.target = create(line.kafka, "columns-eight", 8)
    with caplog.at_level(logging.WARNING, "semel.spark"):
        line.run(rows=line.rows().filter("offset >= 0"), reading={}, maxBatchRetries=0)
    said = [record.getMessage() for record in caplog.records if "columns of its source" in record.getMessage()]
    assert len(said) == 1, "once a run"
    assert PARTITION in said[0]
    assert TIMESTAMP in said[0]
    assert said[0].endswith("Otherwise: drop('partition', 'timestamp').")
    rows = read(line.kafka.bootstrap_servers, [line.target], {"at": "partition", "value": "value"}).to_pylist()
    assert {(int(row["at"]), json.loads(row["value"])["id"] % 2) for row in rows} == {(0, 0), (1, 1)}


@pytest.mark.parametrize("sources", ["union", "in the function"])
def test_it_is_seen_behind_a_union_and_in_the_function(
    line: Line, caplog: pytest.LogCaptureFixture, sources: str
) -> None:
    rows = line.rows().select("key", "value", "partition")
    if sources == "union":
        rows = rows.unionAll(rows)
    with caplog.at_level(logging.WARNING, "semel.spark"):
        line.run(rows=rows, around=lambda sink: lambda df, number: sink(df.where("key is not null"), number))
    assert PARTITION in caplog.text
    assert TIMESTAMP not in caplog.text


@pytest.mark.parametrize(
    "changed",
    [
        lambda rows: rows.select("key", "value"),
        lambda rows: rows.withColumn("partition", f.col("partition") % 2).drop("timestamp"),
        lambda rows: rows.select("key", "value", f.current_timestamp().alias("timestamp")),
    ],
    ids=["dropped", "computed", "another"],
)
def test_columns_of_ones_own_are_not_warned_of(
    line: Line, caplog: pytest.LogCaptureFixture, changed: Callable[[DataFrame], DataFrame]
) -> None:
    with caplog.at_level(logging.WARNING, "semel.spark"):
        line.run(rows=changed(line.rows()))
    assert "columns of its source" not in caplog.text
