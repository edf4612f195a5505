"""``semel doctor`` on a real Kafka: what is fine is called so, what would be refused is named, and looking writes
nothing.

What it says of rights is in tests/objections/test_missing_rights_of_the_operator.py, where there are some.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

import semel
from semel import cli
from semel.admin.progress_rename import rename
from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.sandbox.jars import chosen_version
from semel.transaction.producer import Producer
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from semel.wire.api.cluster_clock import controller_clock
from semel.wire.client import Client
from tests.spark.support.topics_and_drivers import everything
from tests.support import topics
from tests.support.other_client import delete, delete_records, produce, topic_id
from tests.support.waiting import wait_for

_numbers = count(1)


class Doctor:
    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.name = f"doctor-{next(_numbers)}"

    def run(self, *arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli.app, ["doctor", "--bootstrap-server", self.servers, *arguments])
        return done.exit_code, done.stdout

    def found(self, *arguments: str) -> dict[str, dict[str, str]]:
        """The findings by what was looked at. The status goes with them."""
        status, text = self.run("--json", *arguments)
        told: dict[str, Any] = json.loads(text)
        assert status == (2 if not told["cluster_answered"] else int(told["refused"]))
        assert told["refused"] == any(one["verdict"] == "refused" for one in told["findings"])
        return {one["subject"]: one for one in told["findings"]}


@pytest.fixture
def doctor(servers: str) -> Doctor:
    return Doctor(servers)


def test_a_cluster_that_is_fine(doctor: Doctor) -> None:
    out, source = (topics.create(doctor.servers, f"{doctor.name}-{end}", 2) for end in ("out", "in"))
    with semel.Cluster({"bootstrap.servers": doctor.servers}) as cluster, cluster.producer(doctor.name) as producer:
        producer.take_over()
    arguments = ["--topic", out, "--source", source, "--prefix", doctor.name]
    status, text = doctor.run(*arguments)
    assert status == 0
    assert "Nothing would be refused" in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert f"ok           source {source}: 2 partitions, and this login may read it" in lines, (
        "what is fine is one line"
    )
    assert lines[lines.index("not checked  checkpoint") + 1] == "             it is not looked at", "the rest in full"
    found = doctor.found(*arguments)
    (broker,) = [one for subject, one in found.items() if subject.startswith("broker")]
    release = chosen_version().rpartition(".")[0]
    metadata = {"4.2": 29, "4.3": 30, "4.4": 33}[release]
    assert (
        broker["found"]
        == f"Kafka {release} (metadata.version up to {metadata}), transaction.version=2, WriteTxnMarkers 2"
    )
    for subject in (
        f"output {out}",
        f"source {source}",
        "progress topic semel-progress",
        "transaction.timeout.ms",
        "clock",
        "Java",
        "pyspark",
    ):
        assert found[subject]["verdict"] == "ok", subject
    assert ("not known whether" in found["KAFKA-20734"]["found"]) if release != "4.2" else "KAFKA-20734" not in found
    assert found[f"prefix {doctor.name}"]["verdict"] == "ok"
    assert found[f"Write on prefix {doctor.name}"]["verdict"] == "not_checked"


def test_what_is_not_there(doctor: Doctor) -> None:
    found = doctor.found(
        "--topic", f"{doctor.name}-out", "--progress-topic", f"{doctor.name}-progress", "--group", doctor.name
    )
    assert found[f"output {doctor.name}-out"]["verdict"] == "refused"
    assert found[f"progress topic {doctor.name}-progress"]["found"] == "is not there, and this login may create it"
    assert found[f"group {doctor.name}"]["verdict"] == "not_checked"
    admin = AdminClient({"bootstrap.servers": doctor.servers})
    assert not {name for name in admin.list_topics(timeout=10).topics if name.startswith(doctor.name)}
    assert f"1 would be refused: output {doctor.name}-out" in doctor.run("--topic", f"{doctor.name}-out")[1]


@pytest.mark.parametrize(
    ("partitions", "settings", "told"),
    [
        (16, {"cleanup_policy": "delete"}, "has cleanup.policy=delete"),
        (16, {"cleanup_policy": "compact,delete"}, "has cleanup.policy=compact,delete"),
        (16, {"cleanup_policy": "compact", "unclean_leader_election_enable": "true"}, "allows unclean leader election"),
        (3, {"cleanup_policy": "compact"}, "has 3 partitions"),
    ],
)
def test_a_progress_topic_that_could_lose_progress(
    doctor: Doctor, partitions: int, settings: dict[str, Any], told: str
) -> None:
    progress = topics.create(doctor.servers, f"{doctor.name}-progress", partitions, **settings)
    found = doctor.found("--progress-topic", progress)[f"progress topic {progress}"]
    assert found["verdict"] == "refused"
    assert told in found["found"]


def test_a_group_with_a_live_member(doctor: Doctor) -> None:
    topic = topics.create(doctor.servers, doctor.name)
    member = Consumer({"bootstrap.servers": doctor.servers, "group.id": doctor.name, "client.id": "the-member"})
    member.subscribe([topic])
    wait_for(lambda: member.poll(0.1) is None and member.assignment(), "the member")
    found = doctor.found("--group", doctor.name)[f"group {doctor.name}"]
    assert found["verdict"] == "refused"
    assert "the-member" in found["found"]
    member.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    member.close()
    assert doctor.found("--group", doctor.name)[f"group {doctor.name}"]["verdict"] == "ok"


def test_timeouts_that_contradict_each_other(doctor: Doctor, tmp_path: Path) -> None:
    too_long, too_short = tmp_path / "long", tmp_path / "short"
    too_long.write_text("transaction.timeout.ms=9000000\n")
    too_short.write_text("transaction.timeout.ms=60000\n")
    found = doctor.found("--command-config", str(too_long))["transaction.timeout.ms"]
    assert (found["verdict"], found["found"]) == ("refused", "9000000 ms, as given; the brokers allow 900000 ms")
    found = doctor.found("--command-config", str(too_short))["delivery.timeout.ms"]
    assert (found["verdict"], found["found"]) == ("warning", "120000 ms")


def test_a_prefix_that_cannot_be_one_and_one_that_is_at_work(doctor: Doctor) -> None:
    assert doctor.found("--prefix", " blank ")["prefix  blank "]["verdict"] == "refused"
    topic = topics.create(doctor.servers, doctor.name)
    with (
        semel.Cluster({"bootstrap.servers": doctor.servers}) as cluster,
        cluster.producer(doctor.name) as producer,
        producer.transaction() as txn,
    ):
        txn.tickets([[(topic, 0)]])
        found = doctor.found("--prefix", doctor.name)[f"prefix {doctor.name}"]
        assert (found["verdict"], found["found"]) == ("warning", "a transaction is open, in state Ongoing")
        txn.abort()


def test_the_clock_is_the_brokers_own(doctor: Doctor, kafka: Sandbox) -> None:
    """On this machine both are one."""
    with Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as client:
        clock = controller_clock(client)
    assert abs(clock.ahead_ms) <= clock.doubt_ms + 5
    assert clock.node == 1


def test_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    quick = tmp_path / "quick"
    quick.write_text("default.api.timeout.ms=200\nrequest.timeout.ms=100\n")
    done = CliRunner().invoke(cli.app, ["doctor", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(quick)])
    assert done.exit_code == 2
    assert "127.0.0.1:1" in done.stderr
    assert "pyspark" in done.stdout


class Gone:
    """A query's prefix that has read a topic of two partitions, with ten rows each, up to their fifth."""

    def __init__(self, doctor: Doctor) -> None:
        self.servers, self.prefix, self.topic = (
            doctor.servers,
            doctor.name,
            topics.create(doctor.servers, f"{doctor.name}-in", 2),
        )
        self.kept = f"{doctor.name}-progress"
        produce(self.servers, self.topic, [{"value": b"row", "partition": number % 2} for number in range(20)])
        with Client(ClientConfig.parse({"bootstrap.servers": doctor.servers})) as client:
            read = KafkaSource(client.cluster, {self.topic: TopicEnd(topic_id(client, self.topic), {0: 5, 1: 5})})
            with (
                Producer(client, self.prefix, scope="query", progress_topic=self.kept) as owner,
                owner.transaction() as txn,
            ):
                txn.commit(Progress(query="the-query", batch=7, sources=(read,)))

    def found(self, doctor: Doctor) -> dict[str, str]:
        told = doctor.found("--prefix", self.prefix, "--progress-topic", self.kept)
        assert told["checkpoint"]["verdict"] == "not_checked"
        return told[f"progress of {self.prefix}"]


