"""Scenarios of Kafka's own tests of transactions, groups and streams, by their numbers in docs/streams.md."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import semel
from semel.config import ClientConfig
from semel.errors import SemelError
from semel.sandbox import Sandbox, chosen_version, find_java, jars
from semel.streams import App
from semel.streams.worker.worker import Worker
from semel.testing.records import arrived, read
from semel.wire.api.describe_transactions import describe
from semel.wire.client import Client
from tests.support.topics import create
from tests.support.waiting import wait_for

_names = count(1)


@pytest.fixture
def name() -> str:
    return f"scenario-{next(_names)}"


def values(servers: str, topic: str, level: str = "read_committed") -> list[str]:
    """All values, by librdkafka."""
    settings = {"bootstrap.servers": servers, "group.id": "look", "isolation.level": level}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(10)) is not None and not message.error():
        found.append(message.value().decode())
    consumer.close()
    return sorted(found)


def stands(servers: str, group: str, topic: str, partitions: int = 1) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    found = consumer.committed([TopicPartition(topic, index) for index in range(partitions)], timeout=30)
    consumer.close()
    return sum(max(one.offset, 0) for one in found)


def rows(*given: str) -> pa.Table:
    return pa.table({"value": list(given)})


def test_t1_two_topics_committed_and_aborted(servers: str, name: str) -> None:
    one, two = create(servers, f"{name}-one"), create(servers, f"{name}-two")
    with semel.Cluster({"bootstrap.servers": servers}) as cluster, cluster.producer(name) as producer:
        for value in ("committed", "aborted", "again"):
            with producer.transaction() as txn:
                txn.send(one, rows(value))
                txn.send(two, rows(value))
                if value == "aborted":
                    txn.abort()
        producer.wait_visible()
    for topic in (one, two):
        assert values(servers, topic) == ["again", "committed"]
        assert values(servers, topic, "read_uncommitted") == ["aborted", "again", "committed"]


def test_t18_t20_offsets_of_several_groups_and_of_several_producers(servers: str, name: str) -> None:
    """A transaction commits the offsets of all its groups, and another one's abort takes only its own."""
    source = create(servers, f"{name}-in", 2)
    with semel.Cluster({"bootstrap.servers": servers}) as cluster:
        one, other = cluster.producer(f"{name}-one"), cluster.producer(f"{name}-other")
        with one.transaction() as first, other.transaction() as second:
            first.send_offsets({(source, 0): 3}, group=f"{name}-a")
            first.send_offsets({(source, 0): 4}, group=f"{name}-b")
            second.send_offsets({(source, 1): 50}, group=f"{name}-a")
            assert stands(servers, f"{name}-a", source, 2) == 0
            second.abort()
        one.wait_visible()
        other.wait_visible()
        one.close()
        other.close()
    assert [stands(servers, f"{name}-{group}", source, 2) for group in "ab"] == [3, 4]


def test_s2_input_that_ends_in_markers_has_no_lag(servers: str, name: str, tmp_path: Path) -> None:
    source, target = create(servers, f"{name}-in"), create(servers, f"{name}-out")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions()
    for number in range(20):
        producer.begin_transaction()
        producer.produce(source, str(number))
        producer.flush()
        if number % 4:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    app = App(name, **{"bootstrap.servers": servers, "state.dir": str(tmp_path), "commit.interval.ms": 20})
    app.stream(source).to(target)
    with Worker(app) as worker:

        def read_all() -> bool:
            worker.step()
            return stands(servers, name, source) == 40  # a row and a marker each

        wait_for(read_all, "the end of the topic")
    assert sorted(map(int, values(servers, target))) == [0, 4, 8, 12, 16]


@pytest.mark.exhaustive
def test_t8_every_broker_is_down_and_nothing_hangs(name: str) -> None:
    limits = {"request.timeout.ms": 1_000, "delivery.timeout.ms": 4_000, "default.api.timeout.ms": 4_000}
    with Sandbox.start() as broker, semel.Cluster({"bootstrap.servers": broker.bootstrap_servers, **limits}) as cluster:
        topic = create(broker.bootstrap_servers, name)
        producer = cluster.producer(name)
        with producer.transaction() as txn:
            txn.send(topic, rows("before"))
        txn = producer.transaction().__enter__()
        txn.send(topic, rows("lost"))
        broker.nodes[0].kill()
        asked: list[Callable[[], object]] = [txn.commit, txn.abort, cluster.producer("other").take_over]
        for what in asked:
            began = time.monotonic()
            with pytest.raises(SemelError):
                what()
            assert time.monotonic() - began < 30


