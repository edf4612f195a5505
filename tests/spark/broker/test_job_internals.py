"""Pins what semel takes from the jobs and stages of Spark, and from its errors."""

from __future__ import annotations

import ast
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from semel.errors import Fenced, Unsupported
from semel.spark.errors import QueryStopped, error
from semel.spark.jvm import status_store, streaming_query
from tests.spark.support.running_queries import PATIENCE, ended_jobs, execution, numbers, standing_in, start
from tests.spark.support.spark_books import job_group, many_jobs


@pytest.fixture(scope="module", autouse=True)
def stand_in(spark: SparkSession) -> Iterator[None]:
    """In the sessions of this file, ``format("semel")`` is the stand-in."""
    with standing_in(spark):
        yield


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


@pytest.mark.usefixtures("nothing_is_forgotten")
def test_jobs_of_a_group_and_what_their_stages_have_computed(spark: SparkSession) -> None:
    """With adaptive execution a stage has a job to itself, and stands in later ones as done: with the same RDDs, and no
    task completed.
    """
    with job_group(spark, "grouped"):
        spark.sparkContext.addJobTag("tagged")
        spark.range(10).repartition(3).groupBy("id").count().collect()
        spark.sparkContext.removeJobTag("tagged")
        found = ended_jobs(spark)
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


def test_jobs_in_one_answer_are_as_they_are_one_by_one(spark: SparkSession) -> None:
    begin = status_store.next_job_id(spark)
    with job_group(spark, "in one answer"):
        for _ in range(3):
            spark.sparkContext.parallelize([1], 1).count()
        one_by_one = ended_jobs(spark)
    answer = status_store.jobs(spark, begin)
    assert [job for job in answer if job.group == "in one answer"] == one_by_one[::-1], "the newest first"
    assert status_store.jobs(spark, begin + 1, begin + 1) == one_by_one[1:2]
    assert status_store.jobs(spark, 1_000_000) == []
    assert status_store.next_job_id(spark) > one_by_one[-1].id


def test_books_that_are_waited_for(spark: SparkSession) -> None:
    with job_group(spark, "shown at once"):
        for number in range(1, 20):
            spark.sparkContext.parallelize([1]).count()
            assert status_store.wait_until_current(spark, 10)
            assert len(status_store.job_ids(spark)) == number


@pytest.mark.exhaustive  # a thousand jobs
def test_jobs_that_spark_has_forgotten_since(spark: SparkSession) -> None:
    """One that it keeps and that ended before says that none is."""
    start = int(time.time() * 1000)
    many_jobs(spark)
    assert status_store.wait_until_current(spark, PATIENCE)
    end = int(time.time() * 1000)
    assert status_store.forgot_jobs_since(spark, lambda: start)
    assert not status_store.forgot_jobs_since(spark, lambda: end)


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
        ids = {id for job in ended_jobs(spark) for id in job.stages}
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
        found = ended_jobs(spark)
    assert len(found) >= 4
    assert all("tagged" in job.tags for job in found)
    assert not any(job.running for job in found)


def test_a_job_of_two_stages_and_one_that_fails(spark: SparkSession) -> None:
    with job_group(spark, "of RDDs"):
        pairs = spark.sparkContext.parallelize([(1, 1)], 2).partitionBy(2)
        pairs.count()
        with pytest.raises((PythonException, Py4JJavaError), match="by the test"):
            pairs.foreach(_fail)
        two, failed = ended_jobs(spark)
    assert (two.completed, two.failed, two.succeeded, two.computed_one) == (2, 0, True, False)
    assert (failed.completed, failed.failed, failed.succeeded, failed.computed_one) == (0, 1, False, False)
    assert failed.failed_tasks > 0


def _fail(row: object) -> None:
    raise ValueError("by the test")


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
