"""Objection 23: a broker that was frozen thaws, and still takes itself for the leader; or a new leader is behind: no
batch is written twice.

Whoever takes over asks the wrong one first: its requests wait in the frozen broker's socket and are what it answers
first of all.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import semel
from semel.config import ClientConfig
from semel.sandbox import Node, Sandbox
from semel.transaction.markers.wait import wait_for_markers
from semel.transaction.progress.settings import PARTITIONS
from semel.transaction.progress.topic import DEFAULT_TOPIC, ProgressTopic
from semel.wire.api.describe_transactions import open_transactions
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from tests.support.broker_faults import finish, leader_of, live, wait_whole
from tests.support.never_heal import Patient
from tests.support.waiting import wait_for
from tests.transaction.support.pipeline import Job, copy_next, position, write_here
from tests.transaction.support.pipeline_checks import assert_whole, new_job


@pytest.fixture(scope="module")
def kafka5() -> Iterator[Sandbox]:
    """Five nodes, so that one may be dead and another frozen while the others still elect leaders."""
    quick = {"broker.heartbeat.interval.ms": "300", "broker.session.timeout.ms": "2000"}
    with Sandbox.start(nodes=5, settings=quick) as sandbox:
        admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})
        replicas = list(itertools.repeat([1, 2, 3], PARTITIONS))
        topic = NewTopic(
            DEFAULT_TOPIC,
            PARTITIONS,
            replica_assignment=replicas,
            config={"cleanup.policy": "compact", "min.insync.replicas": "2"},
        )
        admin.create_topics([topic])[DEFAULT_TOPIC].result(60)
        wait_whole(sandbox)
        yield sandbox


def of(nodes: list[Node]) -> str:
    return ",".join(f"127.0.0.1:{node.port}" for node in nodes)


def progress_of(job: Job) -> tuple[str, int]:
    with Client(ClientConfig.parse(job.properties())) as client:
        return ProgressTopic(client, job.prefix, "producer").partition


def in_background(work: Callable[[], int]) -> tuple[threading.Thread, list[int | BaseException]]:
    found: list[int | BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_a_deposed_leader_of_the_progress_partition(kafka5: Sandbox) -> None:
    job = new_job(kafka5, "deposed", chunks=8)
    live(job)
    topic, index = progress_of(job)
    deposed = leader_of(kafka5, topic, index)
    assert deposed is not None
    others = [node for node in kafka5.nodes if node is not deposed]
    beside = replace(job, servers=of(others), request_timeout_ms=2_000, delivery_timeout_ms=60_000)

    def take_over() -> int:
        alone = replace(
            beside, servers=of([deposed]), request_timeout_ms=20_000
        )  # its first word is to the deposed one
        with semel.Cluster(alone.properties()) as late, late.producer(job.prefix) as owner:
            return position(owner.take_over([job.target], job.group), job)

    deposed.freeze()
    try:
        wait_for(lambda: leader_of(kafka5, topic, index, of(others)) not in (None, deposed), "another leader")
        with semel.Cluster(beside.properties()) as cluster, cluster.producer(job.prefix) as producer:
            producer.take_over([job.target], job.group)
            reached = copy_next(producer, job, write_here(cluster, job))
            producer.wait_visible()
        successor, found = in_background(take_over)
    finally:
        deposed.thaw()
    successor.join(100)
    assert found == [reached], "it would write that batch again"
    wait_whole(kafka5)
    finish(job)
    assert_whole(job)


@pytest.mark.exhaustive  # its sample is the deposed leader
def test_a_leader_of_the_progress_partition_that_is_behind(kafka5: Sandbox) -> None:
    """The leader dies right behind a commit and a follower freezes: the new leader knows what was committed, and not
    yet that it was.
    """
    job = new_job(kafka5, "behind", chunks=8)
    live(job)
    topic, index = progress_of(job)
    dies = leader_of(kafka5, topic, index)
    assert dies is not None
    freezes = next(node for node in kafka5.nodes if node.id in (1, 2, 3) and node is not dies)
    beside = replace(
        job, servers=of([node for node in kafka5.nodes if node not in (dies, freezes)]), request_timeout_ms=2_000
    )
    beside = replace(beside, delivery_timeout_ms=100_000)
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
        reached = copy_next(producer, job, write_here(cluster, job))
        producer.wait_visible()
        freezes.freeze()
        dies.kill()

    def take_over() -> int:
        with semel.Cluster(beside.properties()) as late, late.producer(job.prefix) as owner:
            return position(owner.take_over([job.target], job.group), job)

    successor, found = in_background(take_over)
    try:
        wait_for(
            lambda: leader_of(kafka5, topic, index, beside.servers) not in (None, dies, freezes),
            "a leader that is behind",
        )
        assert found == [], "it has read what one replica alone can tell"
    finally:
        freezes.thaw()
        dies.start()
        dies.wait_ready(120, nodes=5)
    successor.join(100)
    assert found == [reached], "it would write that batch again"
    wait_whole(kafka5)
    finish(job)
    assert_whole(job)


def test_a_deposed_leader_of_an_output_partition(kafka5: Sandbox) -> None:
    """It says that nothing is open, while its successor has open rows: the markers are waited for until that one has
    them.
    """
    servers = kafka5.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("seen", 1, replica_assignment=[[1, 2, 3]])])["seen"].result(60)
    wait_whole(kafka5)
    deposed = leader_of(kafka5, "seen")
    assert deposed is not None
    others = of([node for node in kafka5.nodes if node is not deposed])
    deposed.freeze()
    try:
        wait_for(lambda: leader_of(kafka5, "seen", 0, others) not in (None, deposed), "another leader")
        ours = semel.Cluster({"bootstrap.servers": others, "request.timeout.ms": 2_000})
        producer = ours.producer("seen")
        txn = producer.transaction()
        txn.send("seen", pa.table({"value": ["open"]}))
        with Client(ClientConfig.parse({"bootstrap.servers": others})) as client:
            (opened,) = open_transactions(client, [("seen", 0)])["seen", 0]

        def watch() -> int:
            with Client(ClientConfig.parse({"bootstrap.servers": of([deposed]), "request.timeout.ms": 20_000})) as asks:
                successor = Identity("seen", opened.producer_id, opened.epoch + 1)
                wait_for_markers(
                    asks, [("seen", 0)], successor, (), last_offsets={}, deadline=Deadline(100_000), heal=Patient()
                )
            return 1

        watching, seen = in_background(watch)
    finally:
        deposed.thaw()
    wait_for(lambda: leader_of(kafka5, "seen", 0, of([deposed])) not in (None, deposed), "the deposed one to know it")
    wait_whole(kafka5)
    assert seen == [], "the deposed leader was believed"
    txn.commit()
    producer.close()
    watching.join(100)
    assert seen == [1]
    ours.close()
