"""Reading from a real broker, compared with librdkafka: transactions in any order, codecs, compaction, headers,
timestamps.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

import semel
from semel.config import ClientConfig
from semel.errors import ConfigError, Retriable
from semel.read import NO_END, AtOffsets, Earliest, Range, Reader, resolve, schema
from semel.wire.client import Client
from tests.support.other_client import (
    Transactional,
    collect,
    followed,
    oracle,
    produce,
    ranges,
    rows,
    topic_id,
    values,
)
from tests.support.topics import create
from tests.support.waiting import wait_for


@pytest.fixture
def small(servers: str) -> Iterator[Client]:
    """A client whose fetches are so small that each range takes many."""
    with Client(
        ClientConfig.parse({"bootstrap.servers": servers, "max.partition.fetch.bytes": 700, "fetch.max.bytes": 2_000})
    ) as opened:
        yield opened


# ---- columns


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(servers: str, client: Client, codec: str) -> None:
    topic = create(servers, f"codec-{codec}")
    written = [
        {
            "key": None if i % 3 == 0 else b"k%d" % i,
            "value": None if i % 5 == 0 else b"value" * (i % 50),
            "timestamp": 1000 + i,
        }
        for i in range(3_000)
    ]
    produce(servers, topic, written, compression_type=codec, linger_ms=50)
    wanted = ranges(client, topic)
    found = collect(client, wanted)
    assert found == [(0, i, row["key"], row["value"]) for i, row in enumerate(written)]
    assert found == oracle(servers, wanted)


def test_a_timestamp_in_nanoseconds_is_named_or_null(servers: str) -> None:
    topic = create(servers, "nanoseconds", message_timestamp_after_max_ms=str(2**63 - 1))
    nanoseconds = 1_700_000_000_000_000_000
    produce(
        servers,
        topic,
        [{"value": b"%d" % i, "timestamp": time} for i, time in enumerate([5, nanoseconds, 7])],
        linger_ms=100,
    )
    with semel.Cluster({"bootstrap.servers": servers}) as cluster:
        with pytest.raises(ConfigError, match=rf"TIMESTAMP_OVERFLOW.*offset 1 of {topic}-0 is {nanoseconds} ms"):
            list(cluster.read(topic))
        (rows,) = cluster.read(topic, timestamp_overflow="null")
        assert rows["timestamp"].cast(pa.int64()).to_pylist() == [5_000, None, 7_000]
        assert rows["value"].to_pylist() == [b"0", b"1", b"2"]


def test_the_columns_are_those_of_sparks_source(servers: str, client: Client) -> None:
    topic = create(servers, "columns", 2)
    headers = [("a", b"1"), ("a", None), ("ü", b"")]
    produce(
        servers,
        topic,
        [
            {"value": b"x", "partition": 1, "timestamp": 1_700_000_000_123, "headers": headers},
            {"value": b"y", "partition": 1, "timestamp": 5},
        ],
    )
    (batch,) = Reader(client, ranges(client, topic), headers=True)
    assert batch.schema == schema(headers=True)
    seen = {"key": None, "topic": topic, "partition": 1, "timestampType": 0}
    assert batch.to_pylist() == [
        seen
        | {
            "value": b"x",
            "offset": 0,
            "timestamp": datetime.fromtimestamp(1_700_000_000.123, UTC),
            "headers": [{"key": key, "value": value} for key, value in headers],
        },
        seen | {"value": b"y", "offset": 1, "timestamp": datetime.fromtimestamp(0.005, UTC), "headers": None},
    ]
    (plain,) = Reader(client, ranges(client, topic))
    assert plain.schema == schema(headers=False)


def test_a_topic_with_log_append_time(servers: str, client: Client) -> None:
    topic = create(servers, "append-time", message_timestamp_type="LogAppendTime")
    before = datetime.now(UTC)
    produce(servers, topic, values(3, timestamp=5))
    (batch,) = Reader(client, ranges(client, topic))
    assert batch.column("timestampType").to_pylist() == [1, 1, 1]
    assert all(at.timestamp() >= int(before.timestamp()) for at in batch.column("timestamp").to_pylist())


def test_batches_have_at_most_the_rows_asked_for_and_positions_follow(servers: str, client: Client) -> None:
    topic = create(servers, "max-rows")
    produce(servers, topic, values(250), linger_ms=50)
    with Reader(client, ranges(client, topic), max_rows=100) as reader:
        seen = [(batch.num_rows, reader.positions[topic, 0]) for batch in reader]
    assert seen == [(100, 100), (100, 200), (50, 250)]


# ---- ranges


def test_nothing_to_read(servers: str, client: Client) -> None:
    topic = create(servers, "empty", 3)
    assert collect(client, []) == []
    assert collect(client, ranges(client, topic)) == []
    with pytest.raises(ValueError, match="two ranges"):
        Reader(client, ranges(client, topic) * 2)


def test_any_part_of_a_batch_and_of_a_topic(servers: str, client: Client) -> None:
    topic = create(servers, "parts", 2)
    produce(servers, topic, [*values(100), *values(50, "w", partition=1)], linger_ms=100)
    whole = oracle(servers, ranges(client, topic))
    chance = random.Random(4)
    for _ in range(25):
        wanted = [
            Range(topic, topic_id(client, topic), i, *sorted((chance.randint(0, n), chance.randint(0, n))))
            for i, n in ((0, 100), (1, 50))
        ]
        bounds = {one.partition: one for one in wanted}
        assert collect(client, wanted) == [row for row in whole if bounds[row[0]].start <= row[1] < bounds[row[0]].end]


def test_small_fetches_starve_no_partition(servers: str, small: Client) -> None:
    """Each batch is larger than a fetch may be, and only the first one of an answer is then given whole."""
    topic = create(servers, "starving", 7)
    produce(
        servers, topic, [{"value": b"%d" % i * 3_000, "partition": i % 7} for i in range(140)], batch_num_messages=1
    )
    wanted = ranges(small, topic)
    assert collect(small, wanted) == oracle(servers, wanted)
    batches = iter(Reader(small, wanted))
    assert sorted(next(batches).column("partition")[0].as_py() for _ in range(7)) == list(range(7))
    batches.close()


# ---- transactions


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_transactions_read_as_librdkafka_reads_them(
    servers: str, client: Client, small: Client, seed: int
) -> None:
    topic = create(servers, f"random-{seed}", 2)
    chance = random.Random(seed)
    producers = [Transactional(servers, f"random-{seed}-{i}") for i in range(4)]
    for step in range(120):
        one = chance.choice(producers)
        if chance.random() < 0.15:
            produce(servers, topic, values(chance.randint(1, 5), f"plain{step}-", partition=chance.randrange(2)))
        elif one.open and chance.random() < 0.4:
            one.end(commit=chance.random() < 0.5)
        else:
            one.write(topic, values(chance.randint(1, 30), f"{one.id}-{step}-", partition=chance.randrange(2)))
    for one in producers[:-1]:
        if one.open:
            one.end(commit=chance.random() < 0.5)
    if not producers[-1].open:
        producers[-1].write(topic, values(3))
    for committed in (True, False):
        whole = ranges(client, topic, read_committed=committed)
        expected = oracle(servers, whole, read_committed=committed)
        assert collect(client, whole, read_committed=committed) == expected
        assert collect(small, whole, read_committed=committed) == expected
        for _ in range(10):
            some = [
                Range(topic, w.topic_id, w.partition, *sorted(chance.randint(w.start, w.end) for _ in "se"))
                for w in whole
            ]
            part = [row for row in expected if some[row[0]].start <= row[1] < some[row[0]].end]
            assert collect(small, some, read_committed=committed) == part
    producers[-1].end(commit=False)


def test_ranges_that_end_in_markers_or_hold_only_aborted_rows_end(servers: str, client: Client, small: Client) -> None:
    topic = create(servers, "aborted")
    one = Transactional(servers, "aborted")
    for step in range(6):
        one.write(topic, values(40, f"{step}-"))
        one.end(commit=step == 2)
    (whole,) = ranges(client, topic)
    assert whole.end == 6 * 41
    committed = [(0, 2 * 41 + i, None, b"2-%d" % i) for i in range(40)]
    for reader in (client, small):
        assert collect(reader, [whole]) == committed
        assert collect(reader, [Range(topic, whole.topic_id, 0, 0, 82)]) == []
        assert collect(reader, [Range(topic, whole.topic_id, 0, 123, 246)]) == []
        assert collect(reader, [Range(topic, whole.topic_id, 0, 81, 82)]) == []
        assert collect(reader, [Range(topic, whole.topic_id, 0, 100, 123)]) == committed[18:]


def test_an_open_transaction_bounds_the_latest_offset_and_holds_an_end_beyond_it(servers: str, client: Client) -> None:
    topic = create(servers, "open")
    one = Transactional(servers, "open")
    produce(servers, topic, values(5))
    one.write(topic, values(5, "open"))
    (stable,), (all_of_it,) = ranges(client, topic), ranges(client, topic, read_committed=False)
    assert (stable.end, all_of_it.end) == (5, 10)
    with Reader(client, [all_of_it], timeout_ms=4_000) as reader:
        batches = iter(reader)
        assert next(batches).num_rows == 5
        with pytest.raises(
            Retriable,
            match=r"\[SEMEL_OPEN_TRANSACTION\] open-0 could not be read to offset 10 .* last stable offset at 5",
        ):
            next(batches)
        assert reader.positions == {(topic, 0): 5}
    assert len(collect(client, [all_of_it], read_committed=False)) == 10
    with Reader(client, [all_of_it], timeout_ms=60_000) as reader:
        batches = iter(reader)
        assert next(batches).num_rows == 5
        ending = threading.Timer(0.7, one.end, kwargs={"commit": True})
        ending.start()
        assert [row[3] for row in rows(batches)] == [b"open%d" % i for i in range(5)]
        ending.join()


# ---- compaction


def test_a_compacted_topic(servers: str, client: Client, small: Client) -> None:
    """Holes between batches and inside them, markers whose transactions are gone, tombstones removed at the end of what
    can be cleaned.
    """
    clean_often(servers)
    topic = create(
        servers,
        "compacted",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.001",
        segment_bytes=str(1 << 20),
        delete_retention_ms="0",
    )
    one = Transactional(servers, "compacted")
    for step in range(4):
        produce(servers, topic, [{"key": b"k%d" % (i % 7), "value": b"p%d-%d" % (step, i) * 80} for i in range(50)])
        one.write(topic, [{"key": b"t%d" % i, "value": b"t%d-%d" % (step, i) * 80} for i in range(20)])
        one.end(commit=step != 1)
    produce(servers, topic, [{"key": b"k%d" % i, "value": None} for i in range(7)])

    def left() -> list[Any]:
        return oracle(servers, ranges(client, topic))

    # Each large row begins a new segment, so that what is before it can be cleaned: the first time tombstones and
    # markers get a time to live.
    produce(servers, topic, [{"key": b"large", "value": b"-" * 980_000}])
    wait_for(lambda: len(left()) == 20 + 7 + 1, "the first cleaning")
    produce(servers, topic, [{"key": b"large", "value": b"+" * 980_000}])
    wait_for(lambda: len(left()) == 20 + 2, "the second cleaning")
    one.write(topic, values(1, key=b"open"))
    whole = ranges(client, topic)
    end = whole[0].end
    assert whole[0].start == 0
    expected = left()
    for reader in (client, small):
        assert collect(reader, whole) == expected
        for start in range(0, end, 13):
            part = [Range(topic, whole[0].topic_id, 0, start, end)]
            assert collect(reader, part, timeout_ms=20_000) == [row for row in expected if row[1] >= start]
    one.end(commit=True)


def clean_often(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    entry = ConfigEntry("log.cleaner.backoff.ms", "200", incremental_operation=AlterConfigOpType.SET)
    brokers = [
        ConfigResource("broker", str(node), incremental_configs=[entry])
        for node in admin.list_topics(timeout=10).brokers
    ]
    for broker in brokers:  # one to a call
        admin.incremental_alter_configs([broker])[broker].result(30)


# ---- following


def test_following_gives_rows_as_they_come_and_waits_without_an_end(servers: str, client: Client) -> None:
    topic = create(servers, "followed", 2)
    with Reader(client, followed(client, topic), timeout_ms=1_000) as reader:
        batches = iter(reader)
        writing = threading.Timer(2.5, produce, args=(servers, topic, values(3)))
        writing.start()
        assert next(batches).column("value").to_pylist()[0] == b"v0"
        writing.join()
        produce(servers, topic, values(4, "w", partition=1))
        seen: list[bytes] = []
        while b"w3" not in seen:
            seen += next(batches).column("value").to_pylist()
    assert list(batches) == []


def test_readers_side_by_side_in_one_thread_do_not_mix(servers: str, client: Client, small: Client) -> None:
    """Each has a request under way when the other one asks."""
    topic, other = create(servers, "side-a"), create(servers, "side-b")
    produce(servers, topic, values(400, "a"), batch_num_messages=10)
    produce(servers, other, values(400, "b"), batch_num_messages=10)
    for using in (client, small):
        a, b = (iter(Reader(using, ranges(using, name), max_rows=7)) for name in (topic, other))
        seen: tuple[list[bytes], list[bytes]] = [], []
        for turn in zip_longest(a, b):  # how many tables each takes depends on how the producer cut its batches
            for table, found in zip(turn, seen, strict=True):
                found += table.column("value").to_pylist() if table else []
        assert seen == tuple([row["value"] for row in values(400, text)] for text in "ab")
    given_up = iter(Reader(small, [Range(topic, topic_id(small, topic), 0, 0, NO_END)]))
    assert next(given_up).num_rows > 0
    given_up.close()
    assert len(collect(small, ranges(small, other))) == 400


def test_resolved_ends_stay_while_rows_are_added(servers: str, client: Client) -> None:
    topic = create(servers, "adding")
    produce(servers, topic, values(5))
    wanted = ranges(client, topic)
    produce(servers, topic, values(5))
    assert [row[1] for row in collect(client, wanted)] == [0, 1, 2, 3, 4]
    assert resolve(client, [(topic, 0)], AtOffsets({topic: {0: -2}}), read_committed=True) == resolve(
        client, [(topic, 0)], Earliest(), read_committed=True
    )
    assert isinstance(next(iter(Reader(client, wanted))), pa.RecordBatch)


def test_by_a_user_of_plain_python(servers: str) -> None:
    """``Cluster.read``: one topic, from here to there."""
    topic = create(servers, "plain-python", 2)
    before = datetime.now(UTC)
    produce(servers, topic, [{"value": str(i), "partition": i % 2, "headers": [("h", b"x")]} for i in range(6)])
    aborted = Transactional(servers, f"{topic}-aborted")
    aborted.write(topic, [{"value": "aborted"}])
    aborted.end(commit=False)
    properties = {"bootstrap.servers": servers}

    def found(start: Any, end: Any, **more: str) -> list[str]:
        with semel.Cluster(properties | more) as cluster:
            batches = list(cluster.read(topic, start=start, end=end))
        return sorted(value.decode() for batch in batches for value in batch.column("value").to_pylist())

    assert found("earliest", "latest") == list("012345")
    assert found("earliest", "latest", **{"isolation.level": "read_uncommitted"}) == [*"012345", "aborted"]
    assert found({0: 1, 1: 3}, {0: 3, 1: 3}) == ["2", "4"]
    assert found(before, "latest") == list("012345")
    assert found("latest", "latest") == []
    with semel.Cluster(properties) as cluster:
        assert "headers" in next(iter(cluster.read(topic, headers=True))).schema.names
        for start, end, problem in (
            ({0: 0}, "latest", "each partition"),
            ("first", "latest", "'first'"),
            ("earliest", "earliest", "cannot end"),
        ):
            with pytest.raises(semel.ConfigError, match=problem):
                cluster.read(topic, start=start, end=end)  # type: ignore[arg-type]
        with pytest.raises(semel.ConfigError, match="does not exist"):
            cluster.read(f"no-{topic}")
