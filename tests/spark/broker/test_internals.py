"""Pins every internal of Spark that semel leans on, on running queries: a new version of Spark that changes one shows
here first.
"""

from __future__ import annotations

import ast
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import pyarrow as pa
import pyspark
import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import MEMORY_COMMAND_NAME, Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from semel.errors import Fenced, Unsupported
from semel.spark.errors import QueryStopped, error
from semel.spark.jvm import lineage, status_store, streaming_query
from semel.spark.jvm.values import Callback, Execution, Job, Plan, Settings, SourceInfo, Statefulness, Trigger
from semel.spark.sink.micro_batch import MicroBatch, Query, observe
from semel.spark.sink.reconcile import Run, Skip, reconcile
from semel.spark.source_offset import SourceOffset, TopicOffset, as_dict, parse
from semel.transaction.progress.record import KafkaSource, OpaqueSource, Progress, TopicEnd
from tests.spark.support.copy_query import cut
from tests.spark.support.session import KEPT_STAGES
from tests.spark.support.spark_books import job_group, many_jobs

T = TypeVar("T")
PATIENCE = 60.0


class StandInReader(DataSourceStreamReader):
    """Five rows a batch of partition 0, and from the third offset on a partition 1, in the offset JSON of our
    source.
    """

    def __init__(self) -> None:
        self.asked = 0

    def initialOffset(self) -> dict[str, Any]:
        return as_dict(SourceOffset("c", {"in": TopicOffset("t", {0: 5}, {0: 5})}, initial=True))

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        before = start or self.initialOffset()
        ends = {int(p): int(end) for p, end in before["topics"]["in"]["end"].items()}
        began = {int(p): int(end) for p, end in before["topics"]["in"]["began"].items()}
        ends[0] += 5
        if ends[0] >= 20:
            began.setdefault(1, 3)
            ends[1] = ends.get(1, 3) + 1
        return as_dict(SourceOffset("c", {"in": TopicOffset("t", began, ends)}))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"key": pa.array([b"k"]), "value": pa.array([b"v"])})


class StandIn(DataSource):
    """Stands in for our source: the sink knows it by its name and its JSON alone."""

    @classmethod
    def name(cls) -> str:
        return "semel"

    def schema(self) -> str:
        return "key binary, value binary"

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return StandInReader()


@pytest.fixture(scope="module", autouse=True)
def stand_in(spark: SparkSession) -> None:
    """In the sessions of this file, ``format("semel")`` is the stand-in."""
    spark.dataSource.register(StandIn)


def ours(spark: SparkSession, name: str | None = None) -> DataFrame:
    reader = spark.readStream.format("semel")
    return (reader.name(name) if name else reader).load()


def numbers(spark: SparkSession, name: str | None = None) -> DataFrame:
    reader = (
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("advanceMillisPerBatch", 5000)
    )
    return (reader.name(name) if name else reader).load()


