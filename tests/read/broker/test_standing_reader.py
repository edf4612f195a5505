"""A standing reader on three brokers: it waits at all leaders, and reads each row once while they move and go away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from semel.config import ClientConfig
from semel.read import Reader
from semel.sandbox import Sandbox
from semel.wire.client import Client
from tests.read.support.standing import Standing
from tests.support.broker_faults import leader_of, move_leader, wait_whole
from tests.support.other_client import followed, oracle, produce, ranges, rows, values
from tests.support.topics import create
from tests.support.waiting import wait_for

PARTITIONS = 3
#: So long a leader without new rows waits with its answer.
WAIT_S = 10


def config(servers: str) -> ClientConfig:
    wait = {"fetch.max.wait.ms": str(WAIT_S * 1000), "request.timeout.ms": "60000"}
    return ClientConfig.parse({"bootstrap.servers": servers, **wait})


@contextmanager
def standing(servers: str, topic: str) -> Iterator[Standing]:
    with Client(config(servers)) as client, Standing(Reader(client, followed(client, topic), standing=True)) as reading:
        yield reading


def assert_each_row_once(servers: str, topic: str, reading: Standing) -> None:
    with Client(config(servers)) as client:
        assert rows(reading.batches) == oracle(servers, ranges(client, topic))


def test_rows_at_one_leader_do_not_wait_for_the_others(kafka3: Sandbox) -> None:
    servers = kafka3.bootstrap_servers
    topic = create(servers, "standing", PARTITIONS)
    assert len({leader_of(kafka3, topic, index) for index in range(PARTITIONS)}) == PARTITIONS
    produce(servers, topic, values(1))
    with standing(servers, topic) as reading:
        wait_for(partial(reading.has, 1), "the row before")
        began = time.monotonic()
        for count, index in enumerate((2, 1, 0, 2, 1), start=2):
            produce(servers, topic, values(1, partition=index))
            wait_for(partial(reading.has, count), f"a row of partition {index}")
        assert time.monotonic() - began < WAIT_S
    assert_each_row_once(servers, topic, reading)


@pytest.mark.exhaustive
def test_a_leader_that_moves_while_it_is_asked(kafka3: Sandbox) -> None:
    servers = kafka3.bootstrap_servers
    topic = create(servers, "standing-moved", PARTITIONS, 3)
    nodes = [node.id for node in kafka3.nodes]
    with standing(servers, topic) as reading:
        for turn in range(3):
            produce(servers, topic, [row for index in range(PARTITIONS) for row in values(5, partition=index)])
            wait_for(partial(reading.has, (turn + 1) * 5 * PARTITIONS), "the rows")
            move_leader(kafka3, topic, 0, nodes[turn:] + nodes[:turn])
        produce(servers, topic, values(5))
        wait_for(partial(reading.has, 3 * 5 * PARTITIONS + 5), "what the last leader took")
    assert_each_row_once(servers, topic, reading)


def test_partitions_without_a_leader_hold_no_other_up(kafka3: Sandbox) -> None:
    servers = kafka3.bootstrap_servers
    topic = create(servers, "standing-away", PARTITIONS)
    produce(servers, topic, [row for index in range(PARTITIONS) for row in values(5, partition=index)])
    victim, other = leader_of(kafka3, topic, 0), leader_of(kafka3, topic, 1)
    assert victim is not None
    assert victim is not other
    with standing(servers, topic) as reading:
        wait_for(partial(reading.has, 15), "the rows before")
        victim.kill()
        try:
            for count in (16, 17, 18):
                produce(servers, topic, values(1, partition=1))
                wait_for(partial(reading.has, count), "rows of the others")
        finally:
            victim.start()
            victim.wait_ready(120, nodes=3)
        wait_whole(kafka3)
        produce(servers, topic, values(5))
        wait_for(partial(reading.has, 23), "rows of the leader that came back")
    assert_each_row_once(servers, topic, reading)
