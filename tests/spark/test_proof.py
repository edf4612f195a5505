"""The proof (DESIGN rule 2): a writing stage that ran again is found out, and so is what was computed twice in front of it; what ran once is not, and
neither tasks nor rows are needed for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from semel.spark.proof import Attempt
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


def in_front(kafka: Sandbox, directory: Path, *, proof: bool) -> tuple[History, str]:
    """The same of a query, whose rows come from a topic."""
    topic = create(kafka, "twice", 2)
    topics.create(kafka.bootstrap_servers, f"{topic}-source", 4)
    produce(kafka, f"{topic}-source", range(FEW))
    return written(kafka, directory, "in front", proof=proof, topic=topic)


def written(kafka: Sandbox, directory: Path, shape: str, *, proof: bool, topic: str = "") -> tuple[History, str]:
    """A job of which Spark computes a part anew that comes out otherwise: what is in its output, and what its driver has said."""
    topic = topic or create(kafka, "twice", 2)
    plan = CrashPlan(directory / "plan")
    with SparkCluster().driver(program("twice", Twice(kafka.bootstrap_servers, topic, FEW, shape, str(directory), proof)), plan) as driver:
        assert driver.wait(PATIENCE_S) == 0, driver.tail()
        id = "json:$.id" if shape == "in front" else "value"
        return check(kafka.bootstrap_servers, topic, id=id, expected=map(str, range(FEW))), driver.log.read_text()


@pytest.mark.parametrize("shape", ["branches", "between jobs"])
def test_what_was_computed_twice_in_front_of_the_writing_stage_is_not_committed(kafka: Sandbox, tmp_path: Path, shape: str) -> None:
    history, said = written(kafka, tmp_path, shape, proof=True)
    assert history.exact, f"{history}\n{said[-6000:]}"
    assert "SEMEL_UNPROVEN" in said
    assert ("ran again" if shape == "branches" else "has computed again") in said
    assert "written in 1 retries" in said


def test_what_a_first_try_has_left_in_shuffles_is_not_used(kafka: Sandbox, tmp_path: Path) -> None:
    """Spark keeps what RDDs have shuffled as long as they live: a second try in the same call would go on from there."""
    history, said = written(kafka, tmp_path, "shuffles", proof=True)
    assert "refused: [SEMEL_STALE_SHUFFLE]" in said, said[-6000:]
    assert history.written == 0


def test_a_lost_executor_is_not_forgotten_behind_another_try(spark: SparkSession) -> None:
    """The second try may end by something else, such as its timeout: what the first one has lost a part of is still there for the third."""
    first = Attempt(spark, "forgetful")
    assert first.again(lost=False).before is None, "it had no job, so nobody has looked"
    with job_group(spark, first.tag):
        spark.sparkContext.addJobTag(first.tag)
        spark.range(10).repartition(3).collect()
        spark.sparkContext.removeJobTag(first.tag)
        wait_for(lambda: len(first.again(lost=False).before or ()) == 2, "both stages to be shown")
        third = first.again(lost=True).again(lost=False)
    assert third.lost
    assert len(third.before or ()) == 2
    assert not first.again(lost=False).lost


def test_shuffles_that_were_made_before_the_sink_was_called(kafka: Sandbox, tmp_path: Path) -> None:
    """With adaptive execution those of a stateless query are. Spark keeps them within the run: it ends, and the next one makes them anew."""
    history, said = in_front(kafka, tmp_path, proof=True)
    assert history.exact, f"{history}\n{said[-6000:]}"
    assert "SEMEL_STALE_SHUFFLE" in said


def test_unproven_shuffles_from_before_the_call_double_and_lose_rows(kafka: Sandbox, tmp_path: Path) -> None:
    """The control."""
    history, said = in_front(kafka, tmp_path, proof=False)
    assert history.lost, f"{history}\n{said[-6000:]}"
    assert history.duplicated


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
