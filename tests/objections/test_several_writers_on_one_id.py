"""Several writers on one transactional id: each partition has one, and however their requests mix, its sequences have
no gap and no repeat.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pyarrow as pa
import pytest

import semel
from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.records.header import BatchHeader, scan
from semel.sandbox import Sandbox
from semel.transaction.producer import Producer
from semel.transaction.ticket import Receipt, Written
from semel.wire.api.fetch import fetch
from semel.wire.api.fetch_frames import Position
from semel.wire.client import Client
from tests.support.raw_producer import Raw

PARTITIONS = 8
TRANSACTIONS = 20
WRITES = 120


@pytest.fixture
def raw(kafka: Sandbox) -> Iterator[Raw]:
    made = Raw(kafka.bootstrap_servers, partitions=PARTITIONS)
    yield made
    made.close()


@pytest.fixture
def producer(raw: Raw) -> Iterator[Producer]:
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as made:
        yield made


def headers(raw: Raw, index: int) -> list[BatchHeader]:
    with Client(
        ClientConfig.parse({"bootstrap.servers": raw.servers, "max.partition.fetch.bytes": 64 << 20})
    ) as client:
        topic = client.topics({raw.topic})[raw.topic]
        where = (raw.topic, index)
        leader = topic.partitions[index].leader
        found = fetch(
            client,
            leader,
            {where: Position(topic.id, 0)},
            read_committed=False,
            max_wait_ms=50,
            deadline=client.deadline(),
        )
        return list(scan(found[where].records))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_thousands_of_interleavings_leave_gap_free_sequences(raw: Raw, producer: Producer, seed: int) -> None:
    """Writers with random shares of the partitions, each with its own connection, take turns at random; some
    transactions are aborted.
    """
    chance = random.Random(seed)
    expected: dict[int, list[str]] = {index: [] for index in range(PARTITIONS)}
    with (
        semel.Cluster({"bootstrap.servers": raw.servers}) as one,
        semel.Cluster({"bootstrap.servers": raw.servers}) as other,
    ):
        for number in range(TRANSACTIONS):
            written: dict[int, list[str]] = {index: [] for index in range(PARTITIONS)}
            with producer.transaction() as txn:
                indexes = chance.sample(range(PARTITIONS), PARTITIONS)
                cuts = sorted(chance.sample(range(1, PARTITIONS), 3))
                shares = [indexes[a:b] for a, b in zip([0, *cuts], [*cuts, PARTITIONS], strict=True)]
                tickets = txn.tickets([raw.at(*share) for share in shares])
                writers = [chance.choice([one, other]).participant(ticket) for ticket in tickets]
                for turn in range(WRITES):
                    who = chance.randrange(len(writers))
                    rows = [(chance.choice(shares[who]), f"{number}/{turn}/{i}") for i in range(chance.randint(1, 5))]
                    partitions = pa.array([index for index, _ in rows], pa.int32())
                    writers[who].write(
                        raw.topic, pa.table({"value": [value for _, value in rows], "partition": partitions})
                    )
                    for index, value in rows:
                        written[index].append(value)
                    if chance.random() < 0.1:
                        writers[who].flush()
                if chance.random() < 0.2:
                    txn.abort()
                    continue
                chance.shuffle(writers)
                txn.accept([writer.receipt for writer in writers])
            for index, values in written.items():
                expected[index] += values
    producer.wait_visible()
    for index in range(PARTITIONS):
        assert raw.visible(index) == expected[index]
        following: dict[tuple[int, int], int] = {}
        for header in headers(raw, index):
            if not header.control:
                identity = (header.producer_id, header.producer_epoch)
                assert header.base_sequence == following.get(identity, 0)
                following[identity] = header.base_sequence + header.count


@pytest.mark.parametrize(
    ("before", "overlapping"),
    [([], [[0, 1], [1, 2]]), ([], [[0, 0]]), ([[0]], [[1], [0]]), ([[0, 1, 2], [3]], [[3]])],
    ids=str,
)
def test_two_tickets_cannot_name_one_partition(
    raw: Raw, producer: Producer, before: list[list[int]], overlapping: list[list[int]]
) -> None:
    txn = producer.transaction()
    txn.tickets([raw.at(*share) for share in before])
    with pytest.raises(ConfigError, match="OVERLAP"):
        txn.tickets([raw.at(*share) for share in overlapping])
    txn.abort()


def test_what_the_owner_writes_itself_has_a_ticket_too(raw: Raw, producer: Producer) -> None:
    txn = producer.transaction()
    txn.send(raw.topic, pa.table({"value": ["x"]}))
    with pytest.raises(ConfigError, match="OVERLAP"):
        txn.tickets([raw.at(3)])
    txn.abort()
    assert raw.visible() == []


def test_a_partition_whose_ticket_came_back_has_had_its_writer(raw: Raw, producer: Producer) -> None:
    """A second one would begin at sequence 0 again: the broker would answer OK, and drop its rows."""
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, producer.transaction() as txn:
        (ticket,) = txn.tickets([raw.at(0)])
        with cluster.participant(ticket) as writer:
            writer.send(raw.topic, pa.table({"value": ["first"]}))
        txn.accept([writer.receipt])
        with pytest.raises(ConfigError, match="OVERLAP"):
            txn.tickets([raw.at(0)])
        with pytest.raises(ConfigError, match="OVERLAP"):
            txn.send(raw.topic, pa.table({"value": ["second"]}))
    assert raw.visible() == ["first"]


def test_a_withdrawn_ticket_leaves_its_partitions_to_another(raw: Raw, producer: Producer) -> None:
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, producer.transaction() as txn:
        first = txn.tickets([raw.at(0), raw.at(1)])
        txn.withdraw(first)
        (second,) = txn.tickets([raw.at(0, 1)])
        with cluster.participant(second) as writer:
            writer.send(raw.topic, pa.table({"value": ["x", "y"], "partition": [0, 1]}))
        txn.accept([writer.receipt])
    assert raw.visible() == ["x", "y"]


def test_threads_that_ask_for_one_partition_at_once(raw: Raw, producer: Producer) -> None:
    """One of them has it: two tickets would both begin at sequence 0, and half of the rows would be dropped with an
    OK.
    """
    with producer.transaction() as txn, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(txn.tickets, [raw.at(index)]) for index in (0, 1, 2, 3) for _ in range(4)]
        refused = [future.exception() for future in asked if future.exception() is not None]
        assert len(refused) == 12
        assert all(isinstance(error, ConfigError) and error.tag == "OVERLAP" for error in refused)
        assert sorted(partition for ticket in txn.outstanding for partition in ticket.partitions) == raw.at(0, 1, 2, 3)
        txn.withdraw(txn.outstanding)


def test_threads_that_send_take_turns(raw: Raw, producer: Producer) -> None:
    sent = [f"row {number}" for number in range(40)]
    with producer.transaction() as txn, ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(txn.send, raw.topic, pa.table({"value": [value]})) for value in sent]:
            done.result()
    assert sorted(raw.visible()) == sorted(sent)


def test_what_is_no_receipt_of_its_ticket_is_refused(raw: Raw, producer: Producer) -> None:
    txn = producer.transaction()
    (ticket,) = txn.tickets([raw.at(0)])
    wrong: list[Any] = [
        5,
        None,
        Receipt(ticket.number, ticket.identity, {(raw.topic, 1): Written(0, 0, 1, 70)}),
        Receipt(-1, ticket.identity, {}),
    ]
    for receipt in wrong:
        with pytest.raises(ConfigError, match="FOREIGN_RECEIPT"):
            txn.accept([receipt])
    with pytest.raises(ConfigError, match="FOREIGN_TICKET"):
        txn.withdraw(cast(Any, [5]))
    assert txn.outstanding == [ticket]
    txn.abort()


def test_tickets_and_receipts_of_another_transaction_are_refused(raw: Raw, producer: Producer) -> None:
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster:
        with producer.transaction() as txn:
            old = txn.tickets([raw.at(0)])
            with cluster.participant(old[0]) as writer:
                writer.send(raw.topic, pa.table({"value": ["old"]}))
            txn.accept([writer.receipt])
            with pytest.raises(ConfigError, match="SECOND_RECEIPT"):
                txn.accept([writer.receipt])
        txn = producer.transaction()
        txn.tickets([raw.at(0)])
        with pytest.raises(ConfigError, match="FOREIGN_TICKET"):
            txn.withdraw(old)
        with pytest.raises(ConfigError, match="FOREIGN_RECEIPT"):
            txn.accept([writer.receipt])
        with pytest.raises(semel.AbortAndRetry, match="TICKETS_OUT"):
            txn.commit()
    assert raw.visible() == ["old"]
