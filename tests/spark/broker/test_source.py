"""``format("semel")`` on Spark: found without being registered, read in tasks, restarted from checkpoints, stopped, and
wrong in every usual way.

What the readers themselves do is tested without Spark, in tests/read/broker (``test_stream_reader``). Here Spark calls
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from semel.spark.jvm import versions
from semel.spark.source_offset import parse
from semel.wire.client import Client
from tests.spark.support.source_queries import Batches, Start, add, batch, finish, numbers, stream, texts, wait_until
from tests.spark.support.topics_and_drivers import values as values_of
from tests.support.other_client import Transactional, oracle, produce, ranges, values
from tests.support.topics import create
from tests.support.waiting import wait_for


@pytest.fixture
def servers(kafka: Sandbox) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def topic() -> str:
    return f"spark-source-{next(numbers)}"


@pytest.fixture
def client(servers: str) -> Iterator[Client]:
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as opened:
        yield opened


def wait_for_rows(query: StreamingQuery, batches: Batches, rows: int, checkpoint: Path) -> None:
    """Until so many rows came and Spark has logged their last batch: one that is stopped before that comes again, as it
    should.
    """
    wait_until(query, lambda: len(batches.all) >= rows and (checkpoint / "commits" / str(max(batches.seen))).exists())


# ---- found, and read


def test_it_is_found_beside_others(spark: SparkSession, servers: str, topic: str) -> None:
    create(servers, topic)
    assert batch(spark, servers, subscribe=topic).schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    assert [row.word for row in spark.read.format("other").load().collect()] == ["here"]


def test_a_batch_query_reads_what_librdkafka_reads(
    spark: SparkSession, servers: str, client: Client, topic: str
) -> None:
    create(servers, topic, 3)
    add(servers, topic, 0, 2_000, partitions=3)
    writer = Transactional(servers, topic)
    for commit in (True, False):
        writer.write(topic, values(50, "t", partition=1))
        writer.end(commit=commit)
    df = batch(spark, servers, subscribe=topic, minRecordsPerPartition=1)
    assert df.rdd.getNumPartitions() == 3
    found = sorted((row["partition"], row["offset"], bytes(row["value"])) for row in df.collect())
    assert found == [(p, o, v) for p, o, _, v in sorted(oracle(servers, ranges(client, topic)))]
    assert len(df.limit(7).collect()) == 7, "a task that is not read to its end"
    assert df.where("partition = 1").count() == len([row for row in found if row[0] == 1])


def test_headers_and_times(spark: SparkSession, servers: str, topic: str) -> None:
    create(servers, topic)
    produce(
        servers,
        topic,
        [{"value": None, "key": b"k", "timestamp": 1_234_567, "headers": [("h", b"1"), ("h", None)]}, {"value": b"x"}],
    )
    first, second = batch(spark, servers, subscribe=topic, includeHeaders=True).orderBy("offset").collect()
    assert (bytes(first["key"]), first["value"], first["timestamp"].timestamp(), first["timestampType"]) == (
        b"k",
        None,
        1234.567,
        0,
    )
    assert [(h["key"], h["value"] and bytes(h["value"])) for h in first["headers"]] == [("h", b"1"), ("h", None)]
    assert (second["key"], second["headers"]) == (None, None)


def test_nothing_to_read(spark: SparkSession, servers: str, topic: str) -> None:
    create(servers, topic)
    assert batch(spark, servers, subscribe=topic).collect() == []


# ---- streaming


def test_a_query_goes_on_where_it_was(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, start: Start
) -> None:
    create(servers, topic, 2)
    add(servers, topic, 0, 100, partitions=2)
    seen: list[bytes] = []
    df = stream(spark, servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    batches = Batches()
    query = start(df, batches, tmp_path)
    wait_for_rows(query, batches, 100, tmp_path)
    query.stop()
    assert query.exception() is None
    seen += batches.all
    assert max(len(values) for values in batches.seen.values()) <= 30
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    add(servers, topic, 100, 200, partitions=3)
    batches = Batches()
    query = start(df, batches, tmp_path)
    wait_for_rows(query, batches, 100, tmp_path)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    wait_for(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 4, "the fourth partition")
    add(servers, topic, 200, 300, partitions=4)
    wait_for_rows(query, batches, 200, tmp_path)
    query.stop()
    assert sorted(seen + batches.all) == texts(0, 300)


@pytest.mark.parametrize("option", ["latest", "earliest"])
def test_a_crash_in_batch_0(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, start: Start, option: str
) -> None:
    """Rows arrive between the failed run and the next, which asks for the initial offset again and gets another
    answer.
    """
    create(servers, topic)
    add(servers, topic, 0, 10)
    df = stream(spark, servers, subscribe=topic, startingOffsets=option)
    failing = Batches(fail_at=0)
    query = start(df, failing, tmp_path)
    with pytest.raises(StreamingQueryException, match="as told"):
        query.awaitTermination(120)
    assert (tmp_path / "offsets" / "0").exists()
    assert not (tmp_path / "commits" / "0").exists()
    add(servers, topic, 10, 20)
    batches = Batches()
    query = start(df, batches, tmp_path, ends=True)
    finish(query)
    assert batches.seen[0] == failing.seen[0], "a replay of batch 0 reads the same"
    assert batches.all == texts(10 if option == "latest" else 0, 20)


def test_a_crash_before_batch_0_is_logged(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, start: Start
) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    df = stream(spark, servers, subscribe=topic, startingOffsets="earliest")
    finish(start(df, Batches(), tmp_path, ends=True))
    for log in ("offsets", "commits"):
        for name in ("0", ".0.crc"):
            (tmp_path / log / name).unlink(missing_ok=True)
    batches = Batches()
    finish(start(df, batches, tmp_path, ends=True))
    assert batches.all == texts(0, 10)


@pytest.mark.spark_4_2  # before, Spark makes one batch of it
def test_available_now_while_rows_arrive(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, start: Start
) -> None:
    create(servers, topic)
    add(servers, topic, 0, 40)

    class Adding(Batches):
        def __call__(self, df: DataFrame, batch_id: int) -> None:
            super().__call__(df, batch_id)
            add(servers, topic, 1_000 + batch_id, 1_001 + batch_id)

    df = stream(spark, servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    batches = Adding()
    finish(start(df, batches, tmp_path, ends=True))
    assert batches.all == texts(0, 40)
    assert len(batches.seen) == 4
    rest = Batches()
    finish(start(df, rest, tmp_path, ends=True))
    assert rest.all == texts(1_000, 1_004)


def test_only_committed_rows_and_the_lag_in_the_progress(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, start: Start
) -> None:
    create(servers, topic)
    one, two = Transactional(servers, f"{topic}-1"), Transactional(servers, f"{topic}-2")
    one.write(topic, values(3, "v"))
    two.write(topic, values(5, "aborted"))
    one.end(commit=True)
    batches = Batches()
    query = start(
        stream(spark, servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2), batches, tmp_path
    )
    wait_until(query, lambda: len(batches.all) == 3)
    two.end(commit=False)
    add(servers, topic, 3, 10)
    wait_until(query, lambda: len(batches.all) == 10)
    assert batches.all == texts(0, 10)
    first = query.recentProgress[0].sources[0]
    if versions.current().reports_latest:
        assert first.latestOffset is not None
        assert parse(first.latestOffset).topics[topic].end == {0: 3}
        assert parse(first.endOffset).topics[topic].end == {0: 2}


def test_several_sources_and_one_source_twice(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, start: Start
) -> None:
    other = f"{topic}-other"
    for name, first in ((topic, 0), (other, 100)):
        create(servers, name)
        add(servers, name, first, first + 10)
    one = stream(spark, servers, subscribe=topic, startingOffsets="earliest")
    two = stream(spark, servers, subscribe=other, startingOffsets="earliest")
    batches = Batches()
    finish(start(one.union(two).union(one), batches, tmp_path, ends=True))
    assert batches.all == sorted(texts(0, 10) * 2 + texts(100, 110))


def test_a_pattern_finds_a_topic_that_is_created_later(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, start: Start
) -> None:
    create(servers, f"{topic}-a")
    batches = Batches()
    query = start(stream(spark, servers, subscribePattern=f"{topic}-.*"), batches, tmp_path)
    wait_until(query, lambda: 0 in batches.seen)
    create(servers, f"{topic}-b")
    add(servers, f"{topic}-b", 0, 10)
    wait_until(query, lambda: len(batches.all) == 10)
    assert batches.all == texts(0, 10)


def test_queries_that_feed_each_other_rest(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, start: Start
) -> None:
    """The recipe for dead letters with its way back: without bad rows neither query makes a batch of the other's
    markers.
    """
    dead = f"{topic}-dead"
    for name in (topic, dead, f"{topic}-ok"):
        create(servers, name, 2)
    add(servers, topic, 0, 2, partitions=2)
    kafka = {"kafka.bootstrap.servers": servers}
    bad = f.expr("cast(value as string) = 'bad'")
    sorted_out = f.when(bad, f.lit(dead)).otherwise(f.lit(f"{topic}-ok"))
    first = stream(spark, servers, subscribe=topic, startingOffsets="earliest")
    back = stream(spark, servers, subscribe=dead, startingOffsets="earliest")
    there = KafkaSink(topics=f"{topic}-ok,{dead}", transactionalIdPrefix=f"{topic}-1", **kafka)
    again = KafkaSink(topic=topic, transactionalIdPrefix=f"{topic}-2", **kafka)
    queries = [
        start(first.select(sorted_out.alias("topic"), "value"), there, tmp_path / "1"),
        start(back.select("value"), again, tmp_path / "2"),
    ]
    for _ in range(4):  # each of them would give the other something to read
        for query in queries:
            query.processAllAvailable()
    assert [query.lastProgress["batchId"] if query.lastProgress else None for query in queries] == [0, 0]
    assert sorted(values_of(servers, f"{topic}-ok")) == ["v0", "v1"]


def test_the_log_is_canonical(spark: SparkSession, servers: str, topic: str, tmp_path: Path, start: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 3)
    finish(start(stream(spark, servers, subscribe=topic, startingOffsets="earliest"), Batches(), tmp_path, ends=True))
    text = (tmp_path / "offsets" / "0").read_text().splitlines()[-1]
    logged = json.loads(text)
    assert list(logged) == ["cluster", "topics", "v"], "no mark of the initial offset in the log"
    assert logged["topics"][topic] | {"id": ""} == {"began": {"0": 0}, "end": {"0": 3}, "epochs": {"0": 0}, "id": ""}
