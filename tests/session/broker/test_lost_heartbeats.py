"""Members whose heartbeats ended and which come back into their generation, and one that was removed as it commits."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import semel
from semel.config import ClientConfig
from semel.steps import SessionStep, Step
from semel.testing.history import assert_exactly_once
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.transaction.session import Session
from semel.wire.api import membership
from semel.wire.client import Client
from tests.support.topics import create
from tests.support.waiting import wait_for

PARTITIONS = 2


def fill(servers: str, topic: str, numbers: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, value=f'{{"id": {number}}}', partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def send(session: Session, batch: pa.RecordBatch, target: str) -> None:
    session.send(target, batch.select(["value", "partition"]))


@contextmanager
def copying(session: Session, target: str) -> Iterator[None]:
    """Copy in a thread."""
    stop = threading.Event()

    def copy() -> None:
        while not stop.is_set():
            batch = session.poll(0.1)
            if batch is not None:
                send(session, batch, target)
                session.commit()

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_what_a_follower_had_sent_before_it_joined_again_comes_again(servers: str) -> None:
    """Nothing differs between its two generations: the group returns a follower into the one that it was in."""
    source, target = create(servers, "beats-in", PARTITIONS), create(servers, "beats-out", PARTITIONS)
    with (
        FaultProxy(servers) as proxy,
        semel.Cluster({"bootstrap.servers": servers}) as direct,
        semel.Cluster({"bootstrap.servers": proxy.bootstrap_servers, "request.timeout.ms": 1_000}) as cluster,
        direct.session("leader", group="beats", topics=[source]) as leader,
        cluster.session("follower", group="beats", topics=[source], session_timeout_ms=6_000) as follower,
    ):
        wait_for(lambda: leader.poll(0.1) is None and len(leader.assignment) == PARTITIONS, "the first generation")
        with copying(leader, target):
            wait_for(lambda: follower.poll(0.1) is None and len(follower.assignment) == 1, "its share", 60)
            fill(servers, source, range(100))
            send(follower, next(iter(follower)), target)
            before, answer = follower._member.current(), threading.Event()
            assert before is not None
            for number in range(1, 31):
                proxy.delay_reply("Heartbeat", number, until=answer)
            wait_for(lambda: follower._member.current() is None, "that it takes itself for lost", 60)
            answer.set()
            fill(servers, source, range(100, 200))
            while (batch := follower.poll(2)) is not None:
                send(follower, batch, target)
                assert follower.commit()
            now = follower._member.current()
            assert now is not None
            assert (now.number, now.member, now.assignment) == (before.number, before.member, before.assignment)
        assert_exactly_once(servers, target, source=source, id="json:$.id", timeout=60)


def test_what_a_static_follower_had_sent_before_it_polled_too_late_comes_again(servers: str) -> None:
    """A static member does not leave: until its session times out, it comes back into its generation."""
    source, target = create(servers, "late-static-in", PARTITIONS), create(servers, "late-static-out", PARTITIONS)
    with (
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.session("statics", group="statics", topics=[source], group_instance_id="leader") as leader,
        cluster.session(
            "statics",
            group="statics",
            topics=[source],
            group_instance_id="follower",
            max_poll_interval_ms=6_000,
        ) as follower,
    ):
        wait_for(lambda: leader.poll(0.1) is None and len(leader.assignment) == PARTITIONS, "the first generation")
        with copying(leader, target):
            wait_for(lambda: follower.poll(0.1) is None and len(follower.assignment) == 1, "its share", 60)
            fill(servers, source, range(100))
            send(follower, next(iter(follower)), target)
            before = follower._member.current()
            assert before is not None
            wait_for(lambda: follower._member.current() is None, "that it polls too late")
            fill(servers, source, range(100, 200))
            while (batch := follower.poll(2)) is not None:
                send(follower, batch, target)
                assert follower.commit()
            now = follower._member.current()
            assert now is not None
            assert (now.number, now.member, now.assignment) == (before.number, before.member, before.assignment)
        assert_exactly_once(servers, target, source=source, id="json:$.id", timeout=60)


@pytest.mark.parametrize("control", [False, True])
def test_rows_that_were_made_of_none_are_fenced_by_the_group(
    servers: str, monkeypatch: pytest.MonkeyPatch, control: bool
) -> None:
    """Its member is removed from the group after it has looked whether it still is one. In the control no offset goes
    with the rows, and nothing fences them.
    """
    name = f"of-none-{control}"
    source, target = create(servers, f"{name}-in", PARTITIONS), create(servers, f"{name}-out", PARTITIONS)
    fill(servers, source, range(10))

    def remove(passed: Step, _: str) -> None:
        if passed is SessionStep.COMMITTING:
            monkeypatch.setattr(semel.steps, "_observer", None)
            member = session._member.generation
            assert member is not None
            with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
                membership.leave(client, name, member.member)

    with (
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.session(name, group=name, topics=[source]) as session,
    ):
        wait_for(lambda: (session.poll(1), session.commit(), sum(session.committed.values()) == 10)[2], "all rows", 60)
        session.send(target, pa.table({"value": [b"1"]}))
        if control:
            monkeypatch.setattr(type(session), "_read", property(lambda _: {}))
        monkeypatch.setattr(semel.steps, "_observer", remove)
        assert session.commit() is control
