"""The readers of a streaming query on a real broker, called as Spark calls them: starts, partitions, limits."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable

from semel.spark.source_offset import parse
from tests.read.support.source_readers import Start, more, topic_numbers
from tests.read.support.source_runs import Row, add, numbers, texts
from tests.support.other_client import (
    Transactional,
    produce,
    values,
)
from tests.support.topics import create
from tests.support.waiting import wait_for


@pytest.fixture
def topic() -> str:
    return f"source-{next(topic_numbers)}"


def widen(servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
    wait_for(
        lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == partitions,
        f"{partitions} partitions of {topic}",
    )


# ---- streaming


def test_latest_is_the_default_and_the_first_batch_pins_it(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    query = run([], subscribe=topic)
    assert query.batch() == []
    logged = parse(query.log[0])
    assert (logged.initial, dict(logged.topics[topic].began), dict(logged.topics[topic].end)) == (
        False,
        {0: 10},
        {0: 10},
    )
    assert query.batch() is None
    add(servers, topic, 10, 15)
    assert numbers(query.batch()) == texts(10, 15)
    assert query.batch() is None
    again = run(query.log, subscribe=topic)
    assert again.batch() is None
    add(servers, topic, 15, 20)
    assert numbers(again.batch()) == texts(15, 20)
    assert dict(parse(query.log[-1]).topics[topic].began) == {0: 10}, "unchanged, whatever happens"


@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_a_crash_in_batch_0_loses_and_doubles_nothing(servers: str, topic: str, run: Start, start: str) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    options = {"subscribe": topic, "startingOffsets": start}
    first = run([], **options)
    begun = first.reader.initialOffset()
    add(servers, topic, 10, 20)
    assert first.reader.initialOffset() == begun, "the second answer of a run is the first"
    assert first.plan()
    planned = texts(10 if start == "latest" else 0, 20)
    assert numbers(first.read()) == planned
    add(servers, topic, 20, 30)
    second = run(first.log, **options)
    if start == "latest":
        assert second.reader.initialOffset() != begun, "control: asked again after the crash, the answer is another"
    assert numbers(second.read(0)) == planned
    assert numbers(second.batch()) == texts(20, 30)


def test_a_crash_before_the_first_batch_is_logged_starts_anew(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    run([], subscribe=topic).reader.initialOffset()
    add(servers, topic, 10, 20)
    second = run([], subscribe=topic)
    assert second.batch() == []
    add(servers, topic, 20, 30)
    assert numbers(second.batch()) == texts(20, 30)


def test_partitions_that_are_added_while_it_runs(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    query = run([], subscribe=topic)
    assert query.batch() == []
    widen(servers, topic, 3)
    produce(servers, topic, [{"value": f"v{i}".encode(), "partition": i % 3} for i in range(10, 40)])
    seen: list[Row] = []
    wait_for(lambda: len(more(seen, query.rest())) == 30, "30 rows")
    assert numbers(seen) == texts(10, 40)
    logged = parse(query.log[-1]).topics[topic]
    assert dict(logged.began) == {0: 10, 1: 0, 2: 0}
    replayed = [row for number in range(len(query.log)) for row in run(query.log, subscribe=topic).read(number)]
    assert sorted(replayed) == sorted(seen)


def test_limits_of_a_trigger(servers: str, topic: str, run: Start) -> None:
    create(servers, topic, 2)
    produce(servers, topic, [{"value": b"v", "partition": int(i >= 300)} for i in range(400)])
    query = run([], subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=40)
    sizes = [sorted((p, len([row for row in rows if row[1] == p])) for p in (0, 1)) for rows in iter(query.batch, None)]
    assert sizes[0] == [(0, 30), (1, 10)], "shared out by what is waiting"
    assert sum(size for batch in sizes for _, size in batch) == 400
    assert len(sizes) == 10
    add(servers, topic, 0, 100)
    assert len(query.batch(ReadAllAvailable()) or []) == 100, "Spark's word goes before the options"


def test_too_little_is_waited_with(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 5)
    query = run([], subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=10, maxOffsetsPerTrigger=12)
    assert numbers(query.batch()) == texts(0, 5), "the first trigger does not wait"
    add(servers, topic, 5, 14)
    assert query.batch() is None
    add(servers, topic, 14, 15)
    assert numbers(query.batch()) == texts(5, 15)
    add(servers, topic, 15, 40)
    assert len(query.batch() or []) == 12


def test_too_little_is_waited_with_no_longer_than_was_said(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    query = run([], subscribe=topic, minOffsetsPerTrigger=10, maxTriggerDelay="300ms")
    assert query.batch() == []
    add(servers, topic, 0, 3)
    seen: list[Row] = []
    wait_for(lambda: more(seen, query.batch() or []), "rows")
    assert numbers(seen) == texts(0, 3)


def test_available_now_ends_at_what_was_there(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    log: list[str] = []
    query = run(
        log,
        available_now=True,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=4,
        minOffsetsPerTrigger=4,
    )
    widen(servers, topic, 2)
    produce(servers, topic, [{"value": f"v{i}".encode(), "partition": i % 2} for i in range(10, 20)])
    assert numbers(query.rest()) == texts(0, 10)
    assert len(log) == 3
    assert query.batch() is None
    again = run(log, available_now=True, subscribe=topic)
    assert numbers(again.rest()) == texts(10, 20), "the next run has the new partition too"


def test_available_now_with_nothing_to_read(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    query = run([], available_now=True, subscribe=topic)
    assert query.batch() == []
    assert query.batch() is None


def test_transactions_come_when_they_are_committed(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    one, two = Transactional(servers, f"{topic}-1"), Transactional(servers, f"{topic}-2")
    query = run([], subscribe=topic)
    assert query.batch() == []
    one.write(topic, values(3, "a"))
    two.write(topic, values(3, "b"))
    one.write(topic, values(3, "c"))
    two.end(commit=True)
    assert query.batch() is None, "held by the open one"
    reported = query.reader.reportLatestOffset()
    assert reported is not None
    assert parse(json.dumps(reported)).topics[topic].end == {0: 0}
    one.end(commit=False)
    seen: list[Row] = []
    wait_for(lambda: len(more(seen, query.rest())) == 3, "3 rows")
    assert numbers(seen) == [b"b0", b"b1", b"b2"]


def test_the_lag_is_reported(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 50)
    query = run([], subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    assert query.reader.reportLatestOffset() is None
    assert len(query.batch() or []) == 20
    assert parse(json.dumps(query.reader.reportLatestOffset())).topics[topic].end == {0: 50}
    assert parse(query.log[0]).topics[topic].end == {0: 20}
