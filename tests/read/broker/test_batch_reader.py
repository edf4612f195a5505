"""The reader of a batch query on a real broker, called as Spark calls it: what it reads is compared with librdkafka."""

from __future__ import annotations

import json
import logging
import threading
import time

import pyarrow as pa
import pytest

from semel.errors import ConfigError, DataLoss, Retriable
from semel.spark.source.readers import Slice
from semel.wire.client import Client
from tests.read.support.source_readers import batch_rows, topic_numbers
from tests.read.support.source_runs import Run, add, numbers, rows_of, source, texts
from tests.support.other_client import (
    Transactional,
    delete_records,
    oracle,
    produce,
    ranges,
    values,
)
from tests.support.topics import create


@pytest.fixture
def topic() -> str:
    return f"source-{next(topic_numbers)}"


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
    with pytest.raises(ConfigError, match=r"\[SEMEL_WRONG_VALUE\]"):
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


def test_the_reader_leaves_no_thread_and_no_connection_behind(servers: str, topic: str) -> None:
    create(servers, topic)
    before = threading.active_count()
    query = Run(servers, [], subscribe=topic)
    query.batch()
    assert threading.active_count() == before
    query.stop()
    query.stop()
