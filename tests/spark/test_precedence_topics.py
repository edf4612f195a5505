"""A query whose sources name other topics or partitions than before, or one topic twice: each goes on where it stood."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from semel.errors import DataLoss
from semel.sandbox import Sandbox
from tests.spark.harness import create, produce, values
from tests.spark.lines import Crashed, Line, crash_before


@pytest.fixture
def line(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Line:
    return Line.new(spark, kafka, tmp_path, "topics")


def assert_once(line: Line, rows: int) -> None:
    seen = values(line.kafka.bootstrap_servers, line.target)
    assert len(seen) == len(set(seen)) == rows


@pytest.mark.parametrize("checkpoint", ["the same", "new ones"])
def test_a_topic_is_left_out_and_named_again(line: Line, checkpoint: str) -> None:
    other = create(line.kafka, f"{line.prefix}-other", 2)

    def run(number: int, *topics: str) -> None:
        resumed = {"startingOffsets": "committed", "transactionalIdPrefix": line.prefix} if number and checkpoint == "new ones" else {}
        where = line.directory / f"cp-{number}" if checkpoint == "new ones" else None
        line.run(reading={"subscribe": ",".join(topics), **resumed}, checkpoint=where)

    produce(line.kafka, line.source, range(40))
    produce(line.kafka, other, range(100, 140))
    run(0, line.source, other)
    for first in (40, 60):
        produce(line.kafka, line.source, range(first, first + 20))
        produce(line.kafka, other, range(first + 100, first + 120))
        run(first, line.source)
        assert_once(line, first + 60)
    run(80, line.source, other)
    assert_once(line, 160)
    produce(line.kafka, other, range(180, 190))
    run(90, other)
    assert_once(line, 170)


def test_two_sources_of_one_topic_that_stand_at_different_offsets(line: Line) -> None:
    produce(line.kafka, line.source, range(200))

    def both(first: dict[str, Any], second: dict[str, Any]) -> DataFrame:
        def half(which: int, options: dict[str, Any]) -> DataFrame:
            return line.rows(**options).select("key", "value").where(f"offset % 2 = {which}")

        return half(0, first).unionAll(half(1, second))

    slow, fast = {"maxOffsetsPerTrigger": 20}, {"maxOffsetsPerTrigger": 60}
    with pytest.raises(Crashed):
        line.run(rows=both(slow, fast), around=crash_before(2))
    committed = {"startingOffsets": "committed", "transactionalIdPrefix": line.prefix}
    with pytest.raises(DataLoss, match="give each source its own startingOffsets") as refused:
        line.run(rows=both(slow | committed, fast | committed), checkpoint=line.directory / "committed")
    places = re.findall(r"source \d (\{.*?\}\})", refused.value.message)
    assert len(places) == 2
    first, second = ({"startingOffsets": place} for place in places)
    line.run(rows=both(slow | first, fast | second), checkpoint=line.directory / "given")
    assert_once(line, 200)
