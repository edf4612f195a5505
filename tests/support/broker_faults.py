"""Faults of the brokers of a cluster of three while an owner passes a step, and the repair of the cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import kafka
import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

import semel
from semel.config import ClientConfig
from semel.errors import AbortAndRetry, Retriable
from semel.sandbox import Node, Sandbox
from semel.steps import OwnerStep, Step
from semel.transaction.producer import Producer
from semel.wire.client import Client
from semel.wire.target import Target
from tests.support.kafka_version import NOT_PASSED
from tests.support.waiting import wait_for
from tests.transaction.support.pipeline import Job, copy_next, position, write_here

#: Every step that an owner passes where no marker is lost.
STEPS = [step for step in OwnerStep if step not in NOT_PASSED]


def node_of(kafka3: Sandbox, target: Target) -> Node:
    """Return the node that coordinates it now.

    A frozen one takes connections, and says nothing: it is not waited for as long as owners do.
    """
    impatient = {"request.timeout.ms": 1_000, "socket.connection.setup.timeout.ms": 1_000}
    with Client(ClientConfig.parse({"bootstrap.servers": kafka3.bootstrap_servers, **impatient})) as client:
        address = client.connect(target).address
    return next(node for node in kafka3.nodes if address.endswith(f":{node.port}"))


def leader_of(kafka3: Sandbox, topic: str, index: int = 0, asked: str = "") -> Node | None:
    """Return the node that leads it, by the word of the brokers that are ``asked``, or else of all."""
    known = AdminClient({"bootstrap.servers": asked or kafka3.bootstrap_servers}).list_topics(topic, timeout=10)
    leader = known.topics[topic].partitions[index].leader
    return next(
        (node for node in kafka3.nodes if leader in known.brokers and known.brokers[leader].port == node.port), None
    )


def wait_whole(kafka3: Sandbox) -> None:
    """Return when each partition has all its replicas in sync, by the word of each broker."""
    for node in kafka3.nodes:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port}"})
        wait_for(partial(_whole, admin), f"node {node.id} to see all replicas in sync")


def _whole(admin: AdminClient) -> bool:
    topics = admin.list_topics(timeout=10).topics.values()
    return all(
        len(one.isrs) == len(one.replicas) and one.leader >= 0 for topic in topics for one in topic.partitions.values()
    )


def elect_preferred(kafka3: Sandbox) -> None:
    """Every leader back to where the cluster wants it: leaders move, and no broker is down."""
    admin = AdminClient({"bootstrap.servers": kafka3.bootstrap_servers})
    every = [
        TopicPartition(topic, index)
        for topic, known in admin.list_topics(timeout=10).topics.items()
        for index in known.partitions
    ]
    admin.elect_leaders(ElectionType.PREFERRED, every).result(30)


def move_leader(kafka3: Sandbox, topic: str, index: int, replicas: list[int]) -> None:
    """Have the first of these replicas lead it. Return when brokers say so."""
    mover = KafkaAdminClient(bootstrap_servers=kafka3.bootstrap_servers)
    try:
        answers = mover.alter_partition_reassignments({kafka.TopicPartition(topic, index): replicas})
        assert set(answers.values()) == {None}
    finally:
        mover.close()
    elect_preferred(kafka3)
    first = next(node for node in kafka3.nodes if node.id == replicas[0])
    wait_for(lambda: leader_of(kafka3, topic, index) is first, f"node {first.id} to lead {topic}-{index}")


@contextmanager
def observing(observe: Callable[[Step], None]) -> Iterator[None]:
    """Have ``observe`` told each step that this process passes, in the thread that passes it; who is told already is
    told still.
    """
    patch, told = pytest.MonkeyPatch(), semel.steps._observer

    def tell(step: Step, detail: str) -> None:
        observe(step)
        if told is not None:
            told(step, detail)

    patch.setattr(semel.steps, "_observer", tell)
    try:
        yield
    finally:
        patch.undo()


@contextmanager
def striking(step: Step, strike: Callable[[], object]) -> Iterator[threading.Event]:
    """Strike when the step is passed for the first time; the event says that it was."""
    struck = threading.Event()

    def observe(passed: Step) -> None:
        if passed is step and not struck.is_set():
            struck.set()
            strike()

    with observing(observe):
        yield struck


def live(job: Job, *, chunks: int = 1) -> None:
    """Take over, abort once, and copy some chunks, whatever happens. Start again if the outcome is unknown."""
    through = replace(job, request_timeout_ms=2_000, delivery_timeout_ms=60_000)
    done = None
    while done is None or done > 0:
        with semel.Cluster(through.properties()) as cluster, cluster.producer(job.prefix) as producer:
            try:
                producer.take_over([job.target], job.group)
                done = chunks if done is None else done
                done -= copy_chunks(producer, cluster, job, done)
                producer.wait_visible()
            except Retriable as error:
                if error.tag not in ("OUTCOME_UNKNOWN", "COMMITTED"):
                    raise


def copy_chunks(producer: Producer, cluster: semel.Cluster, job: Job, chunks: int) -> int:
    """Abort once, then copy so many; what was aborted by others is done again. Returns how many."""
    wanted = position(producer.progress, job) + chunks * job.chunk
    assert wanted <= job.total, "there is nothing left to copy"
    abort = True
    while position(producer.progress, job) < wanted:
        try:
            copy_next(producer, job, write_here(cluster, job), abort=abort)
        except AbortAndRetry:
            continue
        abort = False
    return chunks


def finish(job: Job) -> None:
    """Copy what is left."""
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
        while position(producer.progress, job) < job.total:
            copy_next(producer, job, write_here(cluster, job))
