"""A query that copies one topic to another inside the test process, run as often as a test likes: with this checkpoint
or that one, until it ends.

A run ends by itself when it has read what was there at its start, or with our own error.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from semel.sandbox import Sandbox
from semel.spark import KafkaSink, error
from semel.testing.history import assert_exactly_once
from tests.spark.support import bounded_runs
from tests.spark.support.topics_and_drivers import create, unique

Callback = Callable[[DataFrame, int], None]


class Crashed(Exception):
    """The error of a callback in place of a crash of the driver: Spark stops the run and has no commit of the batch."""


@dataclass
class Line:
    """One copied topic. ``checkpoint`` is where a run keeps its own; a test may give another."""

    spark: SparkSession
    kafka: Sandbox
    directory: Path
    source: str
    target: str
    prefix: str
    per_batch: int = 100
    reading: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def new(cls, spark: SparkSession, kafka: Sandbox, directory: Path, name: str, per_batch: int = 100) -> Line:
        """Topics and a prefix of its own."""
        prefix = unique(name)
        return cls(
            spark, kafka, directory, create(kafka, f"{name}-in", 2), create(kafka, f"{name}-out", 3), prefix, per_batch
        )

    @property
    def kafka_options(self) -> dict[str, str]:
        """The options for the cluster, for source and sink."""
        return {"kafka.bootstrap.servers": self.kafka.bootstrap_servers}

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of runs without another one."""
        return self.directory / f"{self.prefix}-cp"

    def rows(self, **options: Any) -> DataFrame:
        """Return the source."""
        reading = {
            "subscribe": self.source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": self.per_batch,
            "minRecordsPerPartition": 1,  # several tasks and a shuffle, however few rows there are
            **self.reading,
            **options,
        }
        return self.spark.readStream.format("semel").options(**self.kafka_options, **reading).load()

    def sink(self, **options: object) -> KafkaSink:
        """Return a new sink, as a new driver has one."""
        return KafkaSink(
            **{"topic": self.target, "transactionalIdPrefix": self.prefix, **self.kafka_options, **options}
        )

    def run(
        self,
        *,
        checkpoint: Path | None = None,
        name: str | None = None,
        reading: Mapping[str, Any] | None = None,
        rows: DataFrame | None = None,
        around: Callable[[KafkaSink], Callback] | None = None,
        mode: str = "append",
        task_scope: bool = False,
        **options: Any,
    ) -> None:
        """One run to its end. With ``task_scope`` it writes by ``format("semel")``.

        Raises our error if one of ours ended it, :class:`Crashed` if ``around``'s callback did.
        """
        rows = self.rows(**(reading or {})).select("key", "value") if rows is None else rows
        if task_scope:
            where = {"topic": self.target, "transactionalIdPrefix": self.prefix, **self.kafka_options, **options}
            writer = rows.writeStream.format("semel").options(**where).outputMode(mode)
        else:
            sink = self.sink(**options)
            writer = rows.writeStream.foreachBatch(around(sink) if around else sink).outputMode(mode)
        writer = writer.option("checkpointLocation", str(checkpoint or self.checkpoint))
        try:
            bounded_runs.finish(bounded_runs.start(writer.queryName(name) if name else writer))
        except StreamingQueryException as raised:
            if "Crashed" in str(raised):
                raise Crashed from None
            raise (error(raised) or raised) from None

    def assert_exact(self) -> None:
        """Every row of the source is in the output once, in its order."""
        assert_exactly_once(
            self.kafka.bootstrap_servers, self.target, source=self.source, id="json:$.id", batch="json:$.lot"
        )


def crash_behind(batch: int) -> Callable[[KafkaSink], Callback]:
    """Crash the driver when the sink has returned from this batch, and Spark's commit log does not have it."""

    def around(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, number: int) -> None:
            sink(df, number)
            if number == batch:
                raise Crashed

        return callback

    return around


def crash_before(batch: int) -> Callable[[KafkaSink], Callback]:
    """Crash the driver when this batch has been planned, and nothing of it was written."""

    def around(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, number: int) -> None:
            if number == batch:
                raise Crashed
            sink(df, number)

        return callback

    return around


def killing(rows: DataFrame, marker: Path) -> DataFrame:
    """Kill the first Python worker that writes rows of a batch once, by SIGKILL, while it holds rows."""

    def die(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    return rows.mapInArrow(die, rows.schema)


def cut(checkpoint: Path, log: str, newest: int) -> list[int]:
    """Delete the newest entries of ``commits`` or ``offsets``, as if they had never been written.

    Returns their numbers.
    """
    numbers = sorted(int(path.name) for path in (checkpoint / log).iterdir() if path.name.isdigit())[-newest:]
    for number in numbers:
        for path in (checkpoint / log / str(number), checkpoint / log / f".{number}.crc"):
            path.unlink(missing_ok=True)
    return numbers


def backup(checkpoint: Path) -> Path:
    """Return a copy of a checkpoint, as a backup makes one."""
    copy = checkpoint.with_name(f"{checkpoint.name}-{unique('backup')}")
    shutil.copytree(checkpoint, copy)
    return copy


def restore(checkpoint: Path, copy: Path) -> None:
    """Put the copy in the place of the checkpoint."""
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
