"""Pins what semel takes from the plan of a batch: state, determinism, nullability, partitions, what is persisted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.state import GroupStateTimeout

from semel.spark.jvm import lineage, plan_size, status_store, streaming_query, versions
from semel.spark.jvm.values import Plan, Statefulness
from tests.spark.support.java_calls import calls_of_the_jvm
from tests.spark.support.running_queries import answers, ended_jobs, execution, numbers, standing_in
from tests.spark.support.spark_books import job_group


@pytest.fixture(scope="module", autouse=True)
def stand_in(spark: SparkSession) -> Iterator[None]:
    """In the sessions of this file, ``format("semel")`` is the stand-in."""
    with standing_in(spark):
        yield


# The plan


def count_groups(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    yield next(frames)[["value"]].head(1).assign(n=1)


Build = Callable[[DataFrame], DataFrame]
STATELESS: dict[str, Build] = {
    "filter": lambda rows: rows.filter("value > 3"),
    "shuffle, planned adaptively": lambda rows: rows.repartition(3),
    "python": lambda rows: rows.mapInArrow(lambda batches: batches, "timestamp timestamp, value long"),
    "watermark only": lambda rows: rows.withWatermark("timestamp", "1 second"),
    "union": lambda rows: rows.union(rows),
    "join with a static aggregate": lambda rows: rows.join(
        rows.sparkSession.range(5).groupBy("id").count(), functions.expr("value = id")
    ),
}
STATEFUL: dict[str, Build] = {
    "aggregate": lambda rows: rows.groupBy("value").count(),
    "session window": lambda rows: (
        rows.withWatermark("timestamp", "1 second")
        .groupBy(functions.session_window("timestamp", "2 seconds"), "value")
        .count()
    ),
    "drop duplicates": lambda rows: rows.dropDuplicates(["value"]),
    "drop duplicates within watermark": lambda rows: rows.withWatermark(
        "timestamp", "1 second"
    ).dropDuplicatesWithinWatermark(["value"]),
    "distinct": lambda rows: rows.distinct(),
    "limit": lambda rows: rows.limit(15),
    "join of streams": lambda rows: rows.alias("a").join(rows.alias("b"), functions.expr("a.value = b.value")),
    "python state": lambda rows: rows.groupBy("value").applyInPandasWithState(
        count_groups, "value long, n long", "n long", "update", GroupStateTimeout.NoTimeout
    ),
}
UPDATES = {"aggregate", "python state"}


def judge(frame: DataFrame, batch: int) -> Plan:
    return streaming_query.judge_plan(frame, execution(frame), batch)


@pytest.mark.parametrize("name", STATELESS)
def test_plans_that_keep_no_state(spark: SparkSession, name: str) -> None:
    _, [found] = answers(STATELESS[name](numbers(spark)), judge)
    assert (found.statefulness, found.operators) == (Statefulness.STATELESS, ())
    assert found.watermark == ("watermark" in name)
    assert found.deterministic


@pytest.mark.parametrize("name", STATEFUL)
def test_plans_that_keep_state(spark: SparkSession, name: str) -> None:
    _, [found] = answers(STATEFUL[name](numbers(spark)), judge, mode="update" if name in UPDATES else "append")
    assert found.statefulness is Statefulness.STATEFUL
    assert len(found.operators) > 1, "both witnesses see it"
    assert found.watermark == (name in ("session window", "drop duplicates within watermark"))


@pytest.mark.spark_4_2
def test_every_witness_of_state_is_a_class_of_spark(spark: SparkSession) -> None:
    """transformWithState needs packages that a test machine may lack, so its operators are pinned by their classes."""
    jvm: Any = spark._jvm
    load = jvm.java.lang.Class.forName
    version = versions.current()
    for name in streaming_query.STATEFUL_LOGICAL | {version.python_state, *streaming_query.WATERMARKS}:
        load(f"org.apache.spark.sql.catalyst.plans.logical.{name}")
    operator = load(version.stateful_operator)
    for name in (
        "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec",
        "org.apache.spark.sql.execution.python.streaming.FlatMapGroupsInPandasWithStateExec",
        "org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec",
        "org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate.FlatMapGroupsWithStateExec",
    ):
        assert operator.isAssignableFrom(load(name)), name


@pytest.mark.parametrize(
    ("expression", "deterministic"),
    [("rand()", False), ("uuid()", False), ("current_timestamp()", True), ("value + 1", True)],
)
def test_deterministic_is_what_a_replayed_batch_computes_again(
    spark: SparkSession, expression: str, deterministic: bool
) -> None:
    _, [found] = answers(numbers(spark).selectExpr(f"{expression} as x"), judge)
    assert found.deterministic is deterministic


def test_callbacks_own_frame_shows_nothing_of_the_plan(spark: SparkSession) -> None:
    def ask(frame: DataFrame, batch: int) -> str:
        plan: Any = frame._jdf.queryExecution().logical()
        return str(plan.getClass().getSimpleName())

    _, [found] = answers(numbers(spark).groupBy("value").count(), ask, mode="update")
    assert found == "LogicalRDD", "if it shows more one day, the running query's plan is not needed any more"


def _checkpointed(rows: DataFrame, way: str) -> DataFrame:
    session = rows.sparkSession
    if way == "an RDD":
        kept = rows.rdd.map(lambda row: (row.id,))
        kept.checkpoint()
        return session.createDataFrame(kept, "id long")
    return (
        rows.localCheckpoint(eager=way != "lazy and local") if "local" in way else rows.checkpoint(eager=way != "lazy")
    )


@pytest.mark.parametrize("way", ["eager", "lazy", "local", "lazy and local", "an RDD"])
def test_checkpoints_that_a_frame_is_read_from(spark: SparkSession, tmp_path: Path, way: str) -> None:
    """A lazy one is there when a job has run over its RDD, and is newer than all that was computed for it."""
    spark.sparkContext.setCheckpointDir(str(tmp_path))
    frame = _checkpointed(spark.range(10).repartition(2), way)
    if way in ("lazy", "lazy and local", "an RDD"):
        assert lineage.newest_checkpoint(frame) == -1
        with job_group(spark, f"first over {way}"):
            frame.count()
            first = ended_jobs(spark)[0]
        assert lineage.newest_checkpoint(frame) > max(
            stage.rdd for stage in status_store.stages(spark, first.stages).values()
        )
    newest = lineage.newest_checkpoint(frame)
    assert newest > 0
    frame.createOrReplaceTempView("kept")
    above = spark.range(10).where("id > (select max(id) from kept)").union(spark.range(3))
    assert lineage.newest_checkpoint(above) == newest, "of a subquery"
    assert lineage.newest_checkpoint(frame.join(_checkpointed(spark.range(3), "eager"), "id")) > newest
    assert lineage.newest_checkpoint(spark.range(10)) == -1


def test_newest_of_what_is_persisted(spark: SparkSession) -> None:
    persisted = [spark.sparkContext.parallelize([number], 1).persist() for number in range(3)]
    ids = [rdd.id() for rdd in persisted]
    assert lineage.newest_persisted(spark.range(1)) == max(ids)
    persisted[ids.index(max(ids))].unpersist()
    assert lineage.newest_persisted(spark.range(1)) == sorted(ids)[1]
    frame = spark.range(10).persist()
    frame.count()
    assert lineage.newest_persisted(spark.range(1)) > max(ids), "by anybody"
    frame.unpersist(blocking=True)
    for rdd in persisted:
        rdd.unpersist()
    assert lineage.newest_persisted(spark.range(1)) < min(ids)


def test_what_is_persisted_is_asked_for_in_few_calls(spark: SparkSession) -> None:
    """It is asked in each batch.

    The end of an iterator over what Java keeps is an exception there, which alone is eighty calls.
    """
    frame, persisted = spark.range(1), [spark.sparkContext.parallelize([number], 1).persist() for number in range(20)]
    with calls_of_the_jvm() as calls:
        lineage.newest_persisted(frame)
    with calls_of_the_jvm() as control:
        list(spark.sparkContext._jsc.getPersistentRDDs())
    for rdd in persisted:
        rdd.unpersist()
    assert len(calls) <= 5 < 40 < len(control)


def test_the_partitions_of_a_batch(spark: SparkSession) -> None:
    """By the RDD that Spark has made of the plan; whatever the function does to it may ask for others."""

    def judged(frame: DataFrame, _: int) -> list[int | None]:
        renamed = frame.selectExpr("cast(value as string) value").where("value <> '3'")
        others = (frame.repartition(2), frame.groupBy("value").count(), frame.union(frame), frame.join(frame, "value"))
        return [plan_size.partitions_of_batch(each) for each in (frame, renamed, *others)]

    assert answers(numbers(spark).coalesce(1), judged)[1] == [[1, 1, None, None, None, None]]
    assert answers(numbers(spark).repartition(3), judged)[1] == [[3, 3, None, None, None, None]]


def test_the_partitions_of_a_batch_are_asked_in_few_calls(spark: SparkSession) -> None:
    def counted(frame: DataFrame, _: int) -> int:
        with calls_of_the_jvm() as calls:
            plan_size.partitions_of_batch(frame)
        return len(calls)

    (asked,) = answers(numbers(spark).coalesce(1), counted)[1]
    assert asked <= 6


def test_plans_that_only_choose_columns_and_rows(spark: SparkSession) -> None:
    plain = {"filter"}
    for name, build in STATELESS.items():
        if name != "join with a static aggregate":
            _, [found] = answers(build(numbers(spark)), judge)
            assert found.plain == (name in plain), name
    same = functions.udf(lambda value: value, "long")
    _, [found] = answers(numbers(spark).select(same("value")), judge)
    assert not found.plain


def test_a_function_in_the_plan_of_a_batch(spark: SparkSession) -> None:
    same = functions.udf(lambda value: value, "long")
    columns = spark.range(3).selectExpr("id * 2 as id").where("id > 0")
    assert plan_size.chooses_columns(columns)
    assert not plan_size.chooses_columns(columns.select(same("id")))
    assert not plan_size.chooses_columns(columns.where("id in (select id from range(2))"))


def test_the_rows_of_a_batch_job_that_spark_knows(
    spark: SparkSession, setting: Callable[[str, str], None], tmp_path: Path
) -> None:
    same = functions.udf(lambda value: value, "long")
    counted = spark.range(0, 50, 1, 4).selectExpr("id * 2 as id").where("id > 3")
    assert plan_size.rows_of_batch_job(counted, 50) == 50
    assert plan_size.rows_of_batch_job(counted, 49) is None
    for more in (counted.select(same("id")), counted.repartition(2), counted.union(counted), counted.distinct()):
        assert plan_size.rows_of_batch_job(more, 1_000) is None
    rows = pandas.DataFrame({"id": range(7)})
    setting("spark.sql.execution.arrow.pyspark.enabled", "true")
    assert plan_size.rows_of_batch_job(spark.createDataFrame(rows), 50) == 7
    assert plan_size.rows_of_batch_job(spark.createDataFrame([(1,)], "id long"), 50) is None, "an RDD"
    spark.range(30).write.parquet(str(tmp_path / "few"))
    assert plan_size.rows_of_batch_job(spark.read.parquet(str(tmp_path / "few")), 50) == 50, "as good as few"
    (tmp_path / "many.txt").write_text("x" * (3 << 20))
    assert plan_size.rows_of_batch_job(spark.read.text(str(tmp_path / "many.txt")), 50) is None


def test_the_rows_of_what_is_cached(spark: SparkSession) -> None:
    cached = spark.range(20).groupBy("id").count().cache()
    try:
        assert plan_size.rows_of_batch_job(cached.select("id"), 50) is None, "not computed yet"
        cached.count()
        assert plan_size.rows_of_batch_job(cached.select("id"), 50) == 20
    finally:
        cached.unpersist()


def test_a_column_that_the_plan_itself_makes_null(spark: SparkSession) -> None:
    values = spark.range(3).selectExpr("cast(id as string) value")
    null = values.withColumn("key", functions.lit(None))
    plans = {
        True: (
            null,
            values.select(functions.lit(None).cast("string").cast("binary").alias("key"), "value"),
            null.where("value <> '1'").alias("other").select("value", "key"),
        ),
        False: (
            values.withColumn("key", functions.col("value")),
            values.withColumn("key", functions.lit("")),
            values.withColumn("key", functions.expr("nullif(value, value)")),
            null.select("value", functions.coalesce("key", "value").alias("key")),
            null.unionByName(values.withColumn("key", functions.col("value"))),
        ),
    }
    for told, frames in plans.items():
        assert [lineage.is_null_column(frame, "key") for frame in frames] == [told] * len(frames)
    wide = values.select("value", *(functions.lit(number).alias(f"c{number}") for number in range(100)))
    keyed = wide.withColumn("key", functions.col("value")).withColumn("more", functions.lit(1)).select("key", "value")
    with calls_of_the_jvm() as calls:
        assert not lineage.is_null_column(keyed, "key")
    assert len(calls) <= 50

    def judged(frame: DataFrame, _: int) -> tuple[bool, bool]:
        null, given = (
            frame.withColumn("key", functions.lit(None)),
            frame.withColumn("key", functions.col(frame.columns[0])),
        )
        return lineage.is_null_column(null, "key"), lineage.is_null_column(given, "key")

    assert answers(numbers(spark), judged)[1] == [(True, False)]


def test_checkpoint_in_the_lineage_of_a_micro_batch(spark: SparkSession) -> None:
    static = spark.range(10).localCheckpoint()
    joined = numbers(spark).join(static.hint("merge"), functions.col("value") == static.id)
    _, [found] = answers(joined, lambda frame, batch: lineage.newest_checkpoint(frame))
    assert found == lineage.newest_checkpoint(static)


@pytest.mark.usefixtures("nothing_is_forgotten")
def test_a_checkpoint_leaves_a_shuffle_behind_it_its_rdd(spark: SparkSession, tmp_path: Path) -> None:
    """What is behind the checkpoint is read from it from then on: computed again, it is a stage of other RDDs, and
    still the same shuffle.
    """
    spark.sparkContext.setCheckpointDir(str(tmp_path))
    kept = spark.sparkContext.parallelize(range(10), 2).map(lambda number: (number, number))
    kept.checkpoint()
    shuffled = kept.map(lambda pair: pair).partitionBy(2)
    with job_group(spark, "behind a checkpoint"):
        shuffled.count()
        shuffled.count()
        jobs = ended_jobs(spark)
    computed, checkpoint, found_done = [
        [status_store.stages(spark, job.stages)[id] for id in sorted(job.stages)] for job in jobs
    ]
    assert len(checkpoint) == 1
    assert [stage.completed > 0 for stage in (computed[0], found_done[0])] == [True, False]
    assert computed[0].rdd == found_done[0].rdd
