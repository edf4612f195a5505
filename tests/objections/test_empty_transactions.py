"""A transaction without rows, and partitions that are on a ticket and never touched: progress and offsets are
committed, nothing hangs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import semel
from semel.sandbox import Sandbox
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.transaction.progress.record import Progress
from tests.support.raw_producer import Raw


@pytest.fixture
def raw(kafka: Sandbox) -> Iterator[Raw]:
    made = Raw(kafka.bootstrap_servers, partitions=4)
    yield made
    made.close()


def test_progress_and_offsets_alone(raw: Raw) -> None:
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster:
        with cluster.producer(raw.id) as producer:
            for batch in range(3):
                with producer.transaction() as txn:
                    txn.send_offsets({(raw.topic, 0): batch + 1}, raw.group)
                    txn.commit(Progress(query="q", batch=batch))
        with cluster.producer(raw.id) as successor:
            assert successor.take_over([raw.topic], raw.group) == Progress(
                query="q", batch=2, groups={raw.group: {raw.topic: (0,)}}
            )
    assert raw.offset_once(stable=True) == (0, 3)
    assert raw.visible() == []
    assert raw.ends() == (0, 0)


def test_partitions_that_nobody_touches_get_no_record_and_hold_nobody_back(raw: Raw) -> None:
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        for value in ("a", "b"):
            with producer.transaction() as txn:
                tickets = txn.tickets([raw.at(0, 1), raw.at(2, 3)])
                with cluster.participant(tickets[0]) as busy, cluster.participant(tickets[1]) as idle:
                    busy.send(raw.topic, pa.table({"value": [value], "partition": [1]}))
                    idle.send(raw.topic, pa.table({"value": pa.array([], pa.string())}))
                assert idle.receipt.wrote == {}
                txn.accept([busy.receipt, idle.receipt])
        producer.wait_visible()
        assert producer.progress is not None
        assert producer.progress.wrote == {raw.topic: {1: (2, 2)}}
    assert raw.visible() == ["a", "b"]
    for index in range(4):
        stable, high = raw.ends(index)
        assert stable == high


@pytest.mark.parametrize("how", ["end", "commit", "abort", "error"])
def test_with_nothing_in_it_nothing_is_sent(raw: Raw, how: str) -> None:
    with FaultProxy(raw.servers) as proxy:
        with (
            semel.Cluster({"bootstrap.servers": proxy.bootstrap_servers}) as cluster,
            cluster.producer(raw.id) as producer,
        ):
            producer.take_over()
            before = len(proxy.log)
            try:
                with producer.transaction() as txn:
                    if how == "commit":
                        txn.commit()
                    elif how == "abort":
                        txn.abort()
                    elif how == "error":
                        raise KeyError("the user's own")
            except KeyError:
                assert how == "error"
            assert proxy.log[before:] == []
            with producer.transaction() as txn:
                txn.send(raw.topic, pa.table({"value": ["x"], "partition": [0]}))
        assert raw.visible() == ["x"]
