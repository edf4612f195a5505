"""The reader of Spark 4.0 and 4.1 on a real broker, called in Spark's order: it keeps where the query is.

Rows are lost or doubled where it is wrong about that: after a restart, with a batch that is logged and not committed,
or when it is asked again before what it has said was planned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from semel.errors import DataLoss, Unsupported
from semel.spark.source_offset import parse
from tests.read.support.runs_without_limits import Forgetful, RunWithoutLimits
from tests.read.support.source_readers import topic_numbers
from tests.read.support.source_runs import add, numbers, texts
from tests.support.other_client import delete_records
from tests.support.topics import create

Start = Callable[..., RunWithoutLimits]


@pytest.fixture
def topic(servers: str) -> str:
    """25 rows in two partitions."""
    name = create(servers, f"without-limits-{next(topic_numbers)}", 2)
    add(servers, name, 0, 25, partitions=2)
    return name


@pytest.fixture
def run(servers: str, topic: str) -> Iterator[Start]:
    started: list[RunWithoutLimits] = []

    def start(log: list[str], **options: Any) -> RunWithoutLimits:
        options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 10, **options}
        started.append(RunWithoutLimits(servers, log, **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def test_a_new_query_reads_all_in_limited_batches(run: Start) -> None:
    query = run([])
    batches = []
    while (batch := query.batch()) is not None:
        batches.append(batch)
    assert [len(batch) for batch in batches] == [9, 10, 6], "each partition's share is rounded down"
    assert numbers([row for batch in batches for row in batch]) == texts(0, 25)


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "logged only"])
def test_a_restart_resumes_where_the_offset_log_ends(run: Start, committed: bool) -> None:
    first = run([])
    rows = [first.batch(), first.batch()]
    again = run(list(first.log))
    if not committed:
        assert again.read() == rows[1], "a replay has exactly its ranges"
    assert numbers([*(rows[0] or ()), *(rows[1] or ()), *again.rest()]) == texts(0, 25)


def test_a_restart_replays_a_batch_of_other_limits_with_its_ranges(run: Start) -> None:
    first = run([], maxOffsetsPerTrigger=4)
    rows = [first.batch(), first.batch()]
    again = run(list(first.log), maxOffsetsPerTrigger=100, minPartitions=5)
    assert numbers(again.read()) == numbers(rows[1])
    assert again.tasks() >= 2
    assert numbers([*(rows[0] or ()), *(rows[1] or ()), *again.rest()]) == texts(0, 25)


def test_control_a_reader_that_forgets_the_log_reads_twice(run: Start) -> None:
    first = run([])
    rows = [first.batch(), first.batch()]
    again = run(list(first.log), reader=Forgetful)
    again.plan()
    logged, planned = (parse(text).topics for text in again.log[-2:])
    assert all(planned[name].end[p] < end for name in logged for p, end in logged[name].end.items()), "it goes back"
    assert rows[0] is not None


def test_asked_again_before_planning_it_resumes_at_its_answer(run: Start) -> None:
    """Spark plans no task of a source whose rows a plan does not need."""
    query = run([])
    assert query.plan()
    skipped = {p: end for topic in parse(query.log[0]).topics.values() for p, end in topic.end.items()}
    rows = query.rest()
    assert len(rows) == 25 - sum(skipped.values())
    assert all(offset >= skipped[partition] for _, partition, offset, _ in rows)


def test_rows_that_come_later_are_read_once(run: Start, servers: str, topic: str) -> None:
    query = run([])
    rows = query.rest()
    assert not query.plan()
    assert not query.plan()
    add(servers, topic, 25, 30, partitions=2)
    assert numbers([*rows, *query.rest()]) == texts(0, 30)


def test_a_restart_in_batch_0_keeps_where_it_began(run: Start, servers: str, topic: str) -> None:
    first = run([], startingOffsets="latest")
    assert first.plan()
    add(servers, topic, 25, 30, partitions=2)
    again = run(list(first.log), startingOffsets="latest")
    assert again.read() == []
    assert numbers(again.rest()) == texts(25, 30)


def test_a_replayed_batch_is_compared_with_what_is_left(run: Start, servers: str, topic: str) -> None:
    """To be given the newest end is no first batch: that one is checked for lost rows."""
    first = run([])
    assert first.plan()
    for partition in range(2):
        delete_records(servers, topic, partition, 3)
    again = run(list(first.log))
    with pytest.raises(DataLoss):
        again.read()


def test_a_position_that_is_named_too_late_is_refused(run: Start) -> None:
    """Spark's wrapper for availableNow asks for new rows first: they would begin where a new query begins."""
    first = run([])
    assert [first.plan(), first.plan()] == [True, True]
    early, newest = run([]).reader, json.loads(first.log[-1])
    early.latestOffset()
    with pytest.raises(Unsupported, match=r"\[SEMEL_PLANNED_TOO_EARLY\]"):
        early.partitions(newest, newest)