def test_what_a_query_has_to_read_next_is_there_or_gone(doctor: Doctor) -> None:
    """As its start would find it, and without a record of it."""
    gone = Gone(doctor)
    assert gone.found(doctor)["found"] == "batch 7; what is to be read next is there"
    before = everything(doctor.servers, gone.kept)
    delete_records(doctor.servers, gone.topic, 1, 5)
    assert gone.found(doctor)["verdict"] == "ok", "what was read already may go"
    delete_records(doctor.servers, gone.topic, 1, 8)
    told = gone.found(doctor)
    assert (told["verdict"], f"{gone.topic}-1 [5, 8): the log starts at 8" in told["found"]) == ("refused", True)
    assert everything(doctor.servers, gone.kept) == before


def test_what_a_query_has_read_was_created_again(doctor: Doctor) -> None:
    gone = Gone(doctor)
    delete(doctor.servers, gone.topic)
    topics.create(doctor.servers, gone.topic, 2)
    told = gone.found(doctor)
    assert (told["verdict"], "was deleted and created again" in told["found"]) == ("refused", True)


def test_progress_that_is_lost_and_a_prefix_that_has_none(doctor: Doctor) -> None:
    gone = Gone(doctor)
    delete(doctor.servers, gone.kept)
    told = gone.found(doctor)
    assert (told["verdict"], "PROGRESS_LOST" in told["found"]) == ("refused", True)
    assert gone.found(doctor) == told, "looking leaves no trace"
    new = doctor.found("--prefix", f"{gone.prefix}-new")[f"progress of {gone.prefix}-new"]
    assert (new["verdict"], new["found"]) == ("ok", "there is none: a query begins by its startingOffsets")


def test_a_prefix_that_was_moved(doctor: Doctor) -> None:
    gone = Gone(doctor)
    with semel.Cluster({"bootstrap.servers": doctor.servers}) as cluster:
        rename(cluster._client, gone.prefix, f"{gone.prefix}-next", scope="query", progress_topic=gone.kept)
    told = doctor.found("--prefix", gone.prefix, "--progress-topic", gone.kept)[f"prefix {gone.prefix}"]
    assert (told["verdict"], f"was renamed to '{gone.prefix}-next'" in told["found"]) == ("refused", True)
