"""The proof (DESIGN rule 2): a writing stage that ran again is found out, and so is what was computed twice in front of it; what ran once is not, and
neither tasks nor rows are needed for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from semel.spark.proof import Proof
from semel.steps import ParticipantStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.history import History, check
from semel.testing.program import Program
from semel.testing.spark import SparkCluster
from tests import topics
from tests.spark.harness import create, job_group, produce, program, progress, unique, values
from tests.spark.programs.spread import Spread
from tests.spark.programs.twice import Twice
from tests.waiting import PATIENCE_S, wait_for

#: So many that a task sends its rows in two goes; a killed one has sent the first of them.
ROWS = 60_000
MOST_ROUNDS = 8
FEW = 2_000
#: So many jobs in front of a call.
LOOKED_AT = 100
#: Shuffle blocks are fetched in many small requests, while rows are being written, and a lost executor is not waited for.
SLOW_FETCH = SparkCluster(
    settings={
        "spark.default.parallelism": "4",
        "spark.reducer.maxSizeInFlight": "64k",
        "spark.reducer.maxReqsInFlight": "1",
        "spark.shuffle.io.maxRetries": "0",
        "spark.shuffle.compress": "false",
        "spark.shuffle.readHostLocalDisk": "false",
    }
)


def _told(driver: Program, topic: str) -> bool:
    return driver.said(f"round {topic}:") > 0 or driver.process.poll() is not None


def rounds(kafka: Sandbox, directory: Path, *, proof: bool) -> Iterator[tuple[History, Program]]:
    """Rounds of one driver program, each with an executor killed in mid-write, and what is in its output."""
    topics = [create(kafka, "spread", 4, max_message_bytes="16777216") for _ in range(MOST_ROUNDS)]
    plan = CrashPlan(directory / "plan", CrashPoint(ParticipantStep.SENT, 1, Action.EXECUTOR))
    with SLOW_FETCH.driver(program("spread", Spread(kafka.bootstrap_servers, topics, ROWS, proof)), plan) as driver:
        for topic in topics:
            wait_for(partial(_told, driver, topic), f"the round of {topic}")
            assert driver.said(f"round {topic}:"), driver.tail()
            yield check(kafka.bootstrap_servers, topic, id="json:$.id", expected=(f"{number:08d}" for number in range(ROWS))), driver


def test_stage_that_ran_again_is_aborted_and_the_batch_exact(kafka: Sandbox, tmp_path: Path) -> None:
    seen = False
    for history, driver in rounds(kafka, tmp_path, proof=True):
        assert history.exact, f"{history}\n{driver.tail()}"
        seen = driver.said("SEMEL_UNPROVEN") > 0
        if seen:
            break
    assert seen, f"no stage ran again in {MOST_ROUNDS} rounds"


def test_without_the_proof_rows_are_lost(kafka: Sandbox, tmp_path: Path) -> None:
    """The control: the same kills, and nobody asks how often the stage ran."""
    assert any(history.lost for history, _ in rounds(kafka, tmp_path, proof=False)), f"nothing was lost in {MOST_ROUNDS} rounds"


def in_front(kafka: Sandbox, directory: Path, shape: str, *, proof: bool) -> tuple[History, str]:
    """The same of a query, whose rows come from a topic."""
    topic = create(kafka, "twice", 2)
    topics.create(kafka.bootstrap_servers, f"{topic}-source", 4)
    produce(kafka, f"{topic}-source", range(FEW))
    return written(kafka, directory, shape, proof=proof, topic=topic)


def written(kafka: Sandbox, directory: Path, shape: str, *, proof: bool, topic: str = "") -> tuple[History, str]:
    """A job of which Spark computes a part anew that comes out otherwise: what is in its output, and what its driver has said."""
    topic = topic or create(kafka, "twice", 2)
    plan = CrashPlan(directory / "plan")
    with SparkCluster().driver(program("twice", Twice(kafka.bootstrap_servers, topic, FEW, shape, str(directory), proof)), plan) as driver:
        assert driver.wait(PATIENCE_S) == 0, driver.tail()
        id = "json:$.id" if shape.endswith("in front") else "value"
        return check(kafka.bootstrap_servers, topic, id=id, expected=map(str, range(FEW))), driver.log.read_text()


@pytest.mark.parametrize("shape", ["branches", "between jobs"])
def test_what_was_computed_twice_in_front_of_the_writing_stage_is_not_committed(kafka: Sandbox, tmp_path: Path, shape: str) -> None:
    history, said = written(kafka, tmp_path, shape, proof=True)
    assert history.exact, f"{history}\n{said[-6000:]}"
    assert "SEMEL_UNPROVEN" in said
    assert ("ran again" if shape == "branches" else "has computed again") in said
    assert "written in 1 retries" in said


def test_what_a_first_try_has_left_in_shuffles_is_not_used(kafka: Sandbox, tmp_path: Path) -> None:
    """Spark keeps what RDDs have shuffled as long as they live: a second try in the same call would go on from there, and so would a second call."""
    history, said = written(kafka, tmp_path, "shuffles", proof=True)
    assert said.count("refused: [SEMEL_STALE_SHUFFLE]") == 2, said[-6000:]
    assert said.endswith("written in 0 retries\n"), "the rows that were made anew"
    assert history.exact, f"{history}\n{said[-6000:]}"


def _run(spark: SparkSession, *tags: str) -> None:
    for tag in tags:
        spark.sparkContext.addJobTag(tag)
    spark.range(10).repartition(3).collect()
    for tag in tags:
        spark.sparkContext.removeJobTag(tag)


def test_jobs_that_a_batch_is_proven_by(spark: SparkSession) -> None:
    """Those in front of the call and of all its tries, for a micro-batch back to the call before; of another sink, too, and none of another run."""
    call, job = (Proof(spark, "mine", micro_batch=micro_batch) for micro_batch in (True, False))
    with job_group(spark, "a run"):
        _run(spark, Proof(spark, "mine", micro_batch=True).tag)
    with job_group(spark, "another run"):
        _run(spark)
    with job_group(spark, "a run"):
        _run(spark)
        _run(spark, Proof(spark, "other", micro_batch=True).tag)
        tries = {call.tag}
        _run(spark, call.tag)
        call.next_attempt()
        tries.add(call.tag)
        _run(spark, call.tag)
        wait_for(lambda: len(list(call._jobs())) == 8 and not any(one.running for one in call._jobs()), "all jobs to be shown")
        jobs = list(call._jobs())[::-1]
        assert len(list(job._jobs())) == 10, "a batch job may have been given its DataFrame before"
    assert len(tries) == 2
    assert [one.id for one in jobs] == sorted(one.id for one in jobs)
    assert [len(tries & one.tags) for one in jobs] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert all(one.computed_one for one in jobs)


def _looked_at(rows: DataFrame) -> DataFrame:
    assert not rows.isEmpty()
    assert len(rows.take(2)) == 2
    assert rows.count() == rows.count() == 10
    return rows


def _cached(rows: DataFrame) -> DataFrame:
    rows = rows.repartition(3, "value").persist()
    rows.count()
    return rows.where("value % 2 = 0").repartition(2, "value").union(rows.where("value % 2 = 1").repartition(2, "value"))


def _by_rdds(rows: DataFrame) -> DataFrame:
    pairs = rows.rdd.map(lambda row: (row.value % 3, row.value)).partitionBy(3)
    assert pairs.map(lambda pair: (pair[0] % 2, 1)).reduceByKey(lambda one, other: one + other).count() == 2
    return rows.sparkSession.createDataFrame(pairs.map(lambda pair: (pair[1],)), "value long")


def _branches(rows: DataFrame) -> DataFrame:
    rows = rows.repartition(3, "value")
    return rows.where("value % 2 = 0").repartition(2, "value").union(rows.where("value % 2 = 1").repartition(2, "value"))


def _checkpointed(rows: DataFrame) -> DataFrame:
    return rows.repartition(3, "value").localCheckpoint()


@pytest.mark.parametrize("use", [_looked_at, _cached, _by_rdds, _branches, _checkpointed])
def test_what_users_do_in_front_of_the_sink_is_proven_at_once(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, use: Callable[[DataFrame], DataFrame]
) -> None:
    """Jobs over the same RDDs are no loss. What the stream is joined with stays in Spark from one batch to the next."""
    first, second = create(kafka, "used", 2), create(kafka, "used", 2)
    sinks = [KafkaSink(topic=topic, transactionalIdPrefix=topic, **{"kafka.bootstrap.servers": kafka.bootstrap_servers}) for topic in (first, second)]
    kept = spark.sparkContext.parallelize([(number % 7, number) for number in range(1_000)], 2).partitionBy(2).partitionBy(3)
    static = spark.createDataFrame(kept.map(lambda pair: (pair[1],)), "value long")
    small = f.broadcast(spark.range(1_000).repartition(2).groupBy(f.col("id").alias("value")).count())
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().repartition(3, "value")
    rows = rows.join(static, "value").join(small, "value").select("value")

    def write(df: DataFrame, batch: int) -> None:
        used = use(df)
        for sink in sinks:
            sink(used.select(f.col("value").cast("string").alias("value")), batch)

    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_for(lambda: not query.isActive or len(values(kafka.bootstrap_servers, second)) >= 30, "three batches")
        assert query.isActive, query.exception()
    finally:
        query.stop()
    for topic in (first, second):
        written = sorted(map(int, values(kafka.bootstrap_servers, topic)))
        assert written == list(range(len(written)))
    assert not [record for record in caplog.records if "is run again" in record.message]


def test_jobs_of_others_do_not_hide_those_of_the_call(spark: SparkSession) -> None:
    """More of them than are looked at in front of it run while it writes, in the same group."""
    with job_group(spark, "a busy driver"):
        for _ in range(LOOKED_AT + 5):
            spark.range(1).collect()
        call = Proof(spark, "busy", micro_batch=False)
        _run(spark, call.tag)
        for _ in range(LOOKED_AT + 5):
            spark.range(1).collect()
        _run(spark, call.tag)

        def shown() -> list[bool]:
            return [call.tag in one.tags for one in call._jobs()]

        wait_for(lambda: shown().count(True) == 4, "the jobs of the call, in front of and behind those of others")
        assert shown() == [True] * 2 + [False] * (LOOKED_AT + 5) + [True] * 2 + [False] * LOOKED_AT


@pytest.mark.parametrize("shape", ["in front", "branches in front", "broadcasts in front", "nothing in front"])
def test_what_was_computed_twice_before_the_sink_was_called(kafka: Sandbox, tmp_path: Path, shape: str) -> None:
    """With adaptive execution a stateless query has made its shuffles by then. Spark keeps them within the run: it ends, and the next one makes them
    anew."""
    history, said = in_front(kafka, tmp_path, shape, proof=True)
    assert history.exact, f"{history}\n{said[-6000:]}"
    assert "SEMEL_STALE_SHUFFLE" in said


@pytest.mark.parametrize("shape", ["in front", "branches in front", "broadcasts in front"])
def test_unproven_what_was_computed_before_the_call_doubles_and_loses_rows(kafka: Sandbox, tmp_path: Path, shape: str) -> None:
    """The control."""
    history, said = in_front(kafka, tmp_path, shape, proof=False)
    assert history.lost, f"{history}\n{said[-6000:]}"
    assert history.duplicated


def test_unproven_all_rows_are_lost_and_none_is_written(kafka: Sandbox, tmp_path: Path) -> None:
    """The control: no task, no receipt, and the batch counts as done."""
    history, said = in_front(kafka, tmp_path, "nothing in front", proof=False)
    assert history.lost == FEW, f"{history}\n{said[-6000:]}"


def test_with_the_writing_stage_alone_proven_rows_are_doubled_and_lost(kafka: Sandbox, tmp_path: Path) -> None:
    """The control: the same loss, and nobody asks what was computed in front of the writing stage."""
    history, said = written(kafka, tmp_path, "between jobs", proof=False)
    assert history.lost, f"{history}\n{said[-6000:]}"
    assert history.duplicated
    assert "written in 0 retries" in said


def test_attempt_that_spark_killed_is_not_committed(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    """Spark counts it as no failure: all that shows it is that the second attempt is not the first."""
    topic = create(kafka, "killed", 2)
    first, go = tmp_path / "first", tmp_path / "go"

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            if context.partitionId() == 0 and context.attemptNumber() == 0 and not go.exists():
                draft = first.with_suffix(".draft")
                draft.write_text(str(context.taskAttemptId()))
                draft.rename(first)
                threading.Event().wait(PATIENCE_S)

    def kill() -> None:
        wait_for(first.exists, "the first attempt")
        go.touch()
        jvm = spark.sparkContext._jsc
        jvm.sc().killTaskAttempt(int(first.read_text()), True, "by the test")

    rows = spark.range(0, 4_000, 1, 2).select(f.col("id").cast("string").alias("value")).mapInArrow(held, "value string")
    sink = KafkaSink(topic=topic, transactionalIdPrefix=topic, **{"kafka.bootstrap.servers": kafka.bootstrap_servers})
    killer = threading.Thread(target=kill)
    killer.start()
    totals = sink.write(rows, version=1)
    killer.join()
    assert totals is not None
    assert (totals.rows, totals.retries) == (4_000, 1)
    assert sorted(map(int, values(kafka.bootstrap_servers, topic))) == list(range(4_000))


@pytest.mark.parametrize("kind", ["a task with no rows", "no rows", "no task"])
def test_tasks_without_rows(spark: SparkSession, kafka: Sandbox, kind: str) -> None:
    topic = create(kafka, "empty", 3)
    few = spark.range(1).select(f.lit("k").alias("key"), f.lit("v").alias("value"))
    rows = {"a task with no rows": few, "no rows": few.where("rand() > 2"), "no task": few.where("false")}[kind]
    prefix = unique("empty")
    sink = KafkaSink(topic=topic, transactionalIdPrefix=prefix, **{"kafka.bootstrap.servers": kafka.bootstrap_servers})
    totals = sink.write(rows, version=7)
    assert totals is not None
    assert totals.rows == (1 if kind == "a task with no rows" else 0)
    assert values(kafka.bootstrap_servers, topic) == ["v"] * totals.rows
    assert progress(kafka.bootstrap_servers, prefix, "batch")["batch"] == 7
    assert sink.write(rows, version=7) is None
