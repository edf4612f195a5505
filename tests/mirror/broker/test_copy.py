"""``--once``: what a read_committed reader sees of the source is what it sees of the target, record by record."""

from __future__ import annotations

import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from semel import cli
from semel.config import ClientConfig
from semel.mirror import rounds
from semel.mirror.offsets.segment_topic import SEGMENTS
from semel.records.header import BatchHeader, scan
from semel.sandbox import Sandbox
from semel.wire.api.fetch import fetch
from semel.wire.api.fetch_frames import Position
from semel.wire.api.topics import own_config
from semel.wire.client import Client
from tests.mirror.support.harness import (
    CODECS,
    IDENTITY,
    Running,
    alias_of,
    copy_once,
    mm2,
    partitions,
    produce,
    records,
    topics_of,
    transactions,
    unique,
)
from tests.support import topics
from tests.support.waiting import wait_for


def create(sandbox: Sandbox, name: str, partitions: int = 1, **config: Any) -> str:
    return topics.create(sandbox.bootstrap_servers, unique(name), partitions, **config)


def mixed(a: Sandbox, topic: str, partitions: int) -> None:
    """Records of every kind and codec, batches of one and of many, in ``partitions`` partitions.

    Not so old that a broker deletes them.
    """
    since = int(time.time() * 1000) - 100_000
    for number, codec in enumerate(CODECS):
        rows = [
            {
                "key": None if i % 3 == 0 else f"k{i}".encode(),
                "value": None if i % 7 == 0 else f"{codec}-{i}".encode() * (1 + i % 40),
                "headers": [("h", b"1"), ("h", None), ("leer", b"")] if i % 5 == 0 else None,
                "timestamp": since + i * 37 % 1_000,
                "partition": i % partitions,
            }
            for i in range(400)
        ]
        produce(a, topic, rows, **{"compression.type": codec, "batch.num.messages": 1 if number % 2 else 10_000})


@pytest.mark.parametrize("policy", ["default", pytest.param("identity", marks=pytest.mark.exhaustive)])
def test_each_record_as_it_is(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, policy: str) -> None:
    topic = create(a, "mixed", 3)
    mixed(a, topic, 3)
    keys = {"replication__policy__class": IDENTITY} if policy == "identity" else {}
    file = mm2(tmp_path, a, b, topic, **keys)
    copy_once(spark, file)
    target = topic if policy == "identity" else f"{alias_of(file)}.{topic}"
    assert records(b, target) == records(a, topic)
    assert sum(map(len, records(b, target).values())) == 2_000
    copy_once(spark, file)  # nothing is new
    mixed(a, topic, 3)
    copy_once(spark, file)
    assert records(b, target) == records(a, topic)
    assert sum(map(len, records(b, target).values())) == 4_000


