"""Topics that a pattern finds: which it leaves out, and logs that begin with markers."""

from __future__ import annotations

import logging
import re

import pyarrow as pa
import pytest

import semel
from semel.spark.source_offset import parse
from tests.read.support.source_readers import Start, batch_rows, more, topic_numbers
from tests.read.support.source_runs import Row, add, numbers, texts
from tests.support.other_client import (
    Transactional,
    delete_records,
    values,
)
from tests.support.topics import create
from tests.support.waiting import wait_for


@pytest.fixture
def topic() -> str:
    return f"source-{next(topic_numbers)}"


def test_a_topic_that_a_pattern_finds_later(servers: str, topic: str, run: Start) -> None:
    query = run([], subscribePattern=f"{topic}-[ab]")
    assert query.batch() == []
    assert parse(query.log[0]).topics == {}
    for name in ("a", "b", "c"):
        create(servers, f"{topic}-{name}", 2)
        add(servers, f"{topic}-{name}", 0, 10, partitions=2)
    seen: list[Row] = []
    wait_for(lambda: len(more(seen, query.rest())) == 20, "20 rows")
    assert {row[0] for row in seen} == {f"{topic}-a", f"{topic}-b"}


def test_a_pattern_leaves_out_kafkas_topics_and_our_own_progress(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    with (
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.producer(topic) as producer,
        producer.transaction() as txn,
    ):
        txn.send(topic, pa.table({"value": [b"x"]}))
        txn.send_offsets({(topic, 0): 0}, topic)
    query = run([], subscribePattern=".*")
    query.plan()
    names = parse(query.log[0]).topics.keys()
    assert topic in names
    assert not {name for name in names if name.startswith("__") or name == "semel-progress"}


def test_markers_and_aborted_rows_alone_are_no_batch(servers: str, topic: str, run: Start) -> None:
    """They take offsets, and nobody waits for them; the next row comes with its batch."""
    create(servers, topic, 2)
    add(servers, topic, 0, 10, partitions=2)
    query = run([], subscribe=topic, startingOffsets="earliest")
    seen = query.rest()
    assert numbers(seen) == texts(0, 10)
    writer = Transactional(servers, topic)
    for number in range(30):
        writer.write(topic, values(1, f"aborted-{number}-", partition=number % 2))
        writer.end(commit=False)
        assert query.batch() is None, "rows of an aborted transaction, and its markers"
    writer.write(topic, [{"value": b"v10", "partition": 1}])
    writer.end(commit=True)
    wait_for(lambda: len(more(seen, query.rest())) == 11, "the row behind them")
    assert numbers(seen) == texts(0, 11)
    assert query.batch() is None, "the marker behind that"
    log = list(query.log)
    assert numbers([row for number in range(len(log)) for row in run(log, subscribe=topic).read(number)]) == texts(
        0, 11
    )


def test_more_offsets_than_are_looked_at_are_a_batch(servers: str, topic: str, run: Start) -> None:
    """Whatever they hold: it costs one empty batch, and moves on."""
    create(servers, topic)
    query = run([], subscribe=topic, startingOffsets="earliest")
    assert query.batch() == []
    writer = Transactional(servers, topic)
    for _ in range(12):
        writer.write(topic, values(1, "aborted"))
        writer.end(commit=False)
    wait_for(lambda: query.batch() == [], "an empty batch")
    assert query.batch() is None


def test_a_pattern_leaves_out_every_progress_topic_whatever_its_name(servers: str, topic: str, run: Start) -> None:
    """Also one that is empty yet; a topic of rows with as many partitions is read, from its first row on."""
    progress, later, rows = f"{topic}.progress", f"{topic}.later", f"{topic}.rows"
    create(servers, later, 16, cleanup_policy="compact")
    create(servers, rows, 16)
    query = run([], subscribePattern=re.escape(topic) + r"\..*")
    assert query.batch() == []
    with semel.Cluster({"bootstrap.servers": servers}) as cluster:
        for kept in (progress, later):
            with cluster.producer(f"{topic}-{kept}", progress_topic=kept) as producer, producer.transaction() as txn:
                txn.send(rows, pa.table({"value": [b"x"], "partition": [3]}))
    seen: list[Row] = []
    wait_for(lambda: len(more(seen, query.rest())) == 2, "two rows")
    assert {(row[0], row[1]) for row in seen} == {(rows, 3)}
    assert parse(query.log[-1]).topics.keys() == {rows}
    assert {row[0] for row in batch_rows(servers, subscribePattern=re.escape(topic) + r"\..*")} == {rows}


def test_a_pattern_that_matches_progress_topics_alone_is_a_warning(
    servers: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(servers, topic, 1)
    with (
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.producer(topic, progress_topic=f"{topic}.progress") as producer,
        producer.transaction() as txn,
    ):
        txn.send(topic, pa.table({"value": [b"x"]}))
    with caplog.at_level(logging.WARNING, "semel"):
        assert batch_rows(servers, subscribePattern=re.escape(topic) + r"\..*") == []
    assert "matches no topic yet: those that it matches keep progress, and are never read" in caplog.text


def test_a_pattern_reads_a_log_that_begins_with_a_marker(servers: str, topic: str, run: Start) -> None:
    """Whoever deletes what was read deletes up to the marker behind it, where the reader stands. What retention has
    emptied is read from its next row on, and nothing is missed of it.
    """
    create(servers, topic, 16)
    pattern = re.escape(topic)
    writer = Transactional(servers, topic)
    for number in range(2):
        writer.write(topic, values(1, f"t{number}-", partition=0))
        writer.end(commit=True)
    delete_records(servers, topic, 0, 1)
    assert [row[:3] for row in batch_rows(servers, subscribePattern=pattern)] == [(topic, 0, 2)]
    delete_records(servers, topic, 0, 3)
    query = run([], subscribePattern=pattern, startingOffsets="earliest")
    assert query.batch() == [], "a marker alone"
    assert parse(query.log[-1]).topics.keys() == {topic}
    writer.write(topic, values(1, "t2-", partition=0))
    writer.end(commit=True)
    seen: list[Row] = []
    wait_for(lambda: len(more(seen, query.rest())) == 1, "the row behind it")
    assert seen[0][:3] == (topic, 0, 4)
