"""Spark's process that plans a source is killed: the run ends, and the next one's process knows where the query is.

Before Spark 4.2 that process itself keeps the position.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from semel.errors import SemelError
from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from tests.spark.support.copy_query import Callback, Crashed, Line, crash_before, crash_behind
from tests.spark.support.topics_and_drivers import produce

_PLANNER = "python_streaming_source_runner"
ROWS, PER_BATCH = 600, 100

Around = Callable[[KafkaSink], Callback]


def planners() -> list[int]:
    """The processes that plan sources below this process."""
    parents: dict[int, int] = {}
    planning: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if _PLANNER in (folder / "cmdline").read_text():
                planning.append(int(folder.name))
        except OSError:  # it has ended meanwhile
            continue
    return [process for process in planning if os.getpid() in ancestors(process, parents)]


def ancestors(process: int, parents: dict[int, int]) -> set[int]:
    """Its parent, the parent's parent and so on."""
    above: set[int] = set()
    while process in parents and process not in above:
        above.add(process)
        process = parents[process]
    return above


def killing_the_planner(batch: int, *, after: bool) -> tuple[list[int], Around]:
    """A callback that kills the planner of its query before or after it writes a batch, and the processes it killed."""
    killed: list[int] = []

    def around(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, number: int) -> None:
            if after:
                sink(df, number)
            if number == batch:
                killed.extend(planners())
                for process in killed:
                    os.kill(process, signal.SIGKILL)
            if not after:
                sink(df, number)

        return callback

    return killed, around


@pytest.mark.parametrize("after", [True, False], ids=["after the batch", "before the batch"])
def test_a_planner_that_is_killed(spark: SparkSession, kafka: Sandbox, tmp_path: Path, after: bool) -> None:
    line = Line.new(spark, kafka, tmp_path, "planner", PER_BATCH)
    produce(kafka, line.source, range(ROWS))
    killed, around = killing_the_planner(2, after=after)
    with pytest.raises((StreamingQueryException, SemelError)) as raised:
        line.run(around=around)
    assert killed, raised.value
    line.run()
    line.assert_exact()


@pytest.mark.parametrize("crash", [crash_before, crash_behind], ids=["logged only", "written, not committed in Spark"])
def test_a_batch_that_is_in_the_offset_log_alone(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, crash: Callable[[int], Around]
) -> None:
    """It is replayed with its ranges, whatever limits the next run has."""
    line = Line.new(spark, kafka, tmp_path, "logged", PER_BATCH)
    produce(kafka, line.source, range(ROWS))
    with pytest.raises(Crashed):
        line.run(around=crash(2))
    log = line.checkpoint / "offsets" / "2"
    logged = log.read_text()
    line.run(reading={"maxOffsetsPerTrigger": 2 * PER_BATCH})
    assert log.read_text() == logged
    line.assert_exact()