def keys(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("cast('x' as string) as key")


Ask = Callable[[DataFrame, int], T]


def start(
    frame: DataFrame, callback: Callable[[DataFrame, int], None], mode: str, checkpoint: Path | None, **trigger: Any
) -> StreamingQuery:
    writer = (
        frame.writeStream.foreachBatch(callback)
        .outputMode(mode)
        .trigger(**(trigger or {"processingTime": "0 seconds"}))
    )
    return writer.start(**({"checkpointLocation": str(checkpoint)} if checkpoint is not None else {}))


def answers(
    frame: DataFrame,
    ask: Ask[T],
    count: int = 1,
    *,
    mode: str = "append",
    checkpoint: Path | None = None,
    **trigger: Any,
) -> tuple[StreamingQuery, list[T]]:
    """What ``ask`` answers in the first callbacks of a query, which is stopped then. An error in a callback is raised
    here.

    Batches are not executed: each would cost a Python worker.
    """
    found: queue.Queue[T | BaseException] = queue.Queue()

    def callback(batch_frame: DataFrame, batch: int) -> None:
        try:
            found.put(ask(batch_frame, batch))
        except BaseException as caught:
            found.put(caught)
            raise

    running = start(frame, callback, mode, checkpoint, **trigger)
    collected: list[T] = []
    try:
        while len(collected) < count:
            answer = found.get(timeout=PATIENCE)
            if isinstance(answer, BaseException):
                raise answer
            collected.append(answer)
    finally:
        running.stop()
    return running, collected


def called(frame: DataFrame) -> Callback:
    found = streaming_query.callback(frame)
    assert found is not None
    return found


def execution(frame: DataFrame) -> Execution:
    return streaming_query.find_query(frame, called(frame).query)


# Who calls


def test_callback_knows_its_query_run_and_batch(spark: SparkSession) -> None:
    running, found = answers(numbers(spark), lambda frame, batch: (called(frame), batch), 2)
    assert [call.batch for call, _ in found] == [batch for _, batch in found] == [0, 1]
    assert {(call.query, call.run) for call, _ in found} == {(running.id, running.runId)}


def test_outside_of_foreach_batch_there_is_no_callback(spark: SparkSession) -> None:
    assert streaming_query.callback(spark.range(1)) is None
    with pytest.raises(Unsupported, match="NO_CALLBACK"):
        observe(spark.range(1))


def test_query_is_found_where_the_callbacks_own_session_lists_none(spark: SparkSession, tmp_path: Path) -> None:
    def ask(frame: DataFrame, batch: int) -> tuple[Execution, int]:
        return execution(frame), len(frame.sparkSession.streams.active)

    running, [(found, listed)] = answers(numbers(spark), ask, checkpoint=tmp_path / "cp")
    assert listed == 0, "if Spark lists it here one day, the shared state is not needed any more"
    assert (found.query, found.run, found.name) == (running.id, running.runId, None)
    assert found.checkpoint == f"file:{tmp_path / 'cp'}", "a URI with one slash, also where a path was given"
    assert not found.temporary
    assert found.trigger is Trigger.PROCESSING_TIME


def test_query_without_a_checkpoint_location_has_a_temporary_one(spark: SparkSession) -> None:
    _, [found] = answers(numbers(spark), lambda frame, batch: execution(frame))
    assert found.temporary
    assert found.checkpoint.startswith("file:/")


def test_query_of_another_session_with_a_name_is_found(spark: SparkSession, tmp_path: Path) -> None:
    found: queue.Queue[Execution] = queue.Queue()
    writer = (
        numbers(spark.newSession())
        .writeStream.queryName("by-name")
        .option("checkpointLocation", str(tmp_path / "temporary-of-mine"))
    )
    running = writer.foreachBatch(lambda frame, batch: found.put(execution(frame))).start()
    try:
        answer = found.get(timeout=PATIENCE)
    finally:
        running.stop()
    assert (answer.name, answer.query, answer.temporary) == ("by-name", running.id, False)


@pytest.mark.parametrize(
    ("trigger", "expected"), [({"availableNow": True}, Trigger.AVAILABLE_NOW), ({"once": True}, Trigger.ONCE)]
)
def test_triggers_that_end_by_themselves(
    spark: SparkSession, tmp_path: Path, trigger: dict[str, Any], expected: Trigger
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.txt").write_text("a\nb\n")
    _, [found] = answers(spark.readStream.text(str(tmp_path / "in")), lambda frame, batch: execution(frame), **trigger)
    assert found.trigger is expected


def test_every_trigger_has_the_name_of_a_class_of_spark(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    for trigger in Trigger:
        jvm.java.lang.Class.forName(f"org.apache.spark.sql.execution.streaming.{trigger.value}")


def test_sources_in_python_cannot_report_lag_as_spark_names_it(spark: SparkSession) -> None:
    """docs/metrics.md says so. Where this fails, semel can give ``avgOffsetsBehindLatest`` and its likes."""
    jvm: Any = spark._jvm
    python = "org.apache.spark.sql.execution.datasources.v2.python"
    reports = jvm.java.lang.Class.forName("org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics")
    for name in ("PythonMicroBatchStreamWithAdmissionControl", "PythonMicroBatchStreamWithTriggerAvailableNow"):
        assert not reports.isAssignableFrom(jvm.java.lang.Class.forName(f"{python}.{name}"))


def test_asynchronous_progress_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its offset log is written behind the batches.

    Spark itself refuses it for foreachBatch, unless it is told not to.
    """
    caught: queue.Queue[BaseException] = queue.Queue()

    def callback(frame: DataFrame, batch: int) -> None:
        try:
            execution(frame)
        except Unsupported as refused:
            caught.put(refused)

    options = {"asyncProgressTrackingEnabled": "true", "_asyncProgressTrackingOverrideSinkSupportCheck": "true"}
    writer = numbers(spark).writeStream.options(**options).option("checkpointLocation", str(tmp_path / "cp"))
    running = writer.foreachBatch(callback).start()
    try:
        refused = caught.get(timeout=PATIENCE)
    finally:
        running.stop()
    assert "AsyncProgressTrackingMicroBatchExecution" in str(refused)
    assert "[SEMEL_QUERY_KIND]" in str(refused)


# The offset log


def test_offset_log_has_the_end_of_the_batch_before_it_runs(spark: SparkSession) -> None:
    def ask(frame: DataFrame, batch: int) -> tuple[Any, ...]:
        found = execution(frame)
        return tuple(streaming_query.offset_log_entry(found, n) for n in (batch - 1, batch, batch + 1))

    _, [first, second] = answers(ours(spark), ask, 2)
    before, entry, after = first
    assert (before, after) == (None, None)
    assert entry.version == 1
    assert list(entry.offsets) == ["0"]
    assert parse(entry.offsets["0"]) == SourceOffset("c", {"in": TopicOffset("t", {0: 5}, {0: 10})})
    assert second[0] == entry


def ask_sources(frame: DataFrame, batch: int) -> tuple[tuple[SourceInfo, ...], Any]:
    found = execution(frame)
    return streaming_query.sources(found), streaming_query.offset_log_entry(found, batch)


def test_sources_are_in_the_order_of_the_offset_log_and_ours_is_known_by_its_format(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "rows.txt").write_text("a\n")
    frame = keys(numbers(spark)).union(keys(ours(spark))).union(keys(spark.readStream.text(str(tmp_path))))
    _, [(sources, entry)] = answers(frame, ask_sources)
    assert sources == (SourceInfo(None, "0", False), SourceInfo(None, "1", True), SourceInfo(None, "2", False))
    assert [entry.offsets[str(n)][:12] for n in range(3)] == ['{"offset":10', '{"cluster": ', '{"logOffset"']


def test_the_group_of_a_source_of_ours(spark: SparkSession) -> None:
    frame = spark.readStream.format("semel").option("kafka.Group.ID", "readers").load()
    _, [(sources, _)] = answers(keys(frame).union(keys(ours(spark))), ask_sources)
    assert sources == (SourceInfo(None, "0", True, "readers"), SourceInfo(None, "1", True, None))


def test_source_used_twice_is_two_sources(spark: SparkSession) -> None:
    once = keys(ours(spark))
    _, [(sources, entry)] = answers(once.union(once), ask_sources)
    assert [source.ours for source in sources] == [True, True]
    assert entry.offsets["0"] == entry.offsets["1"]


def test_source_used_twice_has_one_key_in_version_2_of_the_log(
    spark: SparkSession, setting: Callable[[str, str], None]
) -> None:
    setting("spark.sql.streaming.offsetLog.formatVersion", "2")
    once = keys(ours(spark))
    _, [(sources, entry)] = answers(once.union(once), ask_sources)
    assert entry.version == 2
    assert [source.key for source in sources] == ["1", "1"]
    assert list(entry.offsets) == ["1"]


def test_two_sources_in_version_2_of_the_log(spark: SparkSession, setting: Callable[[str, str], None]) -> None:
    setting("spark.sql.streaming.offsetLog.formatVersion", "2")
    _, [(sources, entry)] = answers(keys(ours(spark)).union(keys(numbers(spark))), ask_sources)
    assert sources == (SourceInfo(None, "0", True), SourceInfo(None, "1", False))
    assert set(entry.offsets) == {"0", "1"}


def test_sources_with_names(spark: SparkSession, setting: Callable[[str, str], None]) -> None:
    setting("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    _, [(sources, entry)] = answers(keys(numbers(spark, "left")).union(keys(ours(spark, "right"))), ask_sources)
    assert sources == (SourceInfo("left", "left", False), SourceInfo("right", "right", True))
    assert (entry.version, set(entry.offsets)) == (2, {"left", "right"})


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


def test_every_witness_of_state_is_a_class_of_spark(spark: SparkSession) -> None:
    """transformWithState needs packages that a test machine may lack, so its operators are pinned by their classes."""
    jvm: Any = spark._jvm
    load = jvm.java.lang.Class.forName
    for name in streaming_query.STATEFUL_LOGICAL | set(streaming_query.WATERMARKS):
        load(f"org.apache.spark.sql.catalyst.plans.logical.{name}")
    operator = load(streaming_query.STATEFUL_OPERATOR)
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


# Settings, stages


def test_settings_in_force(spark: SparkSession, setting: Callable[[str, str], None]) -> None:
    plain = Settings(
        state_format=1,
        commit_validation=True,
        pipelined=False,
        retained_stages=KEPT_STAGES,
        retained_jobs=1000,
    )
    _, [found] = answers(numbers(spark), lambda frame, batch: streaming_query.settings(frame))
    assert found == plain
    setting("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
    setting("spark.sql.streaming.stateStore.commitValidation.enabled", "false")
    _, [found] = answers(numbers(spark), lambda frame, batch: streaming_query.settings(frame))
    assert (found.state_format, found.commit_validation) == (2, False)


def test_stage_of_a_finished_job(spark: SparkSession) -> None:
    def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"stage": pa.array([context.stageId()], pa.int32())})

    rows = spark.range(10).repartition(3).mapInArrow(report, "stage int").collect()
    [number] = {row.stage for row in rows}
    found = status_store.stage(spark, number)
    assert found is not None
    assert (found.id, found.attempt, found.tasks, found.failed) == (number, 0, len(rows), 0)
    assert status_store.stage(spark, 1_000_000) is None


@pytest.fixture
def nothing_is_forgotten(spark: SparkSession) -> None:
    """For a test of up to ten stages.

    Where Spark keeps all that it may, the next one has it forget a tenth, those that were found done first. A store
    that keeps many more has stopped forgetting (seen: 977 of 200, with no error): there is nothing to wait for then.
    """
    room = 10
    for _ in range(2 * room):
        if len(status_store.stages(spark, range(1_000_000))) <= KEPT_STAGES - room:
            break
        spark.sparkContext.parallelize([1], 1).count()
        assert status_store.wait_until_current(spark, PATIENCE)


@pytest.mark.usefixtures("nothing_is_forgotten")
def test_jobs_of_a_group_and_what_their_stages_have_computed(spark: SparkSession) -> None:
    """With adaptive execution a stage has a job to itself, and stands in later ones as done: with the same RDDs, and no
    task completed.
    """
    with job_group(spark, "grouped"):
        spark.sparkContext.addJobTag("tagged")
        spark.range(10).repartition(3).groupBy("id").count().collect()
        spark.sparkContext.removeJobTag("tagged")
        found = _ended(spark)
    assert all("tagged" in job.tags for job in found), "beside those of Spark's own"
    assert [(job.completed, job.failed, job.computed_one) for job in found] == [(1, 0, True)] * 3
    runs = [[status_store.stage(spark, stage) for stage in sorted(job.stages)] for job in found]
    told = [[stage for stage in job if stage is not None] for job in runs]
    assert [len(job) for job in told] == [1, 2, 3]
    assert [[stage.completed > 0 for stage in job] for job in told] == [[True], [False, True], [False, False, True]]
    assert [(job.completed_tasks, job.failed_tasks) for job in found] == [(stages[-1].tasks, 0) for stages in told]
    assert {stage.attempt for job in told for stage in job} == {0}
    assert told[1][0].rdd == told[0][0].rdd
    assert [stage.rdd for stage in told[2][:2]] == [told[0][0].rdd, told[1][1].rdd]
    assert len({stage.rdd for job in told for stage in job}) == 3
    with job_group(spark, "another"):
        assert status_store.job_ids(spark) == []
    assert status_store.job(spark, 1_000_000) is None
    assert status_store.stage(spark, 1_000_000) is None


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
            first = _ended(spark)[0]
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


def test_a_batch_of_one_partition(spark: SparkSession) -> None:
    """By the RDD that Spark has made of the plan; whatever the function does to it may ask for more."""

    def judged(frame: DataFrame, _: int) -> list[bool]:
        renamed = frame.selectExpr("cast(value as string) value").where("value <> '3'")
        others = (frame.repartition(2), frame.groupBy("value").count(), frame.union(frame), frame.join(frame, "value"))
        return [lineage.is_one_partition(each) for each in (frame, renamed, *others)]

    assert answers(numbers(spark).coalesce(1), judged)[1] == [[True, True, False, False, False, False]]
    assert answers(numbers(spark).repartition(3), judged)[1] == [[False] * 6]


def test_whether_it_is_one_partition_is_asked_in_few_calls(spark: SparkSession) -> None:
    def counted(frame: DataFrame, _: int) -> int:
        with calls_of_the_jvm() as calls:
            lineage.is_one_partition(frame)
        return len(calls)

    (asked,) = answers(numbers(spark).coalesce(1), counted)[1]
    assert asked <= 14


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


@contextmanager
def calls_of_the_jvm() -> Iterator[list[str]]:
    """What this process asks its JVM, without what it lets go of."""
    asked: list[str] = []
    send = GatewayClient.send_command

    def listening(client: GatewayClient, command: str, *args: Any, **named: Any) -> Any:
        if not command.startswith(MEMORY_COMMAND_NAME):
            asked.append(command)
        return send(client, command, *args, **named)

    with patch.object(GatewayClient, "send_command", listening):
        yield asked


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
        jobs = _ended(spark)
    computed, checkpoint, found_done = [
        [status_store.stages(spark, job.stages)[id] for id in sorted(job.stages)] for job in jobs
    ]
    assert len(checkpoint) == 1
    assert [stage.completed > 0 for stage in (computed[0], found_done[0])] == [True, False]
    assert computed[0].rdd == found_done[0].rdd


def test_books_that_are_waited_for(spark: SparkSession) -> None:
    with job_group(spark, "shown at once"):
        for number in range(1, 20):
            spark.sparkContext.parallelize([1]).count()
            assert status_store.wait_until_current(spark, 10)
            assert len(status_store.job_ids(spark)) == number


def test_jobs_that_spark_has_forgotten_since(spark: SparkSession) -> None:
    """One that it keeps and that ended before says that none is."""
    start = int(time.time() * 1000)
    many_jobs(spark)
    assert status_store.wait_until_current(spark, PATIENCE)
    end = int(time.time() * 1000)
    assert status_store.forgot_jobs_since(spark, lambda: start)
    assert not status_store.forgot_jobs_since(spark, lambda: end)


def test_when_a_micro_batch_began(spark: SparkSession) -> None:
    def look(frame: DataFrame, batch: int) -> tuple[float, int, float]:
        called = streaming_query.callback(frame)
        assert called is not None
        return before, streaming_query.batch_start_ms(frame, called.run), time.time() * 1000

    before = time.time() * 1000 - 1
    _, found = answers(numbers(spark), look)
    assert found
    assert all(earlier <= began <= now for earlier, began, now in found)


def test_books_do_not_wait_for_listeners_of_others(spark: SparkSession, tmp_path: Path) -> None:
    busy, over = threading.Event(), threading.Event()

    class Slow(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

        def onQueryProgress(self, event: QueryProgressEvent) -> None: ...

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
            busy.set()
            over.wait(PATIENCE)

    slow = Slow()
    spark.streams.addListener(slow)
    try:
        writer = (
            spark.readStream.format("rate")
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path))
        )
        writer.trigger(once=True).start().awaitTermination()
        assert busy.wait(PATIENCE)
        assert status_store.wait_until_current(spark, PATIENCE)
        assert not over.is_set()
        with pytest.raises(Py4JJavaError, match="TimeoutException"):  # the control: Spark's bus is not empty
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(100)
    finally:
        over.set()
        spark.streams.removeListener(slow)


@pytest.mark.usefixtures("nothing_is_forgotten")
def test_stages_in_one_answer_are_as_they_are_one_by_one(spark: SparkSession) -> None:
    with job_group(spark, "with several stages"):
        spark.range(10).repartition(3).groupBy("id").count().collect()
        ids = {id for job in _ended(spark) for id in job.stages}
    few = status_store.stages(spark, ids)
    assert few.keys() == ids
    assert {id: status_store.stage(spark, id) for id in ids} == few
    assert status_store.stages(spark, {*ids, *range(1_000_000, 1_000_200)}) == few, "most of them are not known"
    assert status_store.stages(spark, {*ids, 1_000_000}) == few


@pytest.mark.parametrize("within", ["a broadcast", "a subquery"])
def test_jobs_that_spark_runs_in_threads_of_its_own_have_the_same_group_and_tags(
    spark: SparkSession, within: str
) -> None:
    small = spark.range(10).repartition(2).groupBy("id").count()
    small.createOrReplaceTempView("small")
    rows = spark.range(100)
    frame = (
        rows.join(functions.broadcast(small), "id")
        if within == "a broadcast"
        else rows.where("id > (select max(id) from small)")
    )
    with job_group(spark, f"grouped with {within}"):
        spark.sparkContext.addJobTag("tagged")
        frame.collect()
        spark.sparkContext.removeJobTag("tagged")
        found = _ended(spark)
    assert len(found) >= 4
    assert all("tagged" in job.tags for job in found)
    assert not any(job.running for job in found)


def test_a_job_of_two_stages_and_one_that_fails(spark: SparkSession) -> None:
    with job_group(spark, "of RDDs"):
        pairs = spark.sparkContext.parallelize([(1, 1)], 2).partitionBy(2)
        pairs.count()
        with pytest.raises(PythonException, match="by the test"):
            pairs.foreach(_fail)
        two, failed = _ended(spark)
    assert (two.completed, two.failed, two.succeeded, two.computed_one) == (2, 0, True, False)
    assert (failed.completed, failed.failed, failed.succeeded, failed.computed_one) == (0, 1, False, False)
    assert failed.failed_tasks > 0


def _fail(row: object) -> None:
    raise ValueError("by the test")


def _ended(spark: SparkSession) -> list[Job]:
    """The jobs of this thread's group, the oldest first, when all that has happened is in Spark's books."""
    assert status_store.wait_until_current(spark, PATIENCE)
    known = [status_store.job(spark, id) for id in reversed(status_store.job_ids(spark))]
    return [job for job in known if job is not None]


# Names that are missing


def test_missing_name_is_unsupported_and_names_the_version(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    frame = spark.range(1)
    missing: list[Callable[[], Any]] = [
        lambda: frame._jdf.noSuchMethod(),
        lambda: jvm.org.apache.spark.NoSuchClass(),
        lambda: jvm.java.lang.Class.forName("org.apache.spark.NoSuchClass"),
        lambda: spark.conf.get("spark.sql.streaming.noSuchSetting"),
    ]
    for use in missing:
        with pytest.raises(Unsupported) as caught, streaming_query.pinned("a thing"):
            use()
        assert f"Spark {pyspark.__version__} does not show a thing" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_errors_of_spark_itself_pass(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"), streaming_query.pinned("a thing"):
        spark.table("nowhere")
    jvm: Any = spark._jvm
    with pytest.raises(Exception, match="For input string"), streaming_query.pinned("a thing"):
        jvm.java.lang.Integer.parseInt("x")


def test_query_that_does_not_run_is_unsupported(spark: SparkSession) -> None:
    with pytest.raises(Unsupported, match="no active query"):
        streaming_query.find_query(spark.range(1), "00000000-0000-0000-0000-000000000000")


def test_spark_connect_is_known_by_its_module(spark: SparkSession) -> None:
    assert not streaming_query.is_connect(spark.range(1))
    source = Path(pyspark.__file__).parent / "sql" / "connect" / "dataframe.py"
    assert "DataFrame" in {node.name for node in ast.parse(source.read_text()).body if isinstance(node, ast.ClassDef)}
    connect = type("DataFrame", (DataFrame,), {"__module__": "pyspark.sql.connect.dataframe"})
    assert streaming_query.is_connect(object.__new__(connect))


# Stopping


def interrupted_in(
    spark: SparkSession, work: Callable[[DataFrame], object], reaction: Callable[[], BaseException]
) -> tuple[StreamingQuery, Any]:
    """Stop a query whose callback is inside ``work``; it raises ``reaction()`` then.

    What the callback saw comes back with the query.
    """
    entered: queue.Queue[bool] = queue.Queue()
    seen: queue.Queue[tuple[bool, bool]] = queue.Queue()

    def callback(frame: DataFrame, batch: int) -> None:
        found = execution(frame)
        before = streaming_query.stopping(found)
        entered.put(True)
        try:
            work(frame)
        except Exception:
            seen.put((before, streaming_query.stopping(found)))
            raise reaction() from None

    running = start(numbers(spark), callback, "append", None)
    entered.get(timeout=PATIENCE)
    running.stop()
    return running, seen.get(timeout=PATIENCE)


def in_a_task(frame: DataFrame) -> object:
    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import threading

        threading.Event().wait(PATIENCE)
        yield from batches

    return frame.mapInArrow(wait, frame.schema).collect()


def in_the_jvm(frame: DataFrame) -> object:
    jvm: Any = frame.sparkSession._jvm
    return jvm.java.util.concurrent.CountDownLatch(1).getClass() and jvm.java.lang.Thread.sleep(int(PATIENCE * 1000))


@pytest.mark.parametrize("work", [in_a_task, in_the_jvm])
def test_stop_is_told_from_other_errors_and_ends_the_query_cleanly(
    spark: SparkSession, work: Callable[[DataFrame], object]
) -> None:
    running, seen = interrupted_in(spark, work, QueryStopped)
    assert seen == (False, True)
    assert running.exception() is None
    assert running.awaitTermination(int(PATIENCE))


def test_stop_with_another_error_looks_like_a_failure(spark: SparkSession) -> None:
    """The control: were this clean too, QueryStopped would not be needed."""
    running, _ = interrupted_in(spark, in_the_jvm, lambda: Fenced("not a stop"))
    found = running.exception()
    assert found is not None
    assert isinstance(error(found), Fenced)


def test_our_error_comes_back_from_a_query_that_it_stopped(spark: SparkSession) -> None:
    def callback(frame: DataFrame, batch: int) -> None:
        raise Fenced("another owner has 'orders-out' now: stop", tag="FENCED")

    running = start(numbers(spark), callback, "append", None)
    with pytest.raises(Exception, match="SEMEL_FENCED") as caught:
        running.awaitTermination(int(PATIENCE))
    found = error(caught.value)
    assert isinstance(found, Fenced)
    assert found.message == "another owner has 'orders-out' now: stop"


# What the sink knows, and a replay


def position(ends: dict[int, int]) -> KafkaSource:
    return KafkaSource("c", {"in": TopicEnd("t", ends)})


def test_batches_start_where_their_source_began_and_where_the_one_before_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    known: list[Query] = []

    def ask(frame: DataFrame, batch: int) -> tuple[Query, MicroBatch]:
        found = observe(frame, known[0] if known else None)
        query = found.query
        known[:] = [query]
        return query, found

    running, found = answers(ours(spark), ask, 4, checkpoint=tmp_path / "cp")
    query = found[0][0]
    assert all(answer[0] is query for answer in found), "asked once a run"
    assert (query.id, query.run, query.stateful, query.ends_by_itself) == (running.id, running.runId, False, False)
    parts = [batch.sources[0] for _, batch in found]
    assert [part.start for part in parts] == [
        position(ends) for ends in ({0: 5}, {0: 10}, {0: 15, 1: 3}, {0: 20, 1: 4})
    ]
    assert [part.end for part in parts] == [position(ends) for ends in ({0: 10}, {0: 15}, {0: 20, 1: 4}, {0: 25, 1: 5})]
    assert [batch.planned.ends for _, batch in found] == [(part.end,) for part in parts]
    assert found[1][1].starts == found[0][1].ends


def test_stateful_query_is_told(spark: SparkSession) -> None:
    _, [batch] = answers(ours(spark).groupBy("key").count(), lambda frame, number: observe(frame), mode="update")
    assert batch.query.stateful
    assert batch.planned.stateful


def test_batch_whose_commit_entry_is_lost_is_replayed_and_skipped(spark: SparkSession, tmp_path: Path) -> None:
    """The checkpoint is cut to what a crash between the sink's commit and Spark's leaves: offsets of a batch, and no
    commit of it.
    """

    def ask(frame: DataFrame, batch: int) -> tuple[Query, MicroBatch, tuple[Any, ...]]:
        found = observe(frame)
        asked = (batch - 2, batch - 1, batch, batch + 1)
        return found.query, found, tuple(found.positions(number) for number in asked)

    first, before = answers(ours(spark), ask, 3, checkpoint=tmp_path / "cp")
    newest = 1  # batch 2 was called, so this one is committed; how many came behind them until the stop is not known
    for log, lost in (("commits", newest), ("offsets", newest + 1)):
        numbers = [int(path.name) for path in (tmp_path / "cp" / log).iterdir() if path.name.isdigit()]
        assert lost in numbers
        cut(tmp_path / "cp", log, sum(number >= lost for number in numbers))
    second, [(query, batch, facts)] = answers(ours(spark), ask, checkpoint=tmp_path / "cp")
    assert (second.id, second.runId != first.runId) == (first.id, True)
    assert batch.number == newest
    done = [earlier for _, earlier, _ in before if earlier.number == newest]
    assert done, "the batch was not seen in the first run"
    assert all(earlier.sources == batch.sources for earlier in done)
    (start,) = (part.start for part in batch.sources)
    assert facts == (None, (start,), batch.planned.ends, None)
    (_, first_batch, _), _, (_, _, third) = before
    assert third[0] == first_batch.planned.ends, "batch 2 asks the log itself for the end of batch 0"
    committed = Progress(query=query.id, run=first.runId, batch=batch.number, sources=batch.planned.ends)
    assert reconcile(batch.planned, committed) == Skip()
    earlier = Progress(
        query=query.id,
        batch=batch.number - 1,
        sources=tuple(part.start for part in batch.sources if part.start is not None),
    )
    assert reconcile(batch.planned, earlier) == Run()


def test_sources_that_are_not_ours_are_texts(spark: SparkSession) -> None:
    _, [batch] = answers(numbers(spark), lambda frame, number: observe(frame))
    [part] = batch.sources
    assert (part.start, part.end, part.began) == (None, OpaqueSource('{"offset":10,"timestamp":5000}'), None)
    assert (batch.starts, batch.ends) == ((None,), ('{"offset":10,"timestamp":5000}',))
