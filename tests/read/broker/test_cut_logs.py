"""Logs that lose rows they had acknowledged: a broker that dies before its disk has them, a follower that was behind
and is made the leader.

The broker commits what is left, and says nothing (DESIGN rule 12 is of one way to get there). Each test is a
transaction whose commit would do that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Producer as Independent

import semel
from semel.sandbox import Sandbox
from semel.testing.records import read
from semel.transaction.progress.topic import ProgressTopic
from semel.wire.api.describe_transactions import open_transactions
from semel.wire.metadata import Partition
from tests.support.broker_faults import leader_of
from tests.support.topics import create
from tests.support.truncate_log import cut_log
from tests.support.waiting import wait_for

PATIENT = {"delivery.timeout.ms": 60_000, "request.timeout.ms": 5_000}


@pytest.fixture(scope="module")
def fragile() -> Iterator[Sandbox]:
    with Sandbox.start() as sandbox:
        yield sandbox


def test_a_log_that_lost_its_last_row(fragile: Sandbox) -> None:
    """Behind it the marker would stand where the row had been: by its end alone the log looks whole."""
    topic = create(fragile.bootstrap_servers, "last-row")
    _refused(fragile, topic, lambda: cut_log(fragile, (topic, 0), batches=1))
    assert _values(fragile, topic) == []


@pytest.mark.exhaustive
def test_a_log_whose_gap_others_have_filled(fragile: Sandbox) -> None:
    topic = create(fragile.bootstrap_servers, "filled")

    def cut() -> None:
        cut_log(fragile, (topic, 0), batches=2)
        independent = Independent({"bootstrap.servers": fragile.bootstrap_servers})
        for number in range(5):
            independent.produce(topic, f"theirs {number}")
        assert independent.flush(30) == 0

    _refused(fragile, topic, cut)
    assert _values(fragile, topic) == [f"theirs {number}" for number in range(5)]


@pytest.mark.exhaustive  # its sample is test_a_log_that_lost_its_last_row
def test_a_log_that_lost_the_progress_record(fragile: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed, its rows would be there, and the next start would not know: it would write them again."""
    topic = create(fragile.bootstrap_servers, "no-progress")
    struck: list[str] = []

    def strike(step: semel.steps.Step, detail: str) -> None:
        if step is semel.steps.OwnerStep.PROGRESS_WRITTEN and detail == topic and not struck:
            struck.append(detail)
            cut_log(fragile, ProgressTopic(cluster._client, topic, "producer").partition, batches=1)

    with semel.Cluster({"bootstrap.servers": fragile.bootstrap_servers, **PATIENT}) as cluster:
        with cluster.producer(topic) as producer:
            txn = producer.transaction()
            txn.send(topic, pa.table({"value": ["first"]}))
            monkeypatch.setattr(semel.steps, "_observer", strike)
            with pytest.raises(
                semel.DataLoss,
                match=r"ROWS_GONE.*lost acknowledged rows of this .* on semel-progress.*aborted",
            ):
                txn.commit()
        with cluster.producer(topic) as producer:
            assert producer.take_over([topic]) is None
            with producer.transaction() as txn:
                txn.send(topic, pa.table({"value": ["again"]}))
    assert struck
    assert _values(fragile, topic) == ["again"]


@pytest.mark.exhaustive  # its sample is test_elections_at_sources.py
def test_a_leader_that_changes_and_loses_nothing(fragile: Sandbox) -> None:
    """The control: the same kill, and the log is left as it is."""
    topic = create(fragile.bootstrap_servers, "whole")
    with (
        semel.Cluster({"bootstrap.servers": fragile.bootstrap_servers, **PATIENT}) as cluster,
        cluster.producer(topic) as producer,
        producer.transaction() as txn,
    ):
        for number in range(5):
            txn.send(topic, pa.table({"value": [str(number)] * 3}))
        before = _partition(cluster, topic).leader_epoch
        cut_log(fragile, (topic, 0), batches=0)
        assert _partition(cluster, topic).leader_epoch > before, "it was not looked at"
    assert _values(fragile, topic) == [str(number) for number in range(5) for _ in range(3)]


@pytest.mark.exhaustive
def test_an_expired_transaction_behind_another_leader_has_lost_nothing(fragile: Sandbox) -> None:
    """Its rows are not open any more either, because the coordinator has aborted it: that is what is said."""
    topic = create(fragile.bootstrap_servers, "expired")
    properties = {"bootstrap.servers": fragile.bootstrap_servers, **PATIENT, "transaction.timeout.ms": 15_000}
    with semel.Cluster(properties) as cluster, cluster.producer(topic) as producer:
        txn = producer.transaction()
        txn.send(topic, pa.table({"value": ["late"]}))
        cut_log(fragile, (topic, 0), batches=0)
        wait_for(lambda: not _open(cluster, topic), "the transaction's expiry")
        with pytest.raises(semel.AbortAndRetry, match="EXPIRED"):
            txn.commit()
    assert _values(fragile, topic) == []


def test_a_follower_that_was_behind_is_made_the_leader() -> None:
    """Unclean leader election: the last rows were acknowledged by the one in-sync replica there was, and it is gone."""
    with Sandbox.start(nodes=3, settings={"replica.lag.time.max.ms": "3000"}) as three:
        topic = create(
            three.bootstrap_servers, "unclean", 1, 2, unclean_leader_election_enable="true", min_insync_replicas="1"
        )
        with (
            semel.Cluster({"bootstrap.servers": three.bootstrap_servers, **PATIENT}) as cluster,
            cluster.producer(topic) as producer,
        ):
            txn = producer.transaction()
            txn.send(topic, pa.table({"value": ["everywhere"]}))
            wait_for(lambda: len(_partition(cluster, topic).in_sync) == 2, "both replicas in sync")
            leader = leader_of(three, topic)
            assert leader is not None
            (follower,) = [
                node for node in three.nodes if node.id in _partition(cluster, topic).replicas and node.id != leader.id
            ]
            follower.freeze()
            wait_for(lambda: _partition(cluster, topic).in_sync == (leader.id,), "a follower that is behind")
            txn.send(topic, pa.table({"value": ["only on the leader"]}))
            leader.kill()
            follower.thaw()
            wait_for(lambda: _partition(cluster, topic).leader == follower.id, "an unclean election")
            with pytest.raises(semel.DataLoss, match=r"ROWS_GONE.*unclean.*aborted"):
                txn.commit()
        leader.start()
        leader.wait_ready(60)
        assert _values(three, topic) == []


def _refused(sandbox: Sandbox, topic: str, cut: Callable[[], None]) -> None:
    with (
        semel.Cluster({"bootstrap.servers": sandbox.bootstrap_servers, **PATIENT}) as cluster,
        cluster.producer(topic) as producer,
    ):
        txn = producer.transaction()
        for number in range(3):
            txn.send(topic, pa.table({"value": [f"row {number}"]}))
        cut()
        with pytest.raises(
            semel.DataLoss, match=rf"ROWS_GONE.*lost acknowledged rows of this transaction on {topic}-0.*aborted"
        ):
            txn.commit()


def _partition(cluster: semel.Cluster, topic: str) -> Partition:
    return cluster._client.refresh({topic}).topics[topic].partitions[0]


def _open(cluster: semel.Cluster, topic: str) -> bool:
    return any(open_transactions(cluster._client, [(topic, 0)]).values())


def _values(sandbox: Sandbox, topic: str) -> list[str]:
    found: list[str] = read(sandbox.bootstrap_servers, [topic], {"value": "value"})["value"].to_pylist()
    return found
