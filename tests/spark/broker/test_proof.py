"""The proof (DESIGN rule 2): a writing stage that ran again is found out, and so is what was computed twice in front of
it; what ran once is not, and neither tasks nor rows are needed for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from semel.steps import ParticipantStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.history import History, check
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import SparkCluster
from tests.spark.programs.spread import Spread
from tests.spark.programs.twice import Twice
from tests.spark.support.session import KEPT_STAGES
from tests.spark.support.topics_and_drivers import create, produce, program, progress, unique, values
from tests.support import topics
from tests.support.waiting import PATIENCE_S, wait_for

#: So many that a task sends its rows in two goes; a killed one has sent the first of them.
ROWS = 60_000
MOST_ROUNDS = 8
FEW = 2_000
#: Shuffle blocks are fetched in many small requests, while rows are being written, and a lost executor is not waited
#: for.
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
            yield (
                check(
                    kafka.bootstrap_servers, topic, id="json:$.id", expected=(f"{number:08d}" for number in range(ROWS))
                ),
                driver,
            )


def test_stage_that_ran_again_is_aborted_and_the_batch_exact(kafka: Sandbox, tmp_path: Path) -> None:
    seen = False
    for history, driver in rounds(kafka, tmp_path, proof=True):
        assert history.exact, f"{history}\n{driver.tail()}"
        seen = driver.said("SEMEL_UNPROVEN") > 0
        if seen:
            break
    assert seen, f"no stage ran again in {MOST_ROUNDS} rounds"


@pytest.mark.exhaustive
def test_without_the_proof_rows_are_lost(kafka: Sandbox, tmp_path: Path) -> None:
    """The control: the same kills, and nobody asks how often the stage ran."""
    assert any(history.lost for history, _ in rounds(kafka, tmp_path, proof=False)), (
        f"nothing was lost in {MOST_ROUNDS} rounds"
    )


class Twices:
    """One Spark that runs jobs of which it computes a part anew, one after the other: to start it takes longer than
    such a job.
    """

    def __init__(self, kafka: Sandbox, folder: Path, driver: Program) -> None:
        self._kafka, self._folder, self._driver = kafka, folder, driver
        self._numbers = count()

    def written(self, directory: Path, shape: str, *, proof: bool) -> tuple[History, str]:
        """What is in the job's output, and what the driver has said meanwhile."""
        topic = create(self._kafka, "twice", 2)
        in_front = shape.endswith("in front")
        if in_front:
            topics.create(self._kafka.bootstrap_servers, f"{topic}-source", 4)
            produce(self._kafka, f"{topic}-source", range(FEW))
        number, before = next(self._numbers), len(self._driver.log.read_text())
        draft = self._folder / "draft"
        draft.write_text(str(Twice(self._kafka.bootstrap_servers, topic, FEW, shape, str(directory), proof)))
        draft.rename(self._folder / f"{number}.job")
        done = self._folder / f"{number}.done"
        wait_for(lambda: done.exists() or self._driver.process.poll() is not None, f"the job {shape}")
        assert done.exists(), self._driver.tail()
        history = check(
            self._kafka.bootstrap_servers, topic, id="json:$.id" if in_front else "value", expected=map(str, range(FEW))
        )
        return history, self._driver.log.read_text()[before:]


@pytest.fixture(scope="module")
def twices(kafka: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twices]:
    folder = tmp_path_factory.mktemp("twices")
    kept = {"spark.ui.retainedStages": str(KEPT_STAGES)}
    with SparkCluster(settings=kept).driver(program("twice", folder), CrashPlan(folder / "plan")) as driver:
        yield Twices(kafka, folder, driver)


@pytest.mark.exhaustive  # its sample is what was computed twice before the call
@pytest.mark.parametrize("shape", ["branches", "between jobs"])
def test_what_was_computed_twice_in_front_of_the_writing_stage_is_not_committed(
    twices: Twices, tmp_path: Path, shape: str
) -> None:
    history, said = twices.written(tmp_path, shape, proof=True)
    assert history.exact, f"{history}\n{said[-6000:]}"
    assert "SEMEL_UNPROVEN" in said
    assert ("ran again" if shape == "branches" else "has computed again") in said
    assert "written in 1 retries" in said


@pytest.mark.exhaustive  # its sample is the stage that ran again
def test_what_a_first_try_has_left_in_shuffles_is_not_used(twices: Twices, tmp_path: Path) -> None:
    """Spark keeps what RDDs have shuffled as long as they live: a second try in the same call would go on from there,
    and so would a second call.
    """
    history, said = twices.written(tmp_path, "shuffles", proof=True)
    assert said.count("refused: [SEMEL_STALE_SHUFFLE]") == 2, said[-6000:]
    assert said.endswith("written in 0 retries\n"), "the rows that were made anew"
    assert history.exact, f"{history}\n{said[-6000:]}"


