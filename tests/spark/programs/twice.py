"""A job whose rows come out otherwise each time they are computed, and that loses an executor once. Its argument is a :class:`Twice` as JSON.

By chance each row goes one of two ways, and both ways lead to the one topic: without a failure each row is there once. ``shape`` says what is lost:

- ``branches``: the two ways share a shuffle, and the second one needs a part of it again when the first one is done;
- ``between jobs``: nobody needs it when it is lost, and no stage ever runs a second attempt: a later job computes it, in a stage of its own;
- ``shuffles``: two shuffles of RDDs, one made of the other, which Spark keeps from the first try for the second;
- ``in front``: two shuffles of a stateless query, which Spark has made before it calls the sink: it is lost between these two;
- ``branches in front``: as ``between jobs``, in a stateless query, all of it before Spark calls the sink;
- ``broadcasts in front``: the same, and both ways go through the driver, as the small sides of joins: they are in no lineage;
- ``nothing in front``: the same, and everything is lost and comes out otherwise, so that nobody has any row.

What is refused is written once more as it is, and then made anew. ``proof`` off has only the writing stage asked about: the control.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StatusTracker, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from semel.errors import AbortAndRetry
from semel.sandbox.processes import children, parents
from semel.spark import KafkaSink, keep_running, proof
from semel.testing.fork_client import STARTED_AS
from tests.spark.argument import Argument
from tests.waiting import wait_for

_EXECUTOR = "CoarseGrainedExecutorBackend"
_SCHEMA = "value string, way int"
_PARTS = 4
_Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Twice(Argument):
    """Where the rows go, and a folder in which tasks say how far they are."""

    servers: str
    topic: str
    rows: int
    shape: str
    directory: str
    proof: bool = True


def main(job: Twice) -> None:
    logging.basicConfig(level=logging.WARNING)
    if not job.proof:
        patch.object(proof, "refuse_computed_twice").start()
    spark = SparkSession.builder.getOrCreate()
    if job.shape.endswith("in front"):
        run_query(spark, job)
        spark.stop()
        return
    shapes = {"branches": branches, "between jobs": between_jobs, "shuffles": shuffles}
    rows = shapes[job.shape](spark, job)
    striker = striking(spark, job)
    sink = KafkaSink(topic=job.topic, transactionalIdPrefix=job.topic, **{"kafka.bootstrap.servers": job.servers})
    if not write(sink, rows) and not write(sink, rows):
        write(sink, shapes[job.shape](spark, job))
    striker.join()
    spark.stop()


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
    second = shared.mapInArrow(_way(1), _SCHEMA).mapInArrow(_waiting(job.directory, _PARTS - 1), _SCHEMA).repartition(_PARTS, "value")
    return _keyed(first.union(second))


def between_jobs(spark: SparkSession, job: Twice) -> DataFrame:
    return _keyed(_divided(_shared(spark, job.rows), job))


def _divided(shared: DataFrame, job: Twice) -> DataFrame:
    first = shared.mapInArrow(_way(0), _SCHEMA).repartition(_PARTS, "value")
    second = shared.mapInArrow(_way(1), _SCHEMA).repartition(1).mapInArrow(_waiting(job.directory, 0), _SCHEMA).repartition(2, "value")
    return first.union(second)


def shuffles(spark: SparkSession, job: Twice) -> DataFrame:
    numbers = spark.sparkContext.parallelize(range(job.rows), _PARTS)
    first = numbers.map(lambda number: (os.urandom(1)[0], number)).partitionBy(_PARTS)
    second = first.map(lambda pair: (os.urandom(1)[0], pair[1])).partitionBy(_PARTS)
    rows = spark.createDataFrame(second.map(lambda pair: (str(pair[1]), pair[0])), _SCHEMA)
    return _keyed(rows.mapInArrow(_waiting(job.directory, _PARTS - 1), _SCHEMA))


def run_query(spark: SparkSession, job: Twice) -> None:
    """A run of the query ends by a refusal, and another one goes on."""
    kafka = {"kafka.bootstrap.servers": job.servers}
    source = spark.readStream.format("semel").options(**kafka, subscribe=f"{job.topic}-source", startingOffsets="earliest").load()
    numbers = source.select(f.col("value").cast("string").alias("value"))
    shapes = {
        "in front": _in_a_row,
        "branches in front": _branches_in_front,
        "broadcasts in front": _broadcasts_in_front,
        "nothing in front": _nothing_in_front,
    }
    rows = shapes[job.shape](numbers, job)
    sink = KafkaSink(topic=job.topic, transactionalIdPrefix=job.topic, **kafka)

    def lose(df: DataFrame, number: int) -> None:
        if job.shape == "in front" and not Path(job.directory, "lost").exists():
            _lose(spark, {_executors(os.getpid())[0]}, Path(job.directory))
        sink(df, number)

    def start() -> StreamingQuery:
        writer = _keyed(rows).writeStream.foreachBatch(lose).option("checkpointLocation", f"{job.directory}/checkpoint")
        return writer.trigger(availableNow=True).start()

    if job.shape == "in front":
        keep_running(start)
        return
    striker = striking(spark, job)
    keep_running(start)
    striker.join()


def _in_a_row(numbers: DataFrame, job: Twice) -> DataFrame:
    chance = f.udf(lambda _: os.urandom(1)[0], "int")
    rows = numbers.withColumn("way", chance("value")).repartition(_PARTS, "way")
    return rows.select("value", chance(f.concat("value", f.lit("x"))).alias("way")).repartition(_PARTS, "way")


def _branches_in_front(numbers: DataFrame, job: Twice) -> DataFrame:
    return _divided(_by_chance(numbers), job).repartition(_PARTS, "value")


def _broadcasts_in_front(numbers: DataFrame, job: Twice) -> DataFrame:
    shared = _by_chance(numbers)
    first = shared.mapInArrow(_way(0), _SCHEMA)
    second = shared.mapInArrow(_way(1), _SCHEMA).mapInArrow(_waiting(job.directory, _PARTS - 1), _SCHEMA).repartition(2, "value")
    ids = numbers.sparkSession.range(job.rows).select(f.col("id").cast("string"))

    def joined(small: DataFrame) -> DataFrame:
        return ids.join(f.broadcast(small.select("value", f.get_json_object("value", "$.id").alias("id"))), "id").select("value")

    return joined(first).union(joined(second))


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


def _waiting(directory: str, part: int) -> Callable[[_Batches], _Batches]:
    """One task reads all that it is given, says by which executor it is run, and waits until the other one is lost."""

    def wait(batches: _Batches) -> _Batches:
        rows = list(batches)
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == part and not Path(directory, "lost").exists():
            above = parents(int(os.environ.get(STARTED_AS) or os.getpid()))
            mine = next(pid for pid, command in above if _EXECUTOR in command)
            Path(directory, "draft").write_text(str(mine))
            Path(directory, "draft").rename(Path(directory, "waits"))
            wait_for(Path(directory, "lost").exists, "the loss of an executor")
        yield from rows

    return wait


def striking(spark: SparkSession, job: Twice) -> threading.Thread:
    striker = threading.Thread(target=strike, args=(spark, job))
    striker.start()
    return striker


def strike(spark: SparkSession, job: Twice) -> None:
    """Kill the executor that does not hold the waiting task, when nothing else is at work; the task goes on when the driver has noticed.

    For ``nothing in front`` both are killed, and the task begins anew.
    """
    tracker, directory = spark.sparkContext.statusTracker(), Path(job.directory)
    wait_for((directory / "waits").exists, "the task that waits")
    wait_for(lambda: _tasks_at_work(tracker) == 1 and len(tracker.getActiveStageIds()) == 1, "all others to be done")
    spared = set() if job.shape == "nothing in front" else {int((directory / "waits").read_text())}
    _lose(spark, {*_executors(os.getpid())} - spared, directory)


def _lose(spark: SparkSession, executors: set[int], directory: Path) -> None:
    """Kill them, and say so when the driver has noticed."""
    tracker = spark.sparkContext.statusTracker()

    def alive() -> set[int]:
        return {told.port for told in tracker.getExecutorInfos()}

    before = alive()
    for executor in executors:
        os.kill(executor, signal.SIGKILL)
    wait_for(lambda: before - alive(), "the driver to notice")
    (directory / "lost").touch()


def _tasks_at_work(tracker: StatusTracker) -> int:
    told = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in told if stage is not None)


def _executors(pid: int) -> list[int]:
    """Below this process: the driver's Java starts them."""
    below = children(pid)
    return [child for child, command in below if _EXECUTOR in command] + [found for child, _ in below for found in _executors(child)]


if __name__ == "__main__":
    main(Twice.parse(sys.argv[1]))