def test_what_logs_do_to_batches(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """Gaps and delete horizons of compaction, log-append time, a log that begins in the middle of a batch, batches
    larger than the target takes.
    """
    often: dict[str, Any] = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.0001"}
    gaps, tombs = create(a, "odd-gaps", **often, delete_retention_ms="0"), create(a, "odd-tombs", **often)
    appended = create(a, "odd-appended", message_timestamp_type="LogAppendTime")
    middle, large = create(a, "odd-middle"), create(a, "odd-large")
    file = mm2(tmp_path, a, b, "odd-.*", sync__topic__configs__enabled="false")
    topics.create(b.bootstrap_servers, f"{alias_of(file)}.{large}", max_message_bytes="2000")

    produce(
        a,
        gaps,
        [{"key": f"k{i % 40 if i < 100 else i}", "value": f"{i}" * 5} for i in range(120)],
        **{"compression.type": "gzip"},
    )
    produce(
        a,
        tombs,
        [{"key": f"k{i}", "value": None if i % 5 == 0 else "x"} for i in range(50)],
        **{"compression.type": "lz4"},
    )
    produce(a, appended, [{"key": "k", "value": f"{i}", "timestamp": 5} for i in range(50)])
    produce(a, middle, [{"value": f"{i}", "headers": [("n", b"%d" % i)]} for i in range(100)])
    produce(a, large, [{"key": None, "value": f"{i}" * 50} for i in range(400)])
    admin = AdminClient({"bootstrap.servers": a.bootstrap_servers})
    admin.delete_records([TopicPartition(middle, 0, 33)])[TopicPartition(middle, 0)].result(30)
    last = count()

    def compacted() -> bool:
        for topic in (gaps, tombs):  # a segment that is not active is cleaned
            produce(a, topic, [{"key": f"last-{next(last)}", "value": "x"}])
        return any(h.count <= h.last_offset_delta for h in headers(a, gaps)) and any(
            h.delete_horizon for h in headers(a, tombs)
        )

    wait_for(compacted, "compaction")
    copy_once(spark, file)
    for topic, size in ((appended, 50), (middle, 67), (large, 400), (tombs, 51)):
        found = records(b, f"{alias_of(file)}.{topic}")
        assert found == records(a, topic)
        assert len(found[0]) >= size
    # both sides go on to be compacted: each key's newest value stays
    newest = {key: value for key, value, _, _ in records(b, f"{alias_of(file)}.{gaps}")[0]}
    assert newest == {key: value for key, value, _, _ in records(a, gaps)[0]}
    assert len(newest) > 60


def headers(sandbox: Sandbox, topic: str) -> list[BatchHeader]:
    """Of the batches of a topic's only partition, as they come first."""
    with Client(ClientConfig.parse({"bootstrap.servers": sandbox.bootstrap_servers})) as client:
        known = client.topics({topic})[topic]
        answers = fetch(client, known.partitions[0].leader, {(topic, 0): Position(known.id, 0)}, read_committed=False)
    return scan(answers[topic, 0].records)


def test_committed_aborted_and_open(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    topic = create(a, "open")
    file = mm2(tmp_path, a, b, topic)
    target = f"{alias_of(file)}.{topic}"
    transactions(a, topic, "acaac")
    left = transactions(a, topic, "cao")
    copy_once(spark, file)
    assert [value for _, value, _, _ in records(b, target)[0] if value is not None and not value.endswith(b"c")] == []
    assert len(records(b, target)[0]) == 9
    left.commit_transaction(60)
    transactions(a, topic, "aa")
    copy_once(spark, file)
    copy_once(spark, file)
    assert records(b, target) == records(a, topic)
    assert len(records(b, target)[0]) == 12


def test_aborted_rows_alone_make_few_rounds_and_hold_no_record_up(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an hour in the place of the second that is between such rounds."""
    monkeypatch.setattr(rounds, "_EMPTY_S", 3600)
    topic = create(a, "aborting")
    file = mm2(tmp_path, a, b, topic)
    target = f"{alias_of(file)}.{topic}"

    def copied(count: int) -> bool:
        return bool(partitions(b, target)) and len(records(b, target)[0]) == count

    def empty_rounds() -> int:
        return running.said().count(": 0 records")

    def has_been_empty(count: int) -> bool:
        return empty_rounds() >= count

    with Running(spark, file) as running:
        for number in range(1, 3):
            transactions(a, topic, "a")
            wait_for(partial(has_been_empty, number), running.said)
            for _ in range(3):
                transactions(a, topic, "aa")
            transactions(a, topic, "ac")
            wait_for(partial(copied, 3 * number), running.said)
        assert empty_rounds() == 2, running.said()
        transactions(a, topic, "a")
        wait_for(partial(has_been_empty, 3), running.said)
        transactions(a, topic, "a")
        monkeypatch.setattr(rounds, "_EMPTY_S", 0)
        wait_for(partial(has_been_empty, 4), running.said)
    assert running.failed == []
    assert records(b, target) == records(a, topic)


def test_topics_are_followed_and_own_ones_are_not(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    file = mm2(tmp_path, a, b, "looked-for-.*, semel.*, B\\..*, mm2.*", consumer__auto__offset__reset="latest")
    alias = alias_of(file)
    first = create(a, "looked-for", 2, cleanup_policy="compact", max_message_bytes="123456")
    for name in (
        SEGMENTS,
        f"B.{first}",
        f"mm2-offset-syncs.{alias}.internal",
        f"{first}.replica",
    ):
        if not partitions(a, name):  # a mirror of another test, in the other direction, may have made its own
            topics.create(a.bootstrap_servers, name, 16)
        produce(a, name, [{"key": "k", "value": "never mirrored"}])
    produce(a, first, [{"key": "k", "value": "before the mirror began"}])
    copy_once(spark, file)
    assert {name for name in topics_of(b) if name.startswith(f"{alias}.")} == {f"{alias}.{first}"}
    with Client(ClientConfig.parse({"bootstrap.servers": b.bootstrap_servers})) as client:
        assert own_config(client, f"{alias}.{first}") == {"cleanup.policy": "compact", "max.message.bytes": "123456"}

    admin = AdminClient({"bootstrap.servers": a.bootstrap_servers})
    admin.create_partitions([NewPartitions(first, 4)])[first].result(30)
    wait_for(lambda: len(partitions(a, first)) == 4, "partitions")
    second = create(a, "looked-for", 1)
    produce(a, first, [{"key": f"{i}", "value": "later", "partition": i % 4} for i in range(8)])
    produce(a, second, [{"value": "found later, so from its beginning"}])
    copy_once(spark, file)
    later = {i: [row for row in rows if row[1] == b"later"] for i, rows in records(a, first).items()}
    assert records(b, f"{alias}.{first}") == later
    assert records(b, f"{alias}.{second}") == records(a, second)

    shown = CliRunner().invoke(cli.app, ["progress", "list", "--bootstrap-server", b.bootstrap_servers]).output
    assert f"mirror.{alias}.B mirror" in " ".join(shown.split())
    where = ["--to-offsets", f'{{"{second}": {{"0": 0}}}}', "--yes", "--bootstrap-server", b.bootstrap_servers]
    refused = CliRunner().invoke(cli.app, ["progress", "reset", f"mirror.{alias}.B", *where]).exception
    assert getattr(refused, "tag", None) == "OF_A_MIRROR"


def test_many_batches_of_one_record_and_large_ones(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    topic = create(a, "sizes", 2)
    produce(a, topic, [{"value": bytes(900_000), "partition": 0} for _ in range(5)], **{"message.max.bytes": 1_000_000})
    produce(a, topic, [{"value": f"{i}", "partition": 1} for i in range(2_000)], **{"batch.num.messages": 1})
    file = mm2(tmp_path, a, b, topic)
    copy_once(spark, file)
    assert records(b, f"{alias_of(file)}.{topic}") == records(a, topic)


def test_topics_that_come_to_a_mirror_without_any_miss_nothing(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    """It has begun when there was none: what comes later is its own from the first record, also from the latest on."""
    name = unique("none-yet")
    file = mm2(tmp_path, a, b, f"{name}.*", consumer__auto__offset__reset="latest")
    for _ in range(2):
        copy_once(spark, file)
    topic = topics.create(a.bootstrap_servers, f"{name}-later", 2)
    produce(a, topic, [{"value": f"{i}", "partition": i % 2} for i in range(10)])
    copy_once(spark, file)
    assert records(b, f"{alias_of(file)}.{topic}") == records(a, topic)
    assert sum(map(len, records(a, topic).values())) == 10
