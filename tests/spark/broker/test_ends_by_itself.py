"""A run that ends by itself. Spark before 4.2 makes one batch of it, and names neither a limit nor the trigger to a
source: what would leave rows unread, or read from a wrong place, is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from semel.spark import error
from semel.spark.jvm import versions
from tests.spark.support.copy_query import Line
from tests.spark.support.topics_and_drivers import produce, values
from tests.support.waiting import PATIENCE_S

ROWS, LIMIT = 300, 100
WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


@pytest.fixture
def line(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Line:
    line = Line.new(spark, kafka, tmp_path, "ends", LIMIT)
    produce(kafka, line.source, range(ROWS))
    return line


def run(line: Line, *, limited: bool, **trigger: Any) -> str:
    """Run it once. Return the tag of the error, or nothing."""
    reading = {"subscribe": line.source, "startingOffsets": "earliest"}
    reading |= {"maxOffsetsPerTrigger": str(LIMIT)} if limited else {}
    rows = line.spark.readStream.format("semel").options(**line.kafka_options, **reading).load()
    writer = rows.select("key", "value").writeStream.foreachBatch(line.sink())
    query = writer.option("checkpointLocation", str(line.checkpoint)).trigger(**trigger).start()
    failed: StreamingQueryException | None = None
    try:
        assert query.awaitTermination(PATIENCE_S)
    except StreamingQueryException as raised:
        failed = raised
    ours = error(failed) if failed is not None else None
    assert (ours is None) == (failed is None), str(failed)
    return ours.tag or "" if ours is not None else ""


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"once": True}], ids=["availableNow", "once"])
def test_a_limit(line: Line, trigger: dict[str, Any]) -> None:
    if versions.current().limits_each_batch:
        assert run(line, limited=True, **trigger) == ""
    else:
        assert run(line, limited=True, **trigger) == "ONE_BATCH"
        assert values(line.kafka.bootstrap_servers, line.target) == []
        assert run(line, limited=False, **trigger) == "", "the batch that was logged"
        assert run(line, limited=False, **trigger) == "", "and the rest"
    line.assert_exact()


def test_without_a_limit_all_is_read_also_by_the_next_run(line: Line) -> None:
    assert run(line, limited=False, availableNow=True) == ""
    line.assert_exact()
    produce(line.kafka, line.source, range(ROWS, 2 * ROWS))
    assert run(line, limited=False, availableNow=True) == ""
    line.assert_exact()


def test_sparks_wrapper_of_sources(line: Line, setting: Callable[[str, str], None]) -> None:
    """It asks a source for new rows before it names where the query is."""
    assert run(line, limited=False, availableNow=True) == ""
    produce(line.kafka, line.source, range(ROWS, 2 * ROWS))
    setting(WRAPPER, "true")
    if not versions.current().limits_each_batch:
        assert run(line, limited=False, availableNow=True) == "PLANNED_TOO_EARLY"
        setting(WRAPPER, "false")
    assert run(line, limited=False, availableNow=True) == ""
    line.assert_exact()
