"""Queries on streams of Spark, and answers from their callbacks."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.query import StreamingQuery

from semel.spark.jvm import status_store, streaming_query, versions
from semel.spark.jvm.values import Callback, Execution, Job
from semel.spark.source_offset import SourceOffset, TopicOffset, as_dict

T = TypeVar("T")
PATIENCE = 60.0


class StandInReader(DataSourceStreamReader):
    """Five rows a batch of partition 0, and from the third offset on a partition 1, in the offset JSON of our
    source.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.last: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        return as_dict(SourceOffset("c", {"in": TopicOffset("t", {0: 5}, {0: 5})}, initial=True))

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        before = start or self.last or self.initialOffset()
        ends = {int(p): int(end) for p, end in before["topics"]["in"]["end"].items()}
        began = {int(p): int(end) for p, end in before["topics"]["in"]["began"].items()}
        ends[0] += 5
        if ends[0] >= 20:
            began.setdefault(1, 3)
            ends[1] = ends.get(1, 3) + 1
        self.last = as_dict(SourceOffset("c", {"in": TopicOffset("t", began, ends)}))
        return self.last

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


def numbers(spark: SparkSession, name: str | None = None) -> DataFrame:
    reader = (
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("advanceMillisPerBatch", 5000)
    )
    return (reader.name(name) if name else reader).load()


Ask = Callable[[DataFrame, int], T]


@contextmanager
def standing_in(spark: SparkSession) -> Iterator[None]:
    """In this session, ``format("semel")`` is the stand-in.

    Spark before 4.2 lets none take the place of a data source that it has found among Python's packages: it is made to
    find none.
    """
    if versions.current().limits_each_batch:  # as for names of sources, 4.2 is the one that differs
        spark.dataSource.register(StandIn)
        yield
        return
    jvm: Any = spark._jvm

    def scala_object(name: str) -> Any:
        return jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)

    manager = scala_object("org.apache.spark.sql.execution.datasources.DataSourceManager")
    packaged, put = manager.dataSourceBuilders(), getattr(manager, "dataSourceBuilders_$eq")
    put(jvm.scala.Option.apply(scala_object("scala.collection.immutable.Map$EmptyMap")))
    try:
        spark.dataSource.register(StandIn)
        yield
    finally:
        put(packaged)


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


def ended_jobs(spark: SparkSession) -> list[Job]:
    """The jobs of this thread's group, the oldest first, when all that has happened is in Spark's books."""
    assert status_store.wait_until_current(spark, PATIENCE)
    known = [status_store.job(spark, id) for id in reversed(status_store.job_ids(spark))]
    return [job for job in known if job is not None]
