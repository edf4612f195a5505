"""The source's readers on a real broker, called as Spark calls them, but without Spark: what a batch reads is compared
with librdkafka.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable

import semel
from semel.errors import ConfigError, DataLoss, Retriable
from semel.spark.source.datasource import Slice
from semel.spark.source_offset import TopicOffset, parse
from semel.transaction.producer import Producer
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from semel.transaction.progress.topic import ProgressTopic
from semel.wire.client import Client
from tests.read.support.source_runs import Row, Run, add, numbers, rows_of, source, texts
from tests.support.other_client import (
    Transactional,
    delete,
    delete_records,
    oracle,
    produce,
    ranges,
    topic_id,
    values,
)
from tests.support.topics import create
from tests.support.waiting import wait_for

_numbers = count()

Start = Callable[..., Run]


@pytest.fixture
def run(servers: str) -> Iterator[Start]:
    started: list[Run] = []

    def start(log: list[str], **options: Any) -> Run:
        started.append(Run(servers, log, **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def topic() -> str:
    return f"source-{next(_numbers)}"


def more(seen: list[Row], rows: Iterable[Row]) -> list[Row]:
    """What was seen, with these behind it."""
    seen.extend(rows)
    return seen


def widen(servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
    wait_for(
        lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == partitions,
        f"{partitions} partitions of {topic}",
    )


def batch_rows(servers: str, **options: Any) -> list[Row]:
    made = source(servers, options)
    reader = made.reader(made.schema())
    return rows_of(reader, list(reader.partitions()))


# ---- batch queries


def test_a_batch_query_reads_what_librdkafka_reads(servers: str, client: Client, topic: str) -> None:
    create(servers, topic, 3)
    add(servers, topic, 0, 500, partitions=3)
    writer = Transactional(servers, topic)
    for commit in (True, False):
        writer.write(topic, values(50, "t", partition=1))
        writer.end(commit=commit)
    expected = oracle(servers, ranges(client, topic))
    found = batch_rows(servers, subscribe=topic)
    assert [(p, o, v) for _, p, o, v in sorted(found)] == [(p, o, v) for p, o, _, v in sorted(expected)]
    assert {row[0] for row in found} == {topic}
    uncommitted = batch_rows(servers, subscribe=topic, **{"kafka.isolation.level": "read_uncommitted"})
    assert len(uncommitted) == len(found) + 50, "control: the aborted rows are there"


def test_an_open_transaction_ends_what_is_read(servers: str, topic: str) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    writer = Transactional(servers, topic)
    writer.write(topic, values(5, "open"))
    add(servers, topic, 10, 20)
    assert numbers(batch_rows(servers, subscribe=topic)) == texts(0, 10)
    writer.end(commit=True)
    assert len(batch_rows(servers, subscribe=topic)) == 25


def test_offsets_and_times_bound_a_batch_query(servers: str, topic: str) -> None:
    create(servers, topic, 2)
    produce(
        servers,
        topic,
        [{"value": f"v{i}".encode(), "partition": i % 2, "timestamp": 1_000 * (i + 1)} for i in range(20)],
    )
    per_partition = json.dumps({topic: {"0": 2, "1": -2}})
    ends = json.dumps({topic: {"0": 4, "1": -1}})
    found = batch_rows(servers, subscribe=topic, startingOffsets=per_partition, endingOffsets=ends)
    assert sorted((p, o) for _, p, o, _ in found) == [(0, 2), (0, 3), *((1, i) for i in range(10))]
    assert numbers(batch_rows(servers, subscribe=topic, startingTimestamp=5_000, endingTimestamp=9_000)) == texts(4, 8)
    times = json.dumps({topic: {"0": 19_000, "1": 20_000}})
    assert numbers(batch_rows(servers, subscribe=topic, startingOffsetsByTimestamp=times)) == texts(18, 20)
    late = {"subscribe": topic, "startingTimestamp": 50_000}
    with pytest.raises(ConfigError, match="NO_OFFSET_AT_TIMESTAMP"):
        batch_rows(servers, **late)
    assert batch_rows(servers, **late, startingOffsetsByTimestampStrategy="latest") == []
    with pytest.raises(ConfigError, match=r"\[SEMEL_END_BEFORE_START\]"):
        batch_rows(
            servers, subscribe=topic, startingTimestamp=9_000, endingOffsets=json.dumps({topic: {"0": 1, "1": 1}})
        )


def test_which_partitions_are_read(servers: str, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        create(servers, name, 2)
        add(servers, name, 0, 10, partitions=2)
    assert {(t, p) for t, p, _, _ in batch_rows(servers, subscribe=f"{topic},{other}")} == {
        (t, p) for t in (topic, other) for p in (0, 1)
    }
    assert {(t, p) for t, p, _, _ in batch_rows(servers, assign=json.dumps({topic: [1], other: [0]}))} == {
        (topic, 1),
        (other, 0),
    }
    assert {t for t, *_ in batch_rows(servers, subscribePattern=f"{topic}-.*")} == {other}, "a whole name must match"
    with caplog.at_level(logging.WARNING, "semel"):
        assert batch_rows(servers, subscribePattern=f"{topic}-nothing") == []
    assert f"subscribePattern={topic}-nothing matches no topic yet" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "no-such-topic"}, r"\[SEMEL_UNKNOWN_TOPIC\] topic no-such-topic"),
        ({"assign": '{"no-such-topic":[0]}'}, r"\[SEMEL_UNKNOWN_TOPIC\] topic no-such-topic"),
        ({"assign": '{"TOPIC":[0,7]}'}, r"\[SEMEL_UNKNOWN_PARTITION\] topic .* has no partition 7: it has 1"),
        ({"subscribe": "TOPIC", "startingOffsets": '{"TOPIC":{"0":0,"1":0}}'}, "-1 are not read"),
        ({"subscribe": "TOPIC", "startingOffsets": '{"other":{"0":0}}'}, "each partition needs its own offset"),
    ],
)
def test_what_is_not_there(servers: str, topic: str, options: dict[str, str], message: str) -> None:
    create(servers, topic)
    with pytest.raises(ConfigError, match=message):
        batch_rows(servers, **{name: value.replace("TOPIC", topic) for name, value in options.items()})


def test_an_unreachable_broker_ends_in_time_and_is_named() -> None:
    began = time.monotonic()
    with pytest.raises(Retriable, match=r"127\.0\.0\.1:1 could not be reached"):
        batch_rows("127.0.0.1:1", subscribe="in", **{"kafka.default.api.timeout.ms": 1_000})
    assert time.monotonic() - began < 20


def test_records_deleted_before_the_start(servers: str, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    create(servers, topic)
    add(servers, topic, 0, 30)
    delete_records(servers, topic, 0, 10)
    given = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 5}})}
    with pytest.raises(DataLoss, match=r"\[SEMEL_OFFSETS_GONE\].* \[5, 10\)"):
        batch_rows(servers, **given)
    with caplog.at_level(logging.WARNING, "semel"):
        assert numbers(batch_rows(servers, **given, failOnDataLoss=False)) == texts(10, 30)
    assert "[5, 10)" in caplog.text
    assert numbers(batch_rows(servers, subscribe=topic)) == texts(10, 30), "earliest is what there is"


def test_headers_times_and_nulls_come_as_in_sparks_source(servers: str, topic: str) -> None:
    create(servers, topic)
    produce(
        servers,
        topic,
        [{"value": None, "key": b"k", "timestamp": 1_234_567, "headers": [("h", b"1"), ("h", None)]}, {"value": b"x"}],
    )
    made = source(servers, {"subscribe": topic, "includeHeaders": True})
    reader = made.reader(made.schema())
    table = pa.Table.from_batches([batch for partition in reader.partitions() for batch in reader.read(partition)])
    first, second = table.to_pylist()
    assert (first["key"], first["value"], first["timestamp"].timestamp(), first["timestampType"]) == (
        b"k",
        None,
        1234.567,
        0,
    )
    assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert (second["key"], second["headers"]) == (None, None)


def test_more_tasks_than_partitions_read_the_same(servers: str, topic: str) -> None:
    create(servers, topic, 2)
    add(servers, topic, 0, 100, partitions=2)
    made = source(servers, {"subscribe": topic, "minPartitions": 7, "maxRecordsPerPartition": 15})
    reader = made.reader(made.schema())
    partitions = list(reader.partitions())
    assert len(partitions) >= 7
    assert all(isinstance(one, Slice) and sum(each.size for each in one.ranges) <= 15 for one in partitions)
    assert numbers(rows_of(reader, partitions)) == texts(0, 100)


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


# ---- what is gone


def test_records_that_were_deleted_before_a_planned_batch_was_read(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 30)
    query = run([], subscribe=topic, startingOffsets="earliest")
    assert query.plan()
    delete_records(servers, topic, 0, 12)
    with pytest.raises(DataLoss, match=r"\[0, 12\): the log starts at 12"):
        query.read()
    again = run(query.log, subscribe=topic, failOnDataLoss=False)
    assert numbers(again.read(0)) == texts(12, 30)


def test_records_that_were_deleted_while_it_runs_are_missed_by_the_task(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    query = run([], subscribe=topic, startingOffsets="earliest")
    assert numbers(query.batch()) == texts(0, 10)
    add(servers, topic, 10, 30)
    delete_records(servers, topic, 0, 20)
    assert query.plan()
    with pytest.raises(DataLoss, match=r"\[10, 20\): the log starts at 20"):
        query.read()
    assert numbers(run(query.log, subscribe=topic, failOnDataLoss=False).read()) == texts(20, 30)


def test_a_topic_that_is_created_anew(
    servers: str, client: Client, topic: str, run: Start, caplog: pytest.LogCaptureFixture
) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    log: list[str] = []
    query = run(log, subscribe=topic, startingOffsets="earliest")
    assert numbers(query.batch()) == texts(0, 10)
    delete(servers, topic)
    create(servers, topic)
    add(servers, topic, 100, 130)
    strict = run(list(log), subscribe=topic)
    with pytest.raises(DataLoss, match=r"\[10, …\): the topic was deleted and created again"):
        strict.plan()
    assert strict.log == log, "nothing is logged"
    easy = run(log, subscribe=topic, failOnDataLoss=False)
    with caplog.at_level(logging.WARNING, "semel"):
        assert numbers(easy.batch()) == texts(100, 130), "more than the old one had, and from its start"
    assert "created again" in caplog.text
    logged = parse(log[-1]).topics[topic]
    assert (logged.id, dict(logged.began)) == (topic_id(client, topic), {0: 0})
    assert numbers(run(log, subscribe=topic).read()) == texts(100, 130), "a replay does not judge anew"


@pytest.mark.parametrize("available_now", [False, True])
def test_one_of_two_topics_is_deleted(
    servers: str, topic: str, run: Start, available_now: bool, caplog: pytest.LogCaptureFixture
) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        create(servers, name)
        add(servers, name, 0, 10)
    log: list[str] = []
    options = {"subscribe": f"{topic},{other}", "startingOffsets": "earliest"}
    query = run(log, **options)
    assert len(query.batch() or []) == 20
    delete(servers, other)
    add(servers, topic, 10, 20)
    with pytest.raises(DataLoss, match=rf"{other}-0 \[10, …\): the topic or partition does not exist any more"):
        run(list(log), **options, available_now=available_now).plan()
    easy = run(log, **options, failOnDataLoss=False, available_now=available_now)
    with caplog.at_level(logging.WARNING, "semel"):
        assert numbers(easy.batch()) == texts(10, 20)
    assert set(parse(log[-1]).topics) == {topic}
    add(servers, topic, 20, 30)
    assert numbers(easy.rest()) == ([] if available_now else texts(20, 30)), "what comes later is no more for this run"


def test_all_that_is_there_now_of_a_topic_that_never_was(topic: str, run: Start) -> None:
    with pytest.raises(ConfigError, match=rf"\[SEMEL_UNKNOWN_TOPIC\] topic {topic} does not exist"):
        run([], subscribe=topic, startingOffsets="earliest", available_now=True).plan()


# ---- what the options leave out


@pytest.fixture
def other(servers: str, topic: str) -> str:
    """A second topic beside the first: both have ten rows."""
    name = f"{topic}-other"
    for one in (topic, name):
        create(servers, one)
        add(servers, one, 0, 10)
    return name


def test_a_topic_that_the_options_leave_out_stops_the_query(topic: str, other: str, run: Start) -> None:
    """As with Spark's own source: a name may be mistyped, or the topic moved to another source of the query."""
    log: list[str] = []
    assert len(run(log, subscribe=f"{topic},{other}", startingOffsets="earliest").rest()) == 20
    before = list(log)
    with pytest.raises(DataLoss, match=rf"\[SEMEL_LEFT_OUT\].*was reading: {other}-0 at 10\. Nothing was read"):
        run(log, subscribe=topic).plan()
    assert log == before


