"""A query whose sources name other topics or partitions than before, or one topic twice: each goes on where it
stood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from semel.errors import DataLoss
from semel.sandbox import Sandbox
from tests.spark.support.copy_query import Crashed, Line, crash_before
from tests.spark.support.topics_and_drivers import create, produce, values


@pytest.fixture
def line(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Line:
    return Line.new(spark, kafka, tmp_path, "topics")


def assert_once(line: Line, rows: int) -> None:
    seen = values(line.kafka.bootstrap_servers, line.target)
    assert len(seen) == len(set(seen)) == rows


@pytest.mark.parametrize("checkpoint", ["the same", pytest.param("new ones", marks=pytest.mark.exhaustive)])
def test_a_topic_is_left_out_and_named_again(line: Line, checkpoint: str) -> None:
    """As with Spark's own source, it begins as new: its rows are read again."""
    other = create(line.kafka, f"{line.prefix}-other", 2)

    def run(number: int, *topics: str) -> None:
        resumed = (
            {"startingOffsets": "committed", "transactionalIdPrefix": line.prefix}
            if number and checkpoint == "new ones"
            else {}
        )
        where = line.directory / f"cp-{number}" if checkpoint == "new ones" else None
        line.run(
            reading={"subscribe": ",".join(topics), "failOnDataLoss": len(topics) == 2, **resumed}, checkpoint=where
        )

    produce(line.kafka, line.source, range(40))
    produce(line.kafka, other, range(100, 140))
    run(0, line.source, other)
    for first in (40, 60):
        produce(line.kafka, line.source, range(first, first + 20))
        run(first, line.source)
        assert_once(line, first + 60)
    run(80, line.source, other)
    seen = values(line.kafka.bootstrap_servers, line.target)
    assert sorted(json.loads(value)["id"] for value in seen) == sorted([*range(80), *range(100, 140), *range(100, 140)])
    produce(line.kafka, line.source, range(80, 90))
    run(90, line.source, other)
    assert len(values(line.kafka.bootstrap_servers, line.target)) == len(seen) + 10


@pytest.mark.parametrize("consent", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_the_two_of_a_union_are_exchanged(line: Line, consent: bool) -> None:
    """By position each source reads on what the other one has read: refused by the source, and behind it by the
    sink.
    """
    other = create(line.kafka, f"{line.prefix}-other", 2)
    produce(line.kafka, line.source, range(40))
    produce(line.kafka, other, range(100, 140))

    def union(first: str, second: str, **options: Any) -> DataFrame:
        one, two = (line.rows(subscribe=topic, **options).select("key", "value") for topic in (first, second))
        return one.unionAll(two)

    line.run(rows=union(line.source, other))
    produce(line.kafka, line.source, range(40, 50))
    with pytest.raises(DataLoss) as refused:
        line.run(rows=union(other, line.source, failOnDataLoss=not consent))
    assert refused.value.tag == ("PROGRESS_MISMATCH" if consent else "LEFT_OUT")
    if not consent:
        line.run(rows=union(line.source, other))
        return assert_once(line, 90)
    assert f"{line.source}-0 was read up to 20 by another source of the query" in refused.value.message
    places = re.findall(r"source \d (\{.*?\}\})", refused.value.message)
    resumed = [
        line.rows(subscribe=topic, startingOffsets=place).select("key", "value")
        for topic, place in zip((line.source, other), places, strict=True)
    ]
    line.run(rows=resumed[0].unionAll(resumed[1]), checkpoint=line.directory / "given")
    return assert_once(line, 90)


@pytest.fixture
def named_sources(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    yield
    spark.conf.unset("spark.sql.streaming.queryEvolution.enableSourceEvolution")


@pytest.mark.spark_4_3
@pytest.mark.usefixtures("named_sources")
@pytest.mark.parametrize(
    "starting", ["where it stood", "earliest", pytest.param("latest", marks=pytest.mark.exhaustive)]
)
def test_a_topic_moves_to_a_source_of_its_own(line: Line, starting: str) -> None:
    other = create(line.kafka, f"{line.prefix}-other", 2)

    def named(name: str, topics: str, **options: Any) -> DataFrame:
        given = {"startingOffsets": "earliest", **line.kafka_options, **options, "subscribe": topics}
        return line.spark.readStream.format("semel").name(name).options(**given).load().select("key", "value")

    produce(line.kafka, line.source, range(40))
    produce(line.kafka, other, range(100, 140))
    line.run(rows=named("first", f"{line.source},{other}"))
    produce(line.kafka, other, range(140, 160))
    offsets = json.dumps({other: {"0": 20, "1": 20}}) if starting == "where it stood" else starting
    moved = named("first", line.source, failOnDataLoss=False).unionAll(named("second", other, startingOffsets=offsets))
    if starting == "where it stood":
        line.run(rows=moved)
        return assert_once(line, 100)
    with pytest.raises(DataLoss, match=rf"source 'second': {other}-0 was read up to 20 by another source") as refused:
        line.run(rows=moved)
    wrong = f"repeat rows {other}-0 0 to 19" if starting == "earliest" else f"miss rows {other}-0 20 to 29"
    assert wrong in refused.value.message
    return assert_once(line, 80)


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