@pytest.mark.exhaustive  # its sample is what was computed twice before the call
@pytest.mark.parametrize("shape", ["eager", "lazy"])
def test_what_a_batch_job_was_checkpointed_from_is_asked_about(twices: Twices, tmp_path: Path, shape: str) -> None:
    """No lineage has it, and making it anew helps in a job group of its own.

    A lazy one is written by the first try, that is refused as well.
    """
    history, said = twices.written(tmp_path, shape, proof=True)
    assert said.count("refused: [SEMEL_STALE_SHUFFLE]") == 2, said[-6000:]
    assert ("is run again" in said) == (shape == "lazy")
    assert said.endswith("written in 0 retries\n"), "the rows that were made anew"
    assert history.exact, f"{history}\n{said[-6000:]}"


@pytest.mark.exhaustive
def test_with_all_but_the_checkpoint_asked_about_rows_are_doubled_and_lost(twices: Twices, tmp_path: Path) -> None:
    """The control."""
    history, said = twices.written(tmp_path, "lazy", proof=False)
    assert history.lost, f"{history}\n{said[-6000:]}"
    assert history.duplicated


IN_FRONT = [
    "in front",
    "branches in front",
    "broadcasts in front",
    "nothing in front",
    "checkpoint in front",
    "cached in front",
    "let go in front",
    "forgotten in front",
]


@pytest.mark.spark_4_2  # seen on 4.0: streams have no adaptive execution, so nothing is computed before the call
@pytest.mark.parametrize(
    "shape", [IN_FRONT[0], *(pytest.param(one, marks=pytest.mark.exhaustive) for one in IN_FRONT[1:])]
)
def test_what_was_computed_twice_before_the_sink_was_called(twices: Twices, tmp_path: Path, shape: str) -> None:
    """With adaptive execution a stateless query has made its shuffles by then. Spark keeps them within the run: it
    ends, and the next one makes them anew.
    """
    history, said = twices.written(tmp_path, shape, proof=True)
    assert history.exact, f"{history}\n{said[-6000:]}"
    assert "SEMEL_STALE_SHUFFLE" in said


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", ["broadcasts in front", "checkpoint in front", "let go in front"])
def test_unproven_what_was_computed_before_the_call_doubles_and_loses_rows(
    twices: Twices, tmp_path: Path, shape: str
) -> None:
    """The control."""
    history, said = twices.written(tmp_path, shape, proof=False)
    assert history.lost, f"{history}\n{said[-6000:]}"
    assert history.duplicated


@pytest.mark.exhaustive
def test_a_batch_of_which_spark_has_forgotten_jobs_is_refused(twices: Twices, tmp_path: Path) -> None:
    history, said = twices.written(tmp_path, "forgotten jobs in front", proof=True)
    assert history.exact, f"{history}\n{said[-6000:]}"
    assert "Spark may have forgotten jobs of this batch already" in said
    assert "is run again" not in said, "in the same call it would be forgotten as well"


@pytest.mark.exhaustive
def test_without_asking_for_forgotten_jobs_rows_are_doubled_and_lost(twices: Twices, tmp_path: Path) -> None:
    """The control."""
    history, said = twices.written(tmp_path, "forgotten jobs in front", proof=False)
    assert history.lost, f"{history}\n{said[-6000:]}"
    assert history.duplicated


@pytest.mark.exhaustive
def test_unproven_all_rows_are_lost_and_none_is_written(twices: Twices, tmp_path: Path) -> None:
    """The control: no task, no receipt, and the batch counts as done."""
    history, said = twices.written(tmp_path, "nothing in front", proof=False)
    assert history.lost == FEW, f"{history}\n{said[-6000:]}"


def test_with_the_writing_stage_alone_proven_rows_are_doubled_and_lost(twices: Twices, tmp_path: Path) -> None:
    """The control: the same loss, and nobody asks what was computed in front of the writing stage."""
    history, said = twices.written(tmp_path, "between jobs", proof=False)
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

    rows = (
        spark.range(0, 4_000, 1, 2).select(f.col("id").cast("string").alias("value")).mapInArrow(held, "value string")
    )
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
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "minRecordsPerPartition": 1}
    sink = KafkaSink(topic=topic, transactionalIdPrefix=prefix, **options)
    totals = sink.write(rows, version=7)
    assert totals is not None
    assert totals.rows == (1 if kind == "a task with no rows" else 0)
    assert values(kafka.bootstrap_servers, topic) == ["v"] * totals.rows
    assert progress(kafka.bootstrap_servers, prefix, "batch")["batch"] == 7
    assert sink.write(rows, version=7) is None
