"""Reading while brokers die, freeze and come back: no row twice, none left out, and nothing called lost that is not."""

from __future__ import annotations

from semel.config import ClientConfig
from semel.read import Reader
from semel.sandbox import Node, Sandbox
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.wire.client import Client
from tests.support.broker_faults import leader_of
from tests.support.other_client import Transactional, oracle, produce, ranges, rows, values
from tests.support.topics import create
from tests.support.waiting import wait_for


def config(servers: str) -> ClientConfig:
    return ClientConfig.parse(
        {
            "bootstrap.servers": servers,
            "max.partition.fetch.bytes": 2_000,
            "request.timeout.ms": 2_000,
            "socket.connection.setup.timeout.ms": 1_000,
        }
    )


def others(kafka3: Sandbox, node: Node) -> str:
    return ",".join(f"127.0.0.1:{one.port}" for one in kafka3.nodes if one is not node)


def test_answers_that_are_lost_or_cut_are_asked_for_again(kafka: Sandbox) -> None:
    servers = kafka.bootstrap_servers
    topic = create(servers, "cut-answers", 2)
    one = Transactional(servers, "cut-answers")
    for step in range(10):
        one.write(topic, [row | {"partition": step % 2} for row in values(100, f"{step}-" + "x" * 50)])
        one.end(commit=step % 3 != 1)
    with FaultProxy(servers) as proxy, Client(config(proxy.bootstrap_servers)) as client:
        faults = [
            proxy.cut("Fetch", 2, reply=True),
            proxy.drop_reply("Fetch", 4),
            proxy.drop_request("Fetch", 6),
            proxy.cut("Fetch", 8),
        ]
        wanted = ranges(client, topic)
        reader = Reader(client, wanted)
        assert rows(reader) == oracle(servers, wanted)
        assert all(fault.happened.is_set() for fault in faults)
        assert reader.positions == {one.topic_partition: one.end for one in wanted}


def test_the_leader_is_killed_in_the_middle_of_reading(kafka3: Sandbox) -> None:
    servers = kafka3.bootstrap_servers
    topic = create(servers, "killed", 3, replication=3)
    one = Transactional(servers, "killed")
    for step in range(12):
        one.write(topic, [row | {"partition": step % 3} for row in values(300, f"{step}-" + "x" * 50)])
        one.end(commit=step % 4 != 2)
    with Client(config(servers)) as client:
        wanted = ranges(client, topic)
        batches = iter(Reader(client, wanted))
        found = [next(batches)]
        victim = leader_of(kafka3, topic)
        assert victim is not None
        victim.kill()
        try:
            found += batches
        finally:
            victim.start()
            victim.wait_ready(60)
        assert rows(found) == oracle(servers, wanted)
        assert len(rows(found)) == 9 * 300


def test_a_leader_that_was_frozen_and_deposed_is_not_believed(kafka3: Sandbox) -> None:
    """Thawed, it still names itself and an old end: the end of the range lies beyond that, and still nothing is
    lost.
    """
    servers = kafka3.bootstrap_servers
    topic = create(servers, "frozen", replication=3)
    produce(servers, topic, values(500, "old"), acks="all")
    victim = leader_of(kafka3, topic)
    assert victim is not None
    victim.freeze()
    try:
        awake = others(kafka3, victim)
        wait_for(lambda: leader_of(kafka3, topic, asked=awake) not in (None, victim), "another leader")
        produce(awake, topic, values(500, "new"), acks="all")
        with Client(config(awake)) as client:
            wanted = ranges(client, topic)
    finally:
        victim.thaw()
    assert wanted[0].end == 1_000
    with Client(config(f"127.0.0.1:{victim.port}")) as client:
        assert rows(Reader(client, wanted)) == oracle(servers, wanted)
