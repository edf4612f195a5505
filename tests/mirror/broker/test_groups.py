"""Offsets of groups on the other cluster: a group that moves and comes back reads each record once; MirrorMaker 2's
checkpoints; groups that follow.
"""

from __future__ import annotations

import re
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from semel import cli
from semel.config import ClientConfig
from semel.errors import ConfigError, DataLoss
from semel.mirror import group_view
from semel.mirror.config.properties import read_properties
from semel.mirror.meter import FlowMeter
from semel.mirror.offsets import segment_topic
from semel.mirror.offsets.groups import GroupFollower
from semel.mirror.offsets.segment_topic import SegmentTopic
from semel.mirror.offsets.translation import segments_end
from semel.mirror.positions import SCOPE, Positions
from semel.sandbox import Sandbox
from semel.transaction.progress.reader import committed_progress
from semel.wire.client import Client
from tests.mirror.support.groups import commit, consume, offsets, translate
from tests.mirror.support.harness import (
    Running,
    alias_of,
    copy_once,
    mm2,
    partitions,
    produce,
    records,
    transactions,
    unique,
)
from tests.mirror.support.losses import delete
from tests.mirror.support.mirror_maker import java
from tests.support import topics
from tests.support.waiting import wait_for


def test_a_group_moves_and_comes_back(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    topic, group = topics.create(a.bootstrap_servers, unique("moves"), 1), unique("group")
    file = mm2(tmp_path, a, b, topic)
    alias = alias_of(file)
    target = f"{alias}.{topic}"
    transactions(a, topic, "cacca")
    produce(a, topic, [{"value": f"{i}"} for i in range(20)], **{"batch.num.messages": 3})
    copy_once(spark, file)
    transactions(a, topic, "acc")
    copy_once(spark, file)
    all_of_it = [value for _, value, _, _ in records(a, topic)[0]]
    assert len(all_of_it) == 35

    read = consume(a, group, topic, 8)
    (at,) = offsets(a, group).values()
    commit(a, group, TopicPartition(topic, 0, at, metadata="mine"))
    (told,) = translate(file, alias, "B", "--group", group, "--apply", "--json")
    assert told == {"topic": target, "partition": 0, "offset": offsets(b, group)[target, 0]}
    assert texts(b, group) == {"mine"}
    read += consume(b, group, target, 20)
    assert "committed on " in translate(file, "B", alias, "--group", group, "--apply")
    read += consume(a, group, topic, 7)
    assert read == all_of_it
    with pytest.raises(Exception, match=r"BACKWARDS.*it would go back"):
        translate(file, "B", alias, "--group", group, "--apply")
    (end,) = translate(file, alias, "B", "--topic", topic, "--offset", "100000", "--json")
    assert end["note"].startswith("ahead of the mirror")
    assert "not mirrored" in translate(file, alias, "B", "--topic", "other")


def test_each_offset_is_exact(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """Both ways, against what readers see at each offset."""
    topic = topics.create(a.bootstrap_servers, unique("exact"), 1)
    file = mm2(tmp_path, a, b, topic)
    for outcomes in ("cac", "aacc", "ca"):
        transactions(a, topic, outcomes)
        produce(a, topic, [{"value": unique("plain")} for _ in range(4)])
        copy_once(spark, file)
    target = f"{alias_of(file)}.{topic}"
    source_at, target_at = positions(a, topic), positions(b, target)
    assert [value for value, _ in source_at] == [value for value, _ in target_at]

    def next_record(rows: list[tuple[bytes, int]], offset: int) -> bytes | None:
        return next((value for value, at in rows if at >= offset), None)

    from_alias = (file, alias_of(file), "B")
    back = (file, "B", alias_of(file))
    for offset in range(source_at[-1][1] + 2):
        (told,) = translate(*from_alias, "--topic", topic, "--offset", str(offset), "--json")
        assert next_record(target_at, told["offset"]) == next_record(source_at, offset), offset
    for offset in range(target_at[-1][1] + 2):
        (told,) = translate(*back, "--topic", target, "--offset", str(offset), "--json")
        assert next_record(source_at, told["offset"]) == next_record(target_at, offset), offset


def positions(sandbox: Sandbox, topic: str) -> list[tuple[bytes, int]]:
    """Each record of the only partition, and its offset."""
    settings = {"isolation.level": "read_committed", "enable.partition.eof": True, "group.id": "none"}
    consumer = Consumer({"bootstrap.servers": sandbox.bootstrap_servers, **settings})
    found = []
    consumer.assign([TopicPartition(topic, 0, 0)])
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append((message.value() or b"", message.offset() or 0))
    consumer.close()
    return found


def test_checkpoints_and_groups_that_follow(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    topic = topics.create(a.bootstrap_servers, unique("grouped"), 1)
    group, live, excluded = unique("group"), unique("live"), unique("console-consumer")
    keys = {"sync__group__offsets__enabled": "true", "checkpoints__topic__replication__factor": "1"}
    file = mm2(tmp_path, a, b, topic, groups="group.*, live.*, console.*", **keys)
    alias = alias_of(file)
    target = f"{alias}.{topic}"
    transactions(a, topic, "acac")
    for one in (group, live, excluded):
        consume(a, one, topic, 2)
    copy_once(spark, file)
    at = offsets(a, group)[topic, 0]
    follows = offsets(b, group)
    assert consume(b, unique("new"), target, 3)[2:] == consume(b, group, target, 1)
    seen = checkpoints(b, f"{alias}.checkpoints.internal")
    assert seen == {(name, target, 0): (at, follows[target, 0], "") for name in (group, live)}
    assert offsets(b, excluded) == {}
    with java() as jvm:  # Kafka's own reader of checkpoints
        found = jvm.org.apache.kafka.connect.mirror.RemoteClusterUtils.translateOffsets(
            {"bootstrap.servers": b.bootstrap_servers}, alias, group, jvm.java.time.Duration.ofSeconds(60)
        )
        told = {(one.topic(), one.partition()): found[one].offset() for one in found}
    assert told == follows
    # KIP-656's group, and the one that lag tools read
    assert offsets(b, f"mirror.{alias}.B")[target, 0] == offsets(a, f"mirror.{alias}.B")[topic, 0]

    # the group goes on, on both sides: on the source it is behind, and does not pull the target back
    consume(b, group, target, 2)
    ahead = offsets(b, group)
    consume(a, group, topic, 1)
    copy_once(spark, file)
    assert offsets(b, group) == ahead
    assert checkpoints(b, f"{alias}.checkpoints.internal")[group, target, 0][0] == offsets(a, group)[topic, 0]


def test_which_groups_follow(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """One that stands before an empty partition, at 0; none that has read another topic alone; none with members on the
    target. One that goes back goes back in its checkpoint, and stays on the target.
    """
    topic, other = (topics.create(a.bootstrap_servers, unique(name), 2) for name in ("followed", "unmirrored"))
    empty, elsewhere, member = unique("empty"), unique("elsewhere"), unique("member")
    keys = {"sync__group__offsets__enabled": "true", "checkpoints__topic__replication__factor": "1"}
    file = mm2(tmp_path, a, b, topic, groups=f"{empty}, {elsewhere}, {member}", **keys)
    target = f"{alias_of(file)}.{topic}"
    produce(a, topic, [{"value": f"{i}", "partition": 0} for i in range(10)])
    commit(a, empty, TopicPartition(topic, 1, 0))
    commit(a, elsewhere, TopicPartition(other, 0, 0))
    commit(a, member, TopicPartition(topic, 0, 8))
    copy_once(spark, file)
    assert offsets(b, empty) == {(target, 1): 0}
    assert offsets(b, elsewhere) == {}
    assert offsets(b, member) == {(target, 0): 8}

    commit(b, member, TopicPartition(target, 0, 3))
    consumer = Consumer({"bootstrap.servers": b.bootstrap_servers, "group.id": member, "enable.auto.commit": False})
    joined = threading.Event()
    consumer.subscribe([target], on_assign=lambda *_: joined.set())
    try:
        wait_for(lambda: consumer.poll(0.1) is None and joined.is_set(), "the member")
        copy_once(spark, file)
        assert offsets(b, member) == {(target, 0): 3}
    finally:
        consumer.close()
    commit(a, member, TopicPartition(topic, 0, 5))
    copy_once(spark, file)
    assert offsets(b, member) == {(target, 0): 5}
    commit(a, member, TopicPartition(topic, 0, 2))
    copy_once(spark, file)
    assert offsets(b, member) == {(target, 0): 5}
    seen = checkpoints(b, f"{alias_of(file)}.checkpoints.internal")
    assert seen == {(empty, target, 1): (0, 0, ""), (member, target, 0): (2, 2, "")}


def test_a_group_that_cannot_follow_is_named(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """One whose name a share group has on the target, one that has read a topic whose target topic is gone. The ones
    after them in the alphabet follow, with what their members have committed beside their offsets.
    """
    prefix = unique("named")
    topic, gone, left = (topics.create(a.bootstrap_servers, f"{prefix}-{name}", 1) for name in ("t", "gone", "left"))
    shared, half, good = (f"{prefix}-{name}" for name in ("1-shared", "2-half", "3-good"))
    keys = {"sync__group__offsets__enabled": "true", "checkpoints__topic__replication__factor": "1"}
    file = mm2(tmp_path, a, b, f"{prefix}-.*", groups=f"{prefix}.*", **keys)
    alias = alias_of(file)
    for each in (topic, gone, left):
        produce(a, each, [{"value": f"{i}"} for i in range(10)])
    copy_once(spark, file)
    for each in (gone, left):
        delete(b, f"{alias}.{each}")
    file.write_text(f"{file.read_text()}topics.exclude = {left}\n")
    for group in (shared, half, good):
        commit(a, group, TopicPartition(topic, 0, 4, metadata="since noon"))
    for each in (gone, left):
        commit(a, half, TopicPartition(each, 0, 5))
    commit(a, good, TopicPartition(left, 0, 5))
    with java() as jvm:
        settings = {"bootstrap.servers": b.bootstrap_servers, "group.id": shared}
        strings = jvm.org.apache.kafka.common.serialization.StringDeserializer
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaShareConsumer(settings, strings(), strings())
        consumer.subscribe([f"{alias}.{topic}"])
        consumer.poll(jvm.java.time.Duration.ofSeconds(5))
        for _ in range(2):
            with pytest.raises(DataLoss, match="TARGET_GONE"):
                copy_once(spark, file)
            shown = CliRunner().invoke(cli.app, ["mirror", "status", str(file)])
            assert shown.exit_code == 1
            assert re.findall(r"^group (\S+) does not follow", shown.output, re.M) == [shared, half]
            assert f"the target topic of {gone} is gone" in shown.output
        consumer.close()
    for group in (half, good):
        assert offsets(b, group) == {(f"{alias}.{topic}", 0): 4}
        assert texts(b, group) == {"since noon"}
    upstream, offset, text = checkpoints(b, f"{alias}.checkpoints.internal")[good, f"{alias}.{topic}", 0]
    assert (upstream, offset, text.rstrip("\0")) == (4, 4, "since noon")  # librdkafka adds a zero to what it commits
    assert "not mirrored" in translate(file, alias, "B", "--group", good)


def test_the_replication_of_checkpoints(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """On one broker: the default fits it, -1 too, and what the file asks for is refused before anything is written."""
    topic, group = topics.create(a.bootstrap_servers, unique("factor"), 1), unique("group")
    produce(a, topic, [{"value": "one"}])
    commit(a, group, TopicPartition(topic, 0, 1))
    factor = {"checkpoints__topic__replication__factor": "2"}
    refused = mm2(tmp_path, a, b, topic, **factor)
    with pytest.raises(ConfigError, match=r"checkpoints.topic.replication.factor=2, and B has 1 brokers"):
        copy_once(spark, refused)
    assert partitions(b, f"{alias_of(refused)}.{topic}") == []
    for keys in ({}, {"replication__factor": "-1", "checkpoints__topic__replication__factor": "-1"}):
        file = mm2(tmp_path, a, b, topic, groups=group, **keys)
        copy_once(spark, file)
        target = f"{alias_of(file)}.{topic}"
        assert checkpoints(b, f"{alias_of(file)}.checkpoints.internal") == {(group, target, 0): (1, 1, "")}
        # it is there already, so that the number does not matter any more
        copy_once(spark, mm2(tmp_path, a, b, topic, alias=alias_of(file), groups=group, **factor))


def texts(sandbox: Sandbox, group: str) -> set[str]:
    """What is committed beside the offsets of a group."""
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(asked)[group].result(30).topic_partitions
    return {one.metadata or "" for one in found}


def test_two_threads_that_follow_groups_at_once(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """At the end of a copy both do. A run that is taken in twice makes offsets wrong."""
    topic, group = topics.create(a.bootstrap_servers, unique("at-once"), 1), unique("group")
    file = mm2(tmp_path, a, b, topic, groups=group, checkpoints__topic__replication__factor="1")
    (flow,), id = read_properties(file).flows, f"mirror.{alias_of(file)}.B"
    follower = GroupFollower(flow, id, FlowMeter(flow))
    with Client(ClientConfig.parse({"bootstrap.servers": b.bootstrap_servers})) as client:

        def rounds(count: int) -> None:
            for _ in range(count):
                transactions(a, topic, "cac")
                copy_once(spark, file)
            progress = committed_progress(client, id, scope=SCOPE)
            assert progress is not None
            follower.tell(Positions.of(progress, id), segments_end(progress, SegmentTopic(client, id)))

        try:
            rounds(1)
            follower.follow(checkpoints=True, sync=False, own=False)
            rounds(2)
            with ThreadPoolExecutor(8) as pool:
                for _ in range(8):
                    pool.submit(follower.follow, checkpoints=True, sync=False, own=False)
            assert follower._translator is not None
            runs = follower._translator._segments.of((topic, 0)).source.tolist()
            assert len(runs) >= 6
            assert runs == sorted(set(runs))
        finally:
            follower.close()


def test_runs_that_retention_has_deleted_leave_the_memory(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create(a.bootstrap_servers, unique("evicted"), 1)
    file, at = mm2(tmp_path, a, b, topic), (topic, 0)
    id = f"mirror.{alias_of(file)}.B"
    with Client(ClientConfig.parse({"bootstrap.servers": b.bootstrap_servers})) as client:
        segments = SegmentTopic(client, id)

        def runs() -> list[int]:
            progress = committed_progress(client, id, scope=SCOPE)
            assert progress is not None
            found = segments.read(Positions.of(progress, id), segments_end(progress, segments)).of(at)
            return [int(offset) for offset in found.source]

        for _ in range(2):
            transactions(a, topic, "c")
            copy_once(spark, file)
        assert len(runs()) == 2
        monkeypatch.setattr(segment_topic, "_AGAIN_S", -1)
        assert len(runs()) == 2  # from the beginning, and none is there twice
        transactions(a, topic, "c")
        copy_once(spark, file)
        progress = committed_progress(client, id, scope=SCOPE)
        assert progress is not None
        admin = AdminClient({"bootstrap.servers": b.bootstrap_servers})
        before = TopicPartition(*segments.partition, segments_end(progress, segments) - 1)
        admin.delete_records([before])[before].result(30)
        assert len(runs()) == 1


def test_a_view_of_a_flow_at_rest_is_renewed(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers forget a group's offsets after 7 days without a commit."""
    topic = topics.create(a.bootstrap_servers, unique("at-rest"), 1)
    file = mm2(tmp_path, a, b, topic)
    group, target = f"mirror.{alias_of(file)}.B", f"{alias_of(file)}.{topic}"
    produce(a, topic, [{"value": "one"}] * 7)
    with Running(spark, file) as running:
        # librdkafka crashes if it asks while the coordinator of the first group loads
        wait_for(lambda: ": 7 records" in running.said(), running.said)
        wait_for(lambda: offsets(b, group) == {(target, 0): 7}, "a round")
        admin = AdminClient({"bootstrap.servers": b.bootstrap_servers})
        admin.delete_consumer_groups([group])[group].result(30)
        assert offsets(b, group) == {}
        monkeypatch.setattr(group_view, "_ALL_S", 1)
        wait_for(lambda: offsets(b, group) == {(target, 0): 7}, "the group")
        produce(a, topic, [{"value": "two"}])
        wait_for(lambda: offsets(b, group) == {(target, 0): 8}, "another round")
    assert running.failed == []


def checkpoints(sandbox: Sandbox, topic: str) -> dict[tuple[str, str, int], tuple[int, int, str]]:
    """The newest of each key, read as MirrorMaker 2 writes them."""
    found = {}
    for key, value, _, _ in records(sandbox, topic)[0]:
        assert key is not None
        assert value is not None
        group, rest = text(key)
        name, rest = text(rest)
        (partition,) = struct.unpack(">i", rest)
        version, upstream, offset = struct.unpack(">hqq", value[:18])
        metadata, rest = text(value[18:])
        assert (version, rest) == (0, b"")
        found[group, name, partition] = (upstream, offset, metadata)
    return found


def text(data: bytes) -> tuple[str, bytes]:
    (size,) = struct.unpack(">h", data[:2])
    return data[2 : 2 + size].decode(), data[2 + size :]
