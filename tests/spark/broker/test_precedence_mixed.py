"""Rows of PROTOCOL 6 for queries that are not one source of semel's and no state: by checkpoints that are really cut,
as the others.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from semel.errors import DataLoss
from semel.sandbox import Sandbox
from tests.spark.support.copy_query import Crashed, Line, crash_behind, cut
from tests.spark.support.stateful_plans import events, produce_events, windowed
from tests.spark.support.topics_and_drivers import create, everything, produce, values


@pytest.fixture
def line(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Line:
    return Line.new(spark, kafka, tmp_path, "mixed")


class Files:
    """A folder of text files as a second source, one row a file."""

    def __init__(self, line: Line) -> None:
        self.line, self.folder = line, line.directory / "files"
        self.folder.mkdir()

    def add(self, *names: str) -> None:
        for name in names:
            draft = self.folder / f".{name}"
            draft.write_text(name)
            draft.rename(self.folder / f"{name}.txt")

    def rows(self) -> DataFrame:
        """Its rows together with those of the topic."""
        theirs = self.line.spark.readStream.text(str(self.folder)).select(
            f.lit(None).cast("binary").alias("key"), f.col("value").cast("binary")
        )
        return self.line.rows().select("key", "value").unionAll(theirs)


def test_a_source_that_is_not_semels_is_compared_as_equal_or_not(line: Line) -> None:
    files = Files(line)
    produce(line.kafka, line.source, range(100))
    files.add("a", "b")
    with pytest.raises(Crashed):
        line.run(rows=files.rows(), around=crash_behind(0))
    line.run(rows=files.rows())  # batch 0 comes again, equal: it is skipped
    produce(line.kafka, line.source, range(100, 200))
    files.add("c")
    line.run(rows=files.rows())
    cut(line.checkpoint, "commits", 2)
    line.run(
        rows=files.rows()
    )  # an older batch comes again, and the checkpoint's own offsets of the newest are those of the progress
    seen = values(line.kafka.bootstrap_servers, line.target)
    assert len(seen) == len(set(seen)) == 203
    for log in ("commits", "offsets", "sources/1"):
        cut(line.checkpoint, log, 1)
    files.add("d")
    before = everything(line.kafka.bootstrap_servers, line.target)
    with pytest.raises(DataLoss) as refused:
        line.run(rows=files.rows())  # planned anew with another file in it
    assert refused.value.tag == "PROGRESS_MISMATCH"
    assert everything(line.kafka.bootstrap_servers, line.target) == before


def test_a_source_that_is_added_at_the_end_without_a_name_is_refused_by_spark(line: Line) -> None:
    second = create(line.kafka, f"{line.prefix}-second", 1)
    produce(line.kafka, line.source, range(100))
    line.run()
    produce(line.kafka, second, range(100, 200), partitions=1)
    more = line.rows().unionAll(line.rows(subscribe=second)).select("key", "value")
    with pytest.raises(StreamingQueryException, match="There are \\[1\\] sources in the checkpoint"):
        line.run(rows=more)
    line.run()
    line.assert_exact()


def test_a_stateful_query_whose_checkpoint_is_two_batches_behind_is_refused(line: Line) -> None:
    line.per_batch = 40
    produce_events(line.kafka, line.source)
    line.run(rows=windowed(line.rows))
    before = everything(line.kafka.bootstrap_servers, line.target)
    cut(line.checkpoint, "commits", 2)
    cut(line.checkpoint, "offsets", 1)
    with pytest.raises(DataLoss) as refused:
        line.run(rows=windowed(line.rows))
    assert refused.value.tag == "PROGRESS_MISMATCH"
    assert everything(line.kafka.bootstrap_servers, line.target) == before


def test_where_state_may_differ_from_the_output_it_is_said(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    """The plan draws numbers, and its watermark makes it run again when state is rebuilt."""
    line.per_batch = 40
    produce_events(line.kafka, line.source)

    def drawn() -> DataFrame:
        rows = events(line.rows).withWatermark("at", "20 seconds").withColumn("r", f.rand())
        summed = rows.groupBy(f.window("at", "30 seconds")).agg(f.sum("r").alias("r"))
        return summed.select(f.to_json(f.struct("r")).alias("value"))

    with pytest.raises(Crashed):
        line.run(rows=drawn(), around=crash_behind(1))
    with caplog.at_level(logging.WARNING, "semel"):
        line.run(rows=drawn())
    assert "its plan is not deterministic: the state may differ from the output that was committed" in caplog.text
    assert all("r" in json.loads(value) for value in values(line.kafka.bootstrap_servers, line.target))
