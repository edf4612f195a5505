"""Jobs whose rows come out otherwise each time they are computed, and that lose an executor once, one after the other
in one Spark.

The argument is a folder: ``0.job``, ``1.job`` and so on are a :class:`Twice` each, as JSON, and ``0.done`` says that
the first one is done.

By chance each row goes one of two ways, and both ways lead to the one topic: without a failure each row is there once.
``shape`` says what is lost:

- ``branches``: the two ways share a shuffle, and the second one needs a part of it again when the first one is done;
- ``between jobs``: nobody needs it when it is lost, and no stage ever runs a second attempt: a later job computes it,
  in a stage of its own;
- ``shuffles``: two shuffles of RDDs, one made of the other, which Spark keeps from the first try for the second;
- ``eager``, ``lazy``: as ``between jobs``, checkpointed in front of a batch job, or by its first try;
- ``in front``: two shuffles of a stateless query, which Spark has made before it calls the sink: it is lost between
  these two;
- ``branches in front``: as ``between jobs``, in a stateless query, all of it before Spark calls the sink;
- ``broadcasts in front``: the same, and both ways go through the driver, as the small sides of joins: they are in no
  lineage;
- ``checkpoint in front``: as ``shuffles``, in the function of a query, checkpointed by the first try;
- ``cached in front``: as ``broadcasts in front``, in the function of a query, cached by the first try;
- ``let go in front``: the same, and what was cached is cleared when the second try is written, and not proven yet;
- ``nothing in front``: as ``between jobs``, in a query, and everything is lost and comes out otherwise, so that nobody
  has any row;
- ``forgotten in front``: one way is read in front of the sink, the other by it; lost between these two; and Spark, kept
  busy by others, forgets what it found done for the first;
- ``forgotten jobs in front``: as that, and it forgets the jobs.

What is refused is written once more as it is, and then made anew. ``proof`` off has only the writing stage asked about,
or, with a checkpoint or a cache, all but that: the control.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import RDD, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from semel.errors import AbortAndRetry
from semel.spark import KafkaSink, keep_running
from semel.spark.job import proof
from semel.spark.jvm import lineage, status_store
from semel.spark.sink import write_stage
from semel.transaction.ticket import Receipt
from tests.spark.programs.executors import executor_of_this, executors, kill_executors, tasks_at_work, write_number
from tests.spark.support import bounded_runs
from tests.spark.support.json_argument import Argument
from tests.spark.support.spark_books import FORGETFUL, many_jobs, many_stages
from tests.support.waiting import wait_for

_SCHEMA = "value string, way int"
_PARTS = 4
_EXECUTORS = 2
#: Other tests run between two jobs, and each of them may take what anything may. Whoever has started this program ends
#: it.
_BETWEEN_JOBS_S = 3_600
_LOST_BY_THE_FUNCTION = ("in front", "forgotten in front", "forgotten jobs in front")
#: For their controls all is asked but what is kept outside of shuffles.
_KEPT = ("eager", "lazy", "checkpoint in front", "cached in front", "let go in front")
_Batches = Iterator[pa.RecordBatch]
#: Shapes of a batch job, and how each checkpoints.
_CHECKPOINTED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "eager": lambda rows: rows.checkpoint(),
    "lazy": lambda rows: rows.checkpoint(eager=False),
}


@dataclass(frozen=True)
class Twice(Argument):
    """Where the rows go, and a folder in which tasks say how far they are."""

    servers: str
    topic: str
    rows: int
    shape: str
    directory: str
    proof: bool = True


def main(folder: Path) -> None:
    logging.basicConfig(level=logging.WARNING)
    spark = SparkSession.builder.getOrCreate()
    for number in count():
        wait_for((folder / f"{number}.job").exists, f"job {number}", _BETWEEN_JOBS_S)
        job = Twice.parse((folder / f"{number}.job").read_text())
        wait_for(lambda: len(executors(os.getpid())) == _EXECUTORS, "executors in the place of those that were lost")
        spark.sparkContext.setCheckpointDir(f"{job.directory}/checkpoints")
        # what is in front of a batch job is known by its group
        spark.sparkContext.setJobGroup(job.topic, job.shape)
        with proven(job), letting_go(spark) if job.shape == "let go in front" else nullcontext():
            (run_query if job.shape.endswith("in front") else run_job)(spark, job)
        (folder / f"{number}.done").touch()


@contextmanager
def proven(job: Twice) -> Iterator[None]:
    """Or not: a control."""
    with ExitStack() as stack:
        if not job.proof and job.shape == "forgotten jobs in front":
            stack.enter_context(patch.object(status_store, "forgot_jobs_since", return_value=False))
        elif not job.proof:
            for kept in ("newest_checkpoint", "newest_persisted"):
                stack.enter_context(patch.object(lineage, kept, return_value=-1))
            if job.shape not in _KEPT:
                stack.enter_context(patch.object(proof, "check_computed_once"))
        yield


@contextmanager
def letting_go(spark: SparkSession) -> Iterator[None]:
    write, tries = write_stage.write, count(1)

    def and_let_go(*args: Any) -> list[Receipt]:
        receipts = write(*args)
        if next(tries) == 2:
            spark.catalog.clearCache()
        return receipts

    with patch.object(write_stage, "write", and_let_go):
        yield


def run_job(spark: SparkSession, job: Twice) -> None:
    shapes = {
        "branches": branches,
        "between jobs": between_jobs,
        "shuffles": shuffles,
        **dict.fromkeys(_CHECKPOINTED, checkpointed),
    }
    striker = striking(spark, job)
    rows = shapes[job.shape](spark, job)
    sink = KafkaSink(topic=job.topic, transactionalIdPrefix=job.topic, **{"kafka.bootstrap.servers": job.servers})
    if not write(sink, rows) and not write(sink, rows):
        spark.sparkContext.setJobGroup(f"{job.topic} made anew", job.shape)
        write(sink, shapes[job.shape](spark, job))
    striker.join()


def write(sink: KafkaSink, rows: DataFrame) -> bool:
    try:
        totals = sink.write(rows, version=1)
    except AbortAndRetry as error:
        print(f"refused: {error}", flush=True)
        return False
    assert totals is not None
    print(f"written in {totals.retries} retries", flush=True)
    return True


def branches(spark: SparkSession, job: Twice) -> DataFrame:
    shared = _shared(spark, job.rows)
    first = shared.mapInArrow(_way(0), _SCHEMA).repartition(_PARTS, "value")
    second = (
        shared.mapInArrow(_way(1), _SCHEMA)
        .mapInArrow(_waiting(job.directory, _PARTS - 1), _SCHEMA)
        .repartition(_PARTS, "value")
    )
    return _keyed(first.union(second))


def between_jobs(spark: SparkSession, job: Twice) -> DataFrame:
    return _keyed(_divided(_shared(spark, job.rows), job))


def _divided(shared: DataFrame, job: Twice) -> DataFrame:
    first = shared.mapInArrow(_way(0), _SCHEMA).mapInArrow(_on_each(job.directory), _SCHEMA)
    first = first.repartition(_PARTS, "value")
    second = (
        shared.mapInArrow(_way(1), _SCHEMA)
        .repartition(1)
        .mapInArrow(_waiting(job.directory, 0), _SCHEMA)
        .repartition(2, "value")
    )
    return first.union(second)


def checkpointed(spark: SparkSession, job: Twice) -> DataFrame:
    return _keyed(_CHECKPOINTED[job.shape](_divided(_shared(spark, job.rows), job)))


def shuffles(spark: SparkSession, job: Twice) -> DataFrame:
    rows = spark.createDataFrame(_shuffled(spark.sparkContext.parallelize(map(str, range(job.rows)), _PARTS)), _SCHEMA)
    return _keyed(rows.mapInArrow(_waiting(job.directory, _PARTS - 1), _SCHEMA))


def _shuffled(values: RDD[str]) -> RDD[tuple[str, int]]:
    first = values.map(lambda value: (os.urandom(1)[0], value)).partitionBy(_PARTS)
    second = first.map(lambda pair: (os.urandom(1)[0], pair[1])).partitionBy(_PARTS)
    return second.map(lambda pair: (pair[1], pair[0]))


def run_query(spark: SparkSession, job: Twice) -> None:
    """A run of the query ends by a refusal, and another one goes on."""
    kafka = {"kafka.bootstrap.servers": job.servers}
    source = (
        spark.readStream.format("semel")
        .options(**kafka, subscribe=f"{job.topic}-source", startingOffsets="earliest", minRecordsPerPartition=1)
        .load()
    )
    numbers = source.select(f.col("value").cast("string").alias("value"))
    shapes = {
        "in front": _in_a_row,
        "branches in front": _branches_in_front,
        "broadcasts in front": _broadcasts_in_front,
        "nothing in front": _nothing_in_front,
        "forgotten in front": _one_in_front,
        "forgotten jobs in front": _one_in_front,
    }
    in_the_function = {
        "checkpoint in front": _by_a_checkpointed_rdd,
        "cached in front": _cached,
        "let go in front": _cached,
    }
    rows = shapes[job.shape](numbers, job) if job.shape in shapes else numbers
    sink = KafkaSink(topic=job.topic, transactionalIdPrefix=job.topic, **kafka)

    def lose(df: DataFrame, number: int) -> None:
        if job.shape in _LOST_BY_THE_FUNCTION and not Path(job.directory, "lost").exists():
            here = Path(job.directory, "here")
            spared = {int(here.read_text())} if here.exists() else set(executors(os.getpid())[1:])
            kill_executors(spark, {*executors(os.getpid())} - spared, Path(job.directory))
            if job.shape == "forgotten in front":
                _beside(partial(many_stages, spark, 2))
            if job.shape == "forgotten jobs in front":
                _beside(partial(many_jobs, spark))
        sink(in_the_function[job.shape](df, job) if job.shape in in_the_function else df, number)

    def start() -> StreamingQuery:
        writer = _keyed(rows).writeStream.foreachBatch(lose).option("checkpointLocation", f"{job.directory}/checkpoint")
        return bounded_runs.start(writer)

    if job.shape == "forgotten in front":
        _beside(partial(many_stages, spark, FORGETFUL))
    if job.shape in _LOST_BY_THE_FUNCTION:
        keep_running(start)
        return
    striker = striking(spark, job)
    keep_running(start)
    striker.join()


def _beside(work: Callable[[], None]) -> None:
    """By others: until Spark forgets some stages, or jobs."""
    other = threading.Thread(target=work)
    other.start()
    other.join()


def _by_a_checkpointed_rdd(df: DataFrame, job: Twice) -> DataFrame:
    rows = _shuffled(df.rdd.map(lambda row: str(row.value)))
    rows.checkpoint()
    return _keyed(
        df.sparkSession.createDataFrame(rows, _SCHEMA).mapInArrow(_waiting(job.directory, _PARTS - 1), _SCHEMA)
    )


def _cached(df: DataFrame, job: Twice) -> DataFrame:
    return _keyed(_broadcasts_in_front(df.select("value"), job)).cache()


def _in_a_row(numbers: DataFrame, job: Twice) -> DataFrame:
    chance = f.udf(lambda _: os.urandom(1)[0], "int")
    rows = numbers.withColumn("way", chance("value")).repartition(_PARTS, "way")
    return rows.select("value", chance(f.concat("value", f.lit("x"))).alias("way")).repartition(_PARTS, "way")


def _branches_in_front(numbers: DataFrame, job: Twice) -> DataFrame:
    return _divided(_by_chance(numbers), job).repartition(_PARTS, "value")


def _broadcasts_in_front(numbers: DataFrame, job: Twice) -> DataFrame:
    shared = _by_chance(numbers)
    first = shared.mapInArrow(_way(0), _SCHEMA)
    second = (
        shared.mapInArrow(_way(1), _SCHEMA)
        .mapInArrow(_waiting(job.directory, _PARTS - 1), _SCHEMA)
        .repartition(2, "value")
    )
    ids = numbers.sparkSession.range(job.rows).select(f.col("id").cast("string"))

    def joined(small: DataFrame) -> DataFrame:
        return ids.join(
            f.broadcast(small.select("value", f.get_json_object("value", "$.id").alias("id"))), "id"
        ).select("value")

    return joined(first).union(joined(second))


def _one_in_front(numbers: DataFrame, job: Twice) -> DataFrame:
    shared = _by_chance(numbers)
    first = (
        shared.coalesce(1)
        .mapInArrow(_way(0), _SCHEMA)
        .mapInArrow(_saying_where(job.directory), _SCHEMA)
        .repartition(2, "value")
    )
    return first.union(shared.mapInArrow(_way(1), _SCHEMA))


def _nothing_in_front(numbers: DataFrame, job: Twice) -> DataFrame:
    way = f.udf(lambda _: 0 if Path(job.directory, "lost").exists() else 1, "int")
    return _divided(numbers.withColumn("way", way("value")).repartition(_PARTS, "value"), job)


def _shared(spark: SparkSession, rows: int) -> DataFrame:
    return _by_chance(spark.range(0, rows, 1, _PARTS).select(f.col("id").cast("string").alias("value")))


def _by_chance(numbers: DataFrame) -> DataFrame:
    chance = f.udf(lambda _: os.urandom(1)[0] % 2, "int")
    return numbers.withColumn("way", chance("value")).repartition(_PARTS, "value")


def _keyed(rows: DataFrame) -> DataFrame:
    return rows.select(f.col("value").alias("key"), "value")


def _way(way: int) -> Callable[[_Batches], _Batches]:
    def keep(batches: _Batches) -> _Batches:
        for rows in batches:
            yield rows.filter(pc.equal(rows.column("way"), way))

    return keep


def _saying_where(directory: str) -> Callable[[_Batches], _Batches]:
    def say(batches: _Batches) -> _Batches:
        if not Path(directory, "lost").exists():
            write_number(executor_of_this(), Path(directory, "here"))
        yield from batches

    return say


def _on_each(directory: str) -> Callable[[_Batches], _Batches]:
    """Wait until each executor has a task of this stage: a busy machine may give all to the one that is spared."""

    def wait(batches: _Batches) -> _Batches:
        rows, lost = list(batches), Path(directory, "lost")
        if not lost.exists():
            Path(directory, f"has-{executor_of_this()}").touch()
            wait_for(lambda: lost.exists() or len(list(lost.parent.glob("has-*"))) >= _EXECUTORS, "the other executor")
        yield from rows

    return wait


def _waiting(directory: str, part: int) -> Callable[[_Batches], _Batches]:
    """One task reads all that it is given, says by which executor it is run, and waits until the other one is lost."""

    def wait(batches: _Batches) -> _Batches:
        rows = list(batches)
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == part and not Path(directory, "lost").exists():
            write_number(executor_of_this(), Path(directory, "waits"))
            wait_for(Path(directory, "lost").exists, "the loss of an executor")
        yield from rows

    return wait


def striking(spark: SparkSession, job: Twice) -> threading.Thread:
    striker = threading.Thread(target=strike, args=(spark, job))
    striker.start()
    return striker


def strike(spark: SparkSession, job: Twice) -> None:
    """Kill the executor that does not hold the waiting task, when nothing else is at work; the task goes on when the
    driver has noticed.

    For ``nothing in front`` both are killed, and the task begins anew.
    """
    tracker, directory = spark.sparkContext.statusTracker(), Path(job.directory)
    wait_for((directory / "waits").exists, "the task that waits")
    wait_for(lambda: tasks_at_work(tracker) == 1 and len(tracker.getActiveStageIds()) == 1, "all others to be done")
    spared = set() if job.shape == "nothing in front" else {int((directory / "waits").read_text())}
    kill_executors(spark, {*executors(os.getpid())} - spared, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
