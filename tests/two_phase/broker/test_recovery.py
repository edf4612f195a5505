"""Prepared transactions after a restart: what was decided is committed, the rest is aborted, losses are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

import semel
from semel.sandbox import Sandbox
from semel.testing.records import read
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.producer import TwoPhaseProducer
from semel.wire.api.describe_transactions import TransactionDescription, describe, list_transactions
from semel.wire.api.offsets import LATEST, list_offsets
from tests.support.coordinator import wait_until_ended
from tests.support.other_client import delete_records
from tests.support.topics import create
from tests.support.truncate_log import cut_log
from tests.support.waiting import wait_for
from tests.two_phase.support.prepared import ROWS, numbers, ongoing, prepare, values


def test_prepared_it_outlives_a_restart_of_the_broker(cluster: semel.Cluster, brokers: Sandbox, topic: str) -> None:
    prepared = prepare(cluster, topic)
    (node,) = brokers.nodes
    node.kill()
    node.start()
    node.wait_ready(60, nodes=1)
    cluster.commit(prepared)
    assert values(brokers, topic) == ["a", "b", "c"]


def test_bounded_it_expires_and_that_is_loud(brokers: Sandbox, topic: str) -> None:
    short = {"bootstrap.servers": brokers.bootstrap_servers, "transaction.timeout.ms": "1000"}
    with semel.Cluster(short) as cluster:
        with cluster.producer(topic, two_phase="bounded") as producer, producer.transaction() as txn:
            txn.send(topic, ROWS)
            prepared = txn.prepare()
        assert prepared.until_ms is not None

        def expired() -> bool:
            told = describe(cluster._client, prepared.transactional_id)
            return told is not None and told.state == "CompleteAbort"

        wait_for(expired, "the brokers have aborted it")
        with pytest.raises(semel.DataLoss, match=r"PREPARED_LOST.*it expired \(bounded\)"):
            cluster.commit(prepared)
        cluster.abort(prepared)
    assert values(brokers, topic) == []


def test_two_phase_it_is_not_aborted_by_any_timeout(brokers: Sandbox, topic: str) -> None:
    short = {"bootstrap.servers": brokers.bootstrap_servers, "transaction.timeout.ms": "1000"}
    with semel.Cluster(short) as cluster:
        kept = prepare(cluster, topic)
        with cluster.producer(f"{topic}-b", two_phase="bounded") as producer, producer.transaction() as txn:
            txn.send(topic, ROWS)
            control = txn.prepare()

        def expired() -> bool:
            told = describe(cluster._client, control.transactional_id)
            return told is not None and told.state == "CompleteAbort"

        wait_for(expired, "the control has expired")
        cluster.commit(kept)
    assert values(brokers, topic) == ["a", "b", "c"]


def test_recovery_commits_what_was_decided_and_aborts_the_rest(
    brokers: Sandbox, cluster: semel.Cluster, topic: str
) -> None:
    decided, undecided, other = prepare(cluster, topic), prepare(cluster, topic), prepare(cluster, f"{topic}")
    elsewhere = create(brokers.bootstrap_servers, f"{topic}-eu", 1)
    theirs = prepare(cluster, elsewhere)
    found: list[TransactionDescription] = []

    def decide(listed: list[TransactionDescription] | object) -> list[Prepared]:
        assert isinstance(listed, list)
        found.extend(listed)
        return [decided, other]

    recovered = cluster.recover(topic, decide)
    assert {one.transactional_id for one in found} == {p.transactional_id for p in (decided, undecided, other)}
    assert (recovered.committed, recovered.aborted) == ([decided, other], [undecided.transactional_id])
    assert len(values(brokers, topic)) == 6
    assert theirs.transactional_id in list_transactions(cluster._client, ["Ongoing"]), "a prefix that begins alike"
    cluster.abort(theirs)
    with pytest.raises(semel.ConfigError, match="OTHER_PREFIX"):
        cluster.recover(topic, lambda found: [theirs])


def test_recovery_goes_on_behind_one_that_is_lost(brokers: Sandbox, cluster: semel.Cluster, topic: str) -> None:
    """A decided one that was aborted is told at the end: the other is committed, the undecided one aborted."""
    lost, decided, undecided = prepare(cluster, topic), prepare(cluster, topic), prepare(cluster, topic)
    cluster.abort(lost)
    with pytest.raises(semel.DataLoss, match="PREPARED_LOST"):
        cluster.recover(topic, lambda found: [lost, decided])
    assert len(values(brokers, topic)) == 3
    assert undecided.transactional_id not in list_transactions(cluster._client, ["Ongoing"])


def test_rows_that_are_deleted_before_the_commit_are_missed(
    brokers: Sandbox, cluster: semel.Cluster, topic: str
) -> None:
    prepared = prepare(cluster, topic)
    other = replace(prepared, topics=dict.fromkeys(prepared.topics, "A" * 22))
    with pytest.raises(semel.DataLoss, match=r"ROWS_GONE.*nothing of it is visible"):
        cluster.commit(other)
    cluster.abort(prepared)


def test_a_log_that_was_cut_before_the_commit_is_missed(brokers: Sandbox, cluster: semel.Cluster) -> None:
    """Its first offset is what it was: only the transaction as the new leader knows it shows what is gone."""
    topic = create(brokers.bootstrap_servers, f"two-phase-cut-{next(numbers)}", 1)
    with cluster.producer(topic, two_phase=True) as producer, producer.transaction() as txn:
        for _ in range(3):
            txn.send(topic, ROWS)
        prepared = txn.prepare()
    cut_log(brokers, (topic, 0), batches=1)
    with pytest.raises(semel.DataLoss, match=r"ROWS_GONE.*lost acknowledged rows.*still prepared"):
        cluster.commit(prepared)
    assert values_to_stable(brokers, topic) == []
    cluster.abort(prepared)


def values_to_stable(brokers: Sandbox, topic: str) -> list[str]:
    found = read(brokers.bootstrap_servers, [topic], {"value": "value"}, wait_for_open=False)["value"].to_pylist()
    return [str(value) for value in found]


def test_rows_and_markers_that_are_gone_are_no_reason_to_wait(
    brokers: Sandbox, cluster: semel.Cluster, topic: str
) -> None:
    """The coordinator knows a later transaction of that id, and the log nothing: calling again would not help."""
    with cluster.producer(topic, two_phase=True) as producer:
        old = prepare_with(producer, cluster, topic)
        wait_until_ended(brokers.bootstrap_servers, old.transactional_id)  # before that, another id is taken
        new = prepare_with(producer, cluster, topic)
    assert old.transactional_id == new.transactional_id
    ends = list_offsets(cluster._client, dict.fromkeys(old.rows, LATEST), read_committed=True)
    for (name, index), end in ends.items():
        delete_records(brokers.bootstrap_servers, name, index, end.offset)
    for ending in (cluster.commit, cluster.abort):
        with pytest.raises(semel.DataLoss, match=r"OUTCOME_UNKNOWN.*remove its text"):
            ending(old)


def prepare_with(producer: TwoPhaseProducer, cluster: semel.Cluster, topic: str) -> Prepared:
    with producer.transaction() as txn:
        txn.send(topic, ROWS)
        prepared = txn.prepare()
    cluster.commit(prepared)
    return prepared


def test_recovery_names_only_what_it_has_aborted(brokers: Sandbox, cluster: semel.Cluster, topic: str) -> None:
    """A predecessor that is still at work ends its own between the list and the abort."""
    theirs, undecided = prepare(cluster, topic), prepare(cluster, topic)

    def decide(found: object) -> list[Prepared]:
        cluster.commit(theirs)
        return []

    recovered = cluster.recover(topic, decide)
    assert recovered.aborted == [undecided.transactional_id]
    assert sorted(values_to_stable(brokers, topic)) == list("abc"), "readers are past what was aborted"


def test_a_text_of_another_cluster_is_refused_before_any_is_ended(cluster: semel.Cluster, topic: str) -> None:
    decided, undecided = prepare(cluster, topic), prepare(cluster, topic)
    with pytest.raises(semel.ConfigError, match="OTHER_CLUSTER"):
        cluster.recover(topic, lambda found: [decided, replace(decided, cluster="another")])
    assert sorted(ongoing(cluster, topic)) == sorted([decided.transactional_id, undecided.transactional_id])
    cluster.recover(topic, lambda found: [])
