"""commit called twice, and everything else that is done with a transaction that has ended: refused, and the next
transaction is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import semel
from semel.errors import ConfigError
from semel.sandbox import Sandbox
from semel.transaction.producer import Producer
from semel.transaction.transaction import Transaction
from tests.support.raw_producer import Raw

ROWS = pa.table({"value": ["again"]})


@pytest.fixture
def raw(kafka: Sandbox) -> Iterator[Raw]:
    made = Raw(kafka.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture
def producer(raw: Raw) -> Iterator[Producer]:
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as made:
        yield made


CALLS: dict[str, Callable[[Transaction, Raw], object]] = {
    "commit": lambda txn, raw: txn.commit(),
    "abort": lambda txn, raw: txn.abort(),
    "send": lambda txn, raw: txn.send(raw.topic, ROWS),
    "send_offsets": lambda txn, raw: txn.send_offsets({(raw.topic, 0): 9}, raw.group),
    "tickets": lambda txn, raw: txn.tickets([[(raw.topic, 0)]]),
}


@pytest.mark.parametrize("ended", ["committed", "aborted"])
@pytest.mark.parametrize("call", CALLS)
def test_an_ended_transaction_can_do_nothing(raw: Raw, producer: Producer, call: str, ended: str) -> None:
    with producer.transaction() as old:
        old.send(raw.topic, pa.table({"value": ["old"]}))
        if ended == "aborted":
            old.abort()
    with pytest.raises(ConfigError, match="ILLEGAL_STATE"):
        CALLS[call](old, raw)
    with producer.transaction() as txn:
        txn.send(raw.topic, pa.table({"value": ["new"]}))
        with pytest.raises(ConfigError, match="ILLEGAL_STATE"):
            CALLS[call](old, raw)
        txn.send(raw.topic, pa.table({"value": ["and more"]}))
    assert raw.visible() == [*(["old"] if ended == "committed" else []), "new", "and more"]
    assert producer.progress is not None
    assert producer.progress.batch == (1 if ended == "committed" else 0)


def test_a_context_manager_leaves_what_was_committed_alone(raw: Raw, producer: Producer) -> None:
    with producer.transaction() as txn:
        txn.send(raw.topic, pa.table({"value": ["x"]}))
        txn.commit()
    with pytest.raises(KeyError):
        commit_and_fail(producer, raw)
    assert raw.visible() == ["x", "y"]


def commit_and_fail(producer: Producer, raw: Raw) -> None:
    with producer.transaction() as txn:
        txn.send(raw.topic, pa.table({"value": ["y"]}))
        txn.commit()
        raise KeyError("behind the commit")


def test_two_transactions_at_once_are_refused(raw: Raw, producer: Producer) -> None:
    with producer.transaction() as txn:
        with pytest.raises(ConfigError, match="ILLEGAL_STATE"):
            producer.transaction()
        with pytest.raises(ConfigError, match="ILLEGAL_STATE"):
            producer.take_over()
        txn.send(raw.topic, pa.table({"value": ["x"]}))
    assert raw.visible() == ["x"]
