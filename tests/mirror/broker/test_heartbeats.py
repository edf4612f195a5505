"""Heartbeats: MirrorMaker 2's own client finds the clusters upstream by them, and nothing of them holds up the copy."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from semel.mirror.background.heartbeats import emitting
from semel.mirror.config.properties import read_properties
from semel.sandbox import Sandbox
from tests.mirror.support.harness import IDENTITY, Running, alias_of, mm2, produce, records, unique
from tests.mirror.support.mirror_maker import java
from tests.support import topics
from tests.support.waiting import wait_for

#: A flow that has looked for topics before the first heartbeat looks again soon.
ON = {
    "emit.heartbeats.enabled": "true",
    "heartbeats.replication.enabled": "true",
    "refresh.topics.interval.seconds": "1",
}


def arrived(b: Sandbox, topic: str) -> bool:
    return any(records(b, topic).values())


def test_kafkas_own_client_finds_the_clusters_upstream(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    """With both policies. ``topics`` names no heartbeats, and each pair writes into its target: the one that has no
    flow writes what the flow copies.
    """
    topic = topics.create(a.bootstrap_servers, unique("beating"), 1)
    files = [
        mm2(tmp_path, a, b, topic, **ON, replication__factor="-1"),
        mm2(tmp_path, a, b, topic, **ON, replication__policy__class=IDENTITY),
    ]
    names = [f"{alias_of(file)}.heartbeats" for file in files]
    pairs = [pair for file in files for pair in read_properties(file).heartbeats]
    assert sorted(pair.title for pair in pairs) == sorted(
        title for file in files for title in (f"{alias_of(file)}->B", f"B->{alias_of(file)}")
    )
    with emitting(pairs), Running(spark, files[0]) as first, Running(spark, files[1]) as second:
        for name in names:
            wait_for(partial(arrived, b, name), lambda: first.said() + second.said())
    assert (first.failed, second.failed) == ([], [])
    with java() as jvm:
        clients = jvm.org.apache.kafka.connect.mirror.RemoteClusterUtils
        found = set(clients.upstreamClusters({"bootstrap.servers": b.bootstrap_servers}))
        hops = [clients.replicationHops({"bootstrap.servers": b.bootstrap_servers}, alias_of(file)) for file in files]
    assert {alias_of(file) for file in files} <= found
    assert hops == [1, 1]


def test_heartbeats_that_cannot_be_written_hold_nothing_up(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create(a.bootstrap_servers, unique("mute"), 1)
    produce(a, topic, [{"value": "arrives all the same"}])
    # no cluster answers there, and a client that writes nothing but heartbeats does not look at its settings before
    keys = {"clusters": "A, B, C", "C.bootstrap.servers": "127.0.0.1:1", "C.producer.acks": "1"}
    file = mm2(tmp_path, a, b, topic, alias="A", **ON, **keys)
    pairs = [pair for pair in read_properties(file).heartbeats if pair.target == "C"]
    assert [pair.title for pair in pairs] == ["A->C", "B->C"]
    with Running(spark, file) as running, emitting(pairs):
        wait_for(partial(arrived, b, f"A.{topic}"), running.said)
        wait_for(lambda: running.said().count("heartbeats are not written") == len(pairs), running.said)
    assert running.failed == []