def test_a_topic_that_the_options_leave_out_begins_as_new_when_it_is_named_again(
    servers: str, topic: str, other: str, run: Start, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []
    both = f"{topic},{other}"
    assert len(run(log, subscribe=both, startingOffsets="earliest").rest()) == 20
    for name in (topic, other):
        add(servers, name, 10, 20)
    with caplog.at_level(logging.WARNING, "semel"):
        without = run(log, subscribe=topic, failOnDataLoss=False)
        assert numbers(without.batch()) == texts(10, 20)
        add(servers, topic, 20, 30)
        assert numbers(without.batch()) == texts(20, 30)
    assert [record.message.count(f"{other}-0 at 10") for record in caplog.records] == [1], "said once"
    assert parse(log[-1]).topics.keys() == {topic}
    assert run(log, subscribe=topic).batch() is None, "it needs no consent any more"
    again = run(log, subscribe=both)
    assert [row[:3] for row in again.rest()] == [(other, 0, offset) for offset in range(20)]
    assert run(log, subscribe=both).batch() is None


def test_a_partition_that_the_options_leave_out_begins_as_new(servers: str, topic: str, run: Start) -> None:
    create(servers, topic, 2)
    add(servers, topic, 0, 20, partitions=2)
    log: list[str] = []
    assert len(run(log, subscribe=topic, startingOffsets="earliest").rest()) == 20
    add(servers, topic, 20, 40, partitions=2)
    with pytest.raises(DataLoss, match=rf"\[SEMEL_LEFT_OUT\].*{topic}-1 at 10"):
        run(log, assign=json.dumps({topic: [0]})).plan()
    assert {row[1] for row in run(log, assign=json.dumps({topic: [0]}), failOnDataLoss=False).rest()} == {0}
    assert sorted(row[1:3] for row in run(log, assign=json.dumps({topic: [0, 1]})).rest()) == [
        (1, offset) for offset in range(20)
    ]


@pytest.mark.parametrize("anew", [False, True])
def test_a_topic_that_the_options_leave_out_and_that_is_gone(
    servers: str, topic: str, other: str, run: Start, anew: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []
    assert len(run(log, subscribe=f"{topic},{other}", startingOffsets="earliest").rest()) == 20
    delete(servers, other)
    if anew:
        create(servers, other)
    with pytest.raises(DataLoss, match=rf"{other}-0 at 10"):
        run(log, subscribe=topic).plan()
    assert run(log, subscribe=topic, failOnDataLoss=False).batch() == []
    assert f"no longer include it: {other}-0 at 10" in caplog.records[-1].message
    assert set(parse(log[-1]).topics) == {topic}


def test_a_topic_of_which_a_part_is_left_out_is_created_anew(servers: str, topic: str, run: Start) -> None:
    """The place of the part that is left out is one of the old topic: it must not keep the new one from being read."""
    create(servers, topic, 2)
    add(servers, topic, 0, 20, partitions=2)
    log: list[str] = []
    assert len(run(log, subscribe=topic, startingOffsets="earliest").rest()) == 20
    part = run(log, assign=json.dumps({topic: [0]}), failOnDataLoss=False)
    assert part.batch() == []
    delete(servers, topic)
    create(servers, topic, 2)
    add(servers, topic, 0, 8, partitions=2)

    seen: list[Row] = []
    wait_for(lambda: len(more(seen, part.rest())) >= 4, "the new topic's rows")
    assert sorted(row[1:3] for row in seen) == [(0, offset) for offset in range(4)]


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_a_wrong_name_is_refused_although_the_checkpoint_has_another(
    topic: str, other: str, run: Start, fail_on_data_loss: bool
) -> None:
    log: list[str] = []
    assert len(run(log, subscribe=f"{topic},{other}", startingOffsets="earliest").rest()) == 20
    before = list(log)
    for wrong in ({"subscribe": f"{topic}-mistyped"}, {"assign": json.dumps({topic: [7]})}):
        with pytest.raises(ConfigError, match=r"\[SEMEL_UNKNOWN_(TOPIC|PARTITION)\]"):
            run(log, **wrong, failOnDataLoss=fail_on_data_loss).plan()
    assert log == before


def test_a_wrong_name_beside_a_right_one_is_refused(topic: str, other: str, run: Start) -> None:
    log: list[str] = []
    assert len(run(log, subscribe=topic, startingOffsets="earliest").rest()) == 10
    for wrong in ({"subscribe": f"{topic},{other}-mistyped"}, {"assign": json.dumps({topic: [0, 7]})}):
        with pytest.raises(ConfigError, match=r"\[SEMEL_UNKNOWN_(TOPIC|PARTITION)\]"):
            run(log, **wrong).plan()


def test_a_topic_that_is_found_later_and_does_not_start_at_0(servers: str, topic: str, run: Start) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        create(servers, name)
        add(servers, name, 0, 10)
    delete_records(servers, other, 0, 4)
    query = run([], subscribe=topic)
    assert query.batch() == []
    both = f"{topic},{other}"
    with pytest.raises(DataLoss, match=rf"{other}-0 \[0, 4\): it was found later"):
        run(list(query.log), subscribe=both).plan()
    assert numbers(run(query.log, subscribe=both, failOnDataLoss=False).batch()) == texts(4, 10)


def test_a_log_that_is_shorter_than_what_was_read(servers: str, topic: str, run: Start) -> None:
    """As after an unclean leader election: the checkpoint has read up to 50, and the log ends at 30."""
    create(servers, topic)
    add(servers, topic, 0, 30)
    query = run([], subscribe=topic)
    assert query.batch() == []
    beyond = [query.log[0].replace(": 30}", ": 50}")]
    with pytest.raises(DataLoss, match=r"\[30, 50\): the log ends at 30"):
        run(list(beyond), subscribe=topic).plan()
    easy = run(beyond, subscribe=topic, failOnDataLoss=False)
    assert easy.batch() == []
    add(servers, topic, 30, 35)
    assert numbers(easy.batch()) == texts(30, 35), "read on from where the log ends now"


def test_a_checkpoint_of_another_cluster_is_refused(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    query = run([], subscribe=topic)
    assert query.batch() == []
    elsewhere = [query.log[0].replace(parse(query.log[0]).cluster, "elsewhere")]
    with pytest.raises(ConfigError, match=r"\[SEMEL_OTHER_CLUSTER\]"):
        run(elsewhere, subscribe=topic).plan()


def test_the_reader_leaves_no_thread_and_no_connection_behind(servers: str, topic: str) -> None:
    create(servers, topic)
    before = threading.active_count()
    query = Run(servers, [], subscribe=topic)
    query.batch()
    assert threading.active_count() == before
    query.stop()
    query.stop()


# ---- startingOffsets=committed


def committed_run(
    servers: str, client: Client, prefix: str, topic: str, end: dict[int, int], *, named: str | None = None
) -> None:
    """What a sink leaves behind: progress of a query that has read so far."""
    committed_source(client, prefix, {topic: TopicEnd(named or topic_id(client, topic), end)})


def committed_source(client: Client, prefix: str, *topics: dict[str, TopicEnd]) -> None:
    sources = tuple(KafkaSource(client.cluster, ends) for ends in topics)
    progress = Progress(query="q", run="r", batch=3, sources=sources)
    producer = Producer(client, prefix, scope="query")
    producer.take_over()
    with producer.transaction() as txn:
        txn.commit(progress)
    producer.close()


def test_committed_is_the_progress_of_the_prefix(servers: str, client: Client, topic: str, run: Start) -> None:
    create(servers, topic, 2)
    add(servers, topic, 0, 20, partitions=2)
    committed_run(servers, client, topic, topic, {0: 4})
    query = run([], subscribe=topic, startingOffsets="committed", transactionalIdPrefix=topic)
    assert sorted((p, o) for _, p, o, _ in query.rest()) == [
        *((0, i) for i in range(4, 10)),
        *((1, i) for i in range(10)),
    ]


@pytest.mark.parametrize("is_there", [True, False])
def test_committed_of_a_progress_with_a_topic_that_the_options_leave_out(
    servers: str, client: Client, topic: str, other: str, run: Start, is_there: bool
) -> None:
    """The first batch must have all that the progress has, be it there or not: the sink compares it. The next one has
    it no more.
    """
    committed_source(client, topic, {name: TopicEnd(topic_id(client, name), {0: 4}) for name in (topic, other)})
    if not is_there:
        delete(servers, other)
    options = {"subscribe": topic, "startingOffsets": "committed", "transactionalIdPrefix": topic}
    with pytest.raises(DataLoss, match=rf"\[SEMEL_LEFT_OUT\].*{other}-0 at 4"):
        run([], **options).plan()
    query = run([], **options, failOnDataLoss="false")
    assert numbers(query.batch()) == texts(4, 10)
    left_out = parse(query.log[0]).topics[other]
    assert left_out == TopicOffset(left_out.id, {0: 4}, {0: 4})
    assert query.batch() == []
    assert parse(query.log[-1]).topics.keys() == {topic}


def test_committed_goes_by_the_lowest_of_two_sources(servers: str, client: Client, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 20)
    topic_is = topic_id(client, topic)
    committed_source(client, topic, {topic: TopicEnd(topic_is, {0: 4})}, {topic: TopicEnd(topic_is, {0: 15})})
    query = run([], subscribe=topic, startingOffsets="committed", transactionalIdPrefix=topic)
    assert numbers(query.rest()) == texts(4, 20)


def test_committed_falls_back_to_the_group_and_then_refuses(
    servers: str, client: Client, topic: str, run: Start
) -> None:
    create(servers, topic)
    add(servers, topic, 0, 20)
    options = {"subscribe": topic, "startingOffsets": "committed", "transactionalIdPrefix": topic}
    with pytest.raises(ConfigError, match=r"\[SEMEL_NOTHING_COMMITTED\] transactionalIdPrefix"):
        run([], **options).plan()
    with pytest.raises(ConfigError, match=r"\[SEMEL_NOTHING_COMMITTED\] group"):
        run([], **options, **{"kafka.group.id": topic}).plan()
    with (
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.producer(f"{topic}-p") as producer,
        producer.transaction() as txn,
    ):
        txn.send_offsets({(topic, 0): 15}, topic)
    assert numbers(run([], **options, **{"kafka.group.id": topic}).rest()) == texts(15, 20)
    committed_run(servers, client, topic, topic, {0: 17})
    assert numbers(run([], **options, **{"kafka.group.id": topic}).rest()) == texts(17, 20), (
        "progress goes before the group"
    )


def test_committed_progress_of_a_topic_that_was_created_anew(
    servers: str, client: Client, topic: str, run: Start
) -> None:
    create(servers, topic)
    add(servers, topic, 0, 20)
    committed_run(servers, client, topic, topic, {0: 4}, named="AAAAAAAAAAAAAAAAAAAAAA")
    options = {"subscribe": topic, "startingOffsets": "committed", "transactionalIdPrefix": topic}
    with pytest.raises(DataLoss, match="created again"):
        run([], **options).plan()
    assert numbers(run([], **options, failOnDataLoss=False).rest()) == texts(0, 20)


def test_committed_waits_until_every_record_of_the_prefix_is_settled(
    servers: str, client: Client, topic: str, run: Start
) -> None:
    create(servers, topic)
    add(servers, topic, 0, 20)
    committed_run(servers, client, topic, topic, {0: 4})
    at = TopicEnd(topic_id(client, topic), {0: 9})
    newer = Progress(query="q", run="r", batch=4, sources=(KafkaSource(client.cluster, {topic: at}),))
    where = ProgressTopic(client, topic, "query")
    writer = Transactional(servers, topic)
    writer.write(where.name, [{"key": where.key, "value": newer.encode(), "partition": where.partition[1]}])
    options = {"subscribe": topic, "startingOffsets": "committed", "transactionalIdPrefix": topic}
    with pytest.raises(Retriable, match=r"\[SEMEL_PROGRESS_OPEN\]"):
        run([], **options, **{"kafka.default.api.timeout.ms": 1_000}).plan()
    writer.end(commit=True)
    assert numbers(run([], **options).rest()) == texts(9, 20)


def test_committed_under_a_prefix_that_was_taken_over_is_refused(
    servers: str, client: Client, topic: str, run: Start
) -> None:
    create(servers, topic)
    with Producer(client, topic, scope="query") as producer, producer.transaction() as txn:
        txn.commit(Progress(moved="successor"))
    with pytest.raises(ConfigError, match=r"\[SEMEL_PREFIX_MOVED\].*successor"):
        run([], subscribe=topic, startingOffsets="committed", transactionalIdPrefix=topic).plan()
