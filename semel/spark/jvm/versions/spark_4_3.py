"""Spark 4.3: what semel asks of a version of Spark, with the newest answers. The other modules say what they lack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSourceStreamReader

from semel.spark.jvm.versions.planner import BatchPlanner

__all__ = ["VERSION", "Spark43"]

_STREAMING = "org.apache.spark.sql.execution.streaming"


class Spark43:
    """One version of Spark. What reads JVM objects is called where a missing name is turned into a refusal."""

    #: Plain micro-batches. Asynchronous progress tracking has a class of its own, and writes its offset log behind the
    #: batches, not before them.
    micro_batch: ClassVar[str] = f"{_STREAMING}.runtime.MicroBatchExecution"
    #: What every physical operator that keeps state between batches implements, those that run Python included.
    stateful_operator: ClassVar[str] = f"{_STREAMING}.operators.stateful.StatefulOperator"
    #: The logical operator of ``transformWithState`` in Python.
    python_state: ClassVar[str] = "TransformWithStateInPySpark"
    #: The file manager of checkpoints for the local disk; only tests choose it.
    local_checkpoints: ClassVar[str] = f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    #: Whether Spark refuses a stateful batch whose state was not written, unless a setting is false.
    validates_state: ClassVar[bool] = True
    #: The setting by which Python workers are spoken to over Unix domain sockets, or None.
    domain_sockets: ClassVar[str | None] = "spark.python.unix.domain.socket.enabled"
    #: Whether a query's progress has where the topics ended, and not the end of the batch.
    reports_latest: ClassVar[bool] = True
    #: Whether a reader is given its limits, and asked again until ``availableNow`` has read all.
    limits_each_batch: ClassVar[bool] = True
    #: Whether the writer of a stream is handed Arrow batches, and not rows.
    streams_arrow: ClassVar[bool] = True

    def source_name(self, relation: Any) -> str | None:
        """Return the name that the user gave a source, or None."""
        name = relation.sourceIdentifyingName().nameOpt()
        return str(name.get()) if name.isDefined() else None

    def source_keys(self, execution: Any, streams: Sequence[Any]) -> list[str]:
        """Return by what the offset log knows each source of a running query."""
        keys = execution.sourceToIdMap()
        return [str(keys.apply(stream)) for stream in streams]

    def repartition_by_slot(self, df: DataFrame, tasks: int, slot: str) -> DataFrame:
        """Send each row to the task that its integer column ``slot`` names: exactly ``tasks`` of them."""
        return df.repartitionById(tasks, f.col(slot))

    def stream_reader(self, planner: BatchPlanner) -> DataSourceStreamReader:
        """Return the reader that Spark's stream asks."""
        from semel.spark.jvm.versions.reader_with_limits import ReaderWithLimits

        return ReaderWithLimits(planner)


VERSION = Spark43()
