"""Objection 6: the same batch has other rows when it is run again, in another partitioning: one run of it is visible,
whole.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from tests.spark.support.copy_query import Callback, Crashed, Line, crash_behind, killing
from tests.spark.support.topics_and_drivers import everything, produce, values


def test_rows_differ_between_runs(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    """Each run of a batch draws one number for all its rows.

    A worker is killed in mid-batch, and a run ends behind its commit.
    """
    line = Line.new(spark, kafka, tmp_path, "differ")
    produce(kafka, line.source, range(300))

    def drawn(run: int) -> DataFrame:
        value = f.to_json(
            f.struct(
                f.get_json_object(f.col("value").cast("string"), "$.id").alias("id"),
                f.rand().alias("r"),
                f.lit(run).alias("run"),
            )
        )
        keyed = line.rows().select(f.when(f.rand() < 0.5, f.col("key")).alias("key"), value.alias("value"))
        return keyed.repartition(run)

    with pytest.raises(Crashed):
        line.run(rows=killing(drawn(1), tmp_path / "killed"), around=crash_behind(0))
    with pytest.raises(Crashed):
        line.run(rows=drawn(3), around=crash_behind(1))
    line.run(rows=drawn(2))
    seen = [json.loads(value) for value in values(kafka.bootstrap_servers, line.target)]
    assert sorted(int(row["id"]) for row in seen) == list(range(300))
    assert {run: sum(row["run"] == run for row in seen) for run in (1, 2, 3)} == {1: 100, 3: 100, 2: 100}


def test_aborted_run_is_not_mixed_with_the_one_that_counts(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    line = Line.new(spark, kafka, tmp_path, "mixed")
    produce(kafka, line.source, range(100))

    def failing(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, number: int) -> None:
            marked = df.select("key", f.concat(f.col("value"), f.lit(" "), f.rand().cast("string")).alias("value"))
            sink(killing(marked.coalesce(1).sortWithinPartitions("value"), tmp_path / "killed"), number)

        return callback

    line.run(rows=line.rows().select("key", f.col("value").cast("string")), around=failing)
    seen = values(kafka.bootstrap_servers, line.target)
    assert len(seen) == len({json.loads(value.rpartition(" ")[0])["id"] for value in seen}) == 100
    assert set(seen) <= set(everything(kafka.bootstrap_servers, line.target))