@pytest.mark.exhaustive
def test_t15_a_quiet_worker_outlives_the_expiry_of_its_id(name: str, tmp_path: Path) -> None:
    settings = {
        "transactional.id.expiration.ms": "1500",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
        "producer.id.expiration.ms": "1500",
    }
    with Sandbox.start(settings=settings) as broker:
        servers = broker.bootstrap_servers
        source, target = create(servers, f"{name}-in"), create(servers, f"{name}-out")
        conf = {"bootstrap.servers": servers, "state.dir": str(tmp_path), "group.instance.id": "one"}
        app = App(name, **conf)
        app.stream(source, value="string").group_by("value").count("counts").to_stream().to(target)
        with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client, Worker(app) as worker:
            for number in range(2):
                _produce(servers, source, ["word"])

                def counted(number: int = number) -> bool:
                    worker.step()
                    return arrived(servers, target) == number + 1

                wait_for(counted, "the count")
                wait_for(lambda: describe(client, f"{name}-one") is None, "the expiry of the id")
        assert read(servers, [target], {"value": "value"})["value"].to_pylist() == ["1", "2"]
        _offsets_alone(servers, f"{name}-session", source)


def _offsets_alone(servers: str, name: str, source: str) -> None:
    """A session that writes nothing."""
    with (
        Client(ClientConfig.parse({"bootstrap.servers": servers})) as client,
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.session(name, group=name, topics=[source], group_instance_id="one") as session,
    ):
        for more in ([], ["word"]):
            _produce(servers, source, more)
            batch = session.poll(30)
            assert batch is not None
            assert session.commit()
            wait_for(lambda: describe(client, f"{name}-one") is None, "the expiry of the id")
    assert stands(servers, name, source) == 3


def _produce(servers: str, topic: str, given: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number, value in enumerate(given):
        producer.produce(topic, value, partition=number % 4 if len(given) > 1 else 0)
    assert producer.flush(30) == 0


@pytest.mark.exhaustive
def test_javas_console_consumer_is_the_other_member_of_the_group(servers: str, name: str, tmp_path: Path) -> None:
    """Each reads its share. When Java's leaves, the session goes on for both, from what Java has committed."""
    source, target = create(servers, f"{name}-in", 4), create(servers, f"{name}-out")
    log = tmp_path / "java.log"
    with (
        semel.Cluster({"bootstrap.servers": servers, "fetch.max.wait.ms": 50}) as cluster,
        cluster.session(name, group=name, topics=[source]) as session,
    ):

        def copying_until(condition: Callable[[], bool], what: Callable[[], str]) -> None:
            def copied() -> bool:
                if (batch := session.poll(0.1)) is not None:
                    session.send(target, batch.select(["value"]))
                    session.commit()
                return condition()

            wait_for(copied, what, 90)

        with _console_consumer(servers, name, source, log):
            copying_until(lambda: len(session.assignment) == 2, log.read_text)
            _produce(servers, source, [str(number) for number in range(400)])
            copying_until(lambda: arrived(servers, target) + len(_numbers(log)) >= 400, log.read_text)
        copying_until(lambda: len(session.assignment) == 4, lambda: "its partitions")
        _produce(servers, source, [str(number) for number in range(400, 500)])
        copying_until(lambda: stands(servers, name, source, 4) == 500, lambda: "the rest")
    ours = [int(value) for value in read(servers, [target], {"value": "value"})["value"].to_pylist()]
    assert len(_numbers(log)) == 200
    assert sorted(ours + _numbers(log)) == list(range(500))


def _numbers(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().splitlines() if line.isdecimal()]


@contextmanager
def _console_consumer(servers: str, group: str, topic: str, log: Path) -> Iterator[None]:
    argv = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", jars.classpath(chosen_version())]
    argv += ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", servers]
    argv += ["--topic", topic, "--group", group, "--isolation-level", "read_committed"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=dict(os.environ)
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)
