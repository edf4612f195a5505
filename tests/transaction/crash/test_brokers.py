"""Brokers that fail while an owner is at each of its steps, on three of them: nothing is lost, doubled, reordered or
torn (DESIGN section 5).

The coordinator is frozen and deposed, and back again; its place is moved while all run; brokers are restarted one after
the other under load; too few replicas are in sync in the middle of a batch. That any broker is killed is objection 18,
in ``tests/objections``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import semel
from semel.config import ClientConfig
from semel.records.encode import Batch, encode
from semel.sandbox import Sandbox
from semel.testing.records import read
from semel.transaction.progress.reader import committed_progress
from semel.wire.api import transactions
from semel.wire.api.produce import Appender
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition
from semel.wire.target import TransactionCoordinator
from tests.support.broker_faults import (
    STEPS,
    elect_preferred,
    finish,
    live,
    move_leader,
    node_of,
    striking,
    wait_whole,
)
from tests.support.waiting import wait_for
from tests.transaction.support.pipeline import copy_next, write_here
from tests.transaction.support.pipeline_checks import assert_whole, new_job


@pytest.fixture(scope="module")
def kafka3() -> Iterator[Sandbox]:
    """As the shared one, with brokers that are missed after 2 s: here they are frozen all the time."""
    settings = {
        "broker.heartbeat.interval.ms": "300",
        "broker.session.timeout.ms": "2000",
        "replica.lag.time.max.ms": "3000",
    }
    with Sandbox.start(nodes=3, settings=settings) as sandbox:
        yield sandbox


@pytest.mark.exhaustive
def test_the_coordinator_is_frozen_and_moved_at_every_step(kafka3: Sandbox) -> None:
    job = new_job(kafka3, "coordinated", chunks=2 * len(STEPS) + 3)
    live(job)
    for step in STEPS:
        frozen = node_of(kafka3, TransactionCoordinator(job.prefix))
        with striking(step, frozen.freeze) as struck:
            try:
                live(job)
                assert struck.wait(10), step
                assert node_of(kafka3, TransactionCoordinator(job.prefix)) is not frozen, (
                    "the owner went on by another coordinator"
                )
            finally:
                frozen.thaw()
        wait_whole(kafka3)
        with striking(step, lambda: elect_preferred(kafka3)) as struck:
            live(job)
            assert struck.wait(10), step
    finish(job)
    assert_whole(job)


@pytest.mark.exhaustive  # its sample is objection 18: a broker of three is killed
def test_every_broker_is_restarted_under_load(kafka3: Sandbox) -> None:
    """An orderly restart of one after the other, as for an upgrade: the owner never stops, and no batch is seen to
    fail.
    """
    job = new_job(kafka3, "rolling", chunks=2_000, chunk=30)
    stop, restarted = threading.Event(), 0
    failures: list[BaseException] = []

    def load() -> None:
        try:
            with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
                producer.take_over([job.target], job.group)
                while not stop.is_set():
                    copy_next(producer, job, write_here(cluster, job))
        except BaseException as error:
            failures.append(error)

    loading = threading.Thread(target=load)
    loading.start()
    try:
        wait_for(lambda: newest(kafka3, job.prefix) >= 0 or failures, "the first batch")
        for node in kafka3.nodes:
            before = newest(kafka3, job.prefix)
            node.stop()
            wait_for(partial(further, kafka3, job.prefix, before, failures), "batches while a broker is down")
            node.start()
            node.wait_ready(120, nodes=3)
            wait_whole(kafka3)
            restarted += 1
    finally:
        stop.set()
        loading.join(120)
    assert failures == []
    assert restarted == 3
    copied = job.rows(0, (newest(kafka3, job.prefix) + 1) * job.chunk).column("value").to_pylist()
    seen = read(kafka3.bootstrap_servers, [job.target], {"value": "value"}).column("value").to_pylist()
    assert sorted(seen) == sorted(copied)


def further(kafka3: Sandbox, prefix: str, before: int, failures: list[BaseException]) -> bool:
    """Whether it has gone on since, or will not."""
    return bool(failures) or newest(kafka3, prefix) > before


def newest(kafka3: Sandbox, prefix: str) -> int:
    """The newest batch whose progress is committed; -1 before the first."""
    with Client(ClientConfig.parse({"bootstrap.servers": kafka3.bootstrap_servers})) as client:
        progress = committed_progress(client, prefix, scope="producer")
    return -1 if progress is None or progress.batch is None else progress.batch


@pytest.mark.parametrize("transactional", [True, False])
def test_a_partition_moves_to_the_broker_of_another_one_while_batches_are_sent(
    kafka3: Sandbox, transactional: bool
) -> None:
    """What was packed for the former leader, and not sent yet, must not be overtaken on the way to the next one."""
    servers, topic = kafka3.bootstrap_servers, f"moved-{transactional}"
    one, other, third = (node.id for node in kafka3.nodes)
    placed = NewTopic(topic, 2, replica_assignment=[[one, other, third], [other, one, third]])
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([placed])[topic].result(30)
    wait_whole(kafka3)
    count, moved = 14, []

    def encoded(identity: Identity | None, number: int) -> list[Batch]:
        rows = pa.table({"value": pa.array([f"{number:02}".encode()])})
        if identity is None:
            return encode(rows)
        return encode(
            rows,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=number,
            transactional=True,
        )

    def batches(identity: Identity | None) -> Iterator[tuple[TopicPartition, Batch]]:
        for number in range(count):
            if number == count // 2:
                move_leader(kafka3, topic, 0, [other, one, third])
                moved.append(number)
            for index in (0, 1):
                yield from (((topic, index), batch) for batch in encoded(identity, number))

    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        ids, deadline = {topic: client.topics({topic})[topic].id}, client.deadline()
        identity = transactions.init_producer_id(client, topic, 60_000, deadline) if transactional else None
        if identity is not None:
            assert transactions.add_partitions(client, identity, [(topic, 0), (topic, 1)], deadline) == 0
        appender = Appender(client, ids, topic if transactional else None)
        appender.submit(batches(identity))
        appender.flush()
        if identity is not None:
            assert transactions.end(client, identity, commit=True, deadline=deadline).code == 0
    assert moved == [count // 2]
    seen = read(servers, [topic], {"value": "value"})
    for index in (0, 1):
        values = seen.filter(pc.equal(seen["partition"], index)).column("value").to_pylist()
        assert values == [f"{number:02}" for number in range(count)]


def test_too_few_replicas_are_in_sync_in_the_middle_of_a_batch(kafka3: Sandbox) -> None:
    """Writes are refused until the second replica is back: the batch waits for it, and where that takes too long
    nothing of it is visible.
    """
    servers = kafka3.bootstrap_servers
    leader, follower, _ = kafka3.nodes
    topic = NewTopic("in-sync", 1, replica_assignment=[[leader.id, follower.id]], config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": servers})  # one that nobody holds ends before it has its answers
    admin.create_topics([topic])["in-sync"].result(30)
    wait_whole(kafka3)
    properties = {
        "bootstrap.servers": servers,
        "request.timeout.ms": 2_000,
        "socket.connection.setup.timeout.ms": 1_000,
    }
    for patience_ms, comes_back in ((60_000, True), (6_000, False)):
        with (
            semel.Cluster({**properties, "delivery.timeout.ms": patience_ms}) as cluster,
            cluster.producer("in-sync") as producer,
        ):
            with producer.transaction() as txn:
                txn.send("in-sync", pa.table({"value": [f"first, {comes_back}"]}))
            producer.wait_visible()
            txn = producer.transaction()
            txn.send("in-sync", pa.table({"value": [f"half, {comes_back}"]}))
            follower.freeze()
            try:
                wait_for(lambda: in_sync(servers, "in-sync") == 1, "the follower to be out of sync")
                back = threading.Timer(1, follower.thaw) if comes_back else threading.Timer(60, lambda: None)
                back.start()
                if comes_back:
                    txn.send("in-sync", pa.table({"value": [f"other half, {comes_back}"]}))
                    txn.commit()
                else:
                    with pytest.raises(semel.Retriable, match=r"within (6000 ms|delivery.timeout.ms=6000)"):
                        txn.send("in-sync", pa.table({"value": [f"other half, {comes_back}"]}))
                back.cancel()
            finally:
                follower.thaw()
            wait_whole(kafka3)
            if not comes_back:
                txn.abort()
                with producer.transaction() as txn:
                    txn.send("in-sync", pa.table({"value": ["run again"]}))
    seen = read(servers, ["in-sync"], {"value": "value"}).column("value").to_pylist()
    assert seen == ["first, True", "half, True", "other half, True", "first, False", "run again"]


def in_sync(servers: str, topic: str) -> int:
    return len(
        AdminClient({"bootstrap.servers": servers}).list_topics(topic, timeout=10).topics[topic].partitions[0].isrs
    )
