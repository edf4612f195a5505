"""Prepared transactions on a real broker: ended from anywhere, as often as needed, and never twice in two ways."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from prometheus_client import CollectorRegistry

import semel
from semel.sandbox import Sandbox
from semel.transaction.two_phase import producer as two_phase_producer
from semel.transaction.two_phase.metrics import METRICS
from semel.transaction.two_phase.prepared import Prepared
from tests.support.coordinator import wait_until_ended
from tests.support.other_client import delete
from tests.support.topics import create
from tests.support.waiting import wait_for
from tests.two_phase.support.prepared import ROWS, numbers, ongoing, prepare, values


def test_it_is_committed_from_another_process_by_its_text(brokers: Sandbox, cluster: semel.Cluster, topic: str) -> None:
    prepared = prepare(cluster, topic)
    assert prepared.until_ms is None
    assert sum(rows for _, rows in prepared.rows.values()) == 3
    with semel.Cluster({"bootstrap.servers": brokers.bootstrap_servers}) as other:
        read_again = semel.Prepared.parse(str(prepared))
        assert read_again == prepared
        assert (read_again.rows, read_again.topics) == (prepared.rows, prepared.topics)
        for _ in range(3):
            other.commit(read_again)
        with pytest.raises(semel.ConfigError, match=r"COMMITTED_BEFORE.*visible"):
            other.abort(read_again)
    assert values(brokers, topic) == ["a", "b", "c"]


def test_aborted_it_cannot_be_committed(brokers: Sandbox, cluster: semel.Cluster, topic: str) -> None:
    prepared = prepare(cluster, topic)
    for _ in range(3):
        cluster.abort(prepared)
    with pytest.raises(semel.DataLoss, match=r"PREPARED_LOST.*3 rows"):
        cluster.commit(prepared)
    assert values(brokers, topic) == []


def test_with_nothing_in_it_both_ends_do_nothing(cluster: semel.Cluster, topic: str) -> None:
    with cluster.producer(topic, two_phase=True) as producer, producer.transaction() as txn:
        prepared = txn.prepare()
    cluster.commit(prepared)
    cluster.abort(prepared)


def test_how_it_ended_is_told_by_the_log_once_its_id_was_used_again(
    brokers: Sandbox, cluster: semel.Cluster, topic: str
) -> None:
    """One id serves one transaction after the other; an old text still ends nothing but its own."""
    with cluster.producer(topic, two_phase=True) as producer:
        ends: list[Prepared] = []
        for commit in (True, False, True):
            with producer.transaction() as txn:
                txn.send(topic, ROWS)
                ends.append(txn.prepare())
            (cluster.commit if commit else cluster.abort)(ends[-1])
            wait_until_ended(brokers.bootstrap_servers, ends[-1].transactional_id)  # before that, another id is taken
        with producer.transaction() as txn:
            txn.send(topic, ROWS)
            last = txn.prepare()
    assert {one.transactional_id for one in ends} == {last.transactional_id}, "used again once it has ended"
    cluster.commit(ends[0])
    cluster.abort(ends[1])
    with pytest.raises(semel.DataLoss, match="PREPARED_LOST"):
        cluster.commit(ends[1])
    with pytest.raises(semel.ConfigError, match="COMMITTED_BEFORE"):
        cluster.abort(ends[2])
    cluster.commit(last)
    assert len(values(brokers, topic)) == 9


def test_an_id_goes_on_with_what_the_end_has_answered(brokers: Sandbox, cluster: semel.Cluster, topic: str) -> None:
    """No InitProducerId in between: each epoch is one above the last, and a text that is old ends nothing else."""
    with cluster.producer(topic, two_phase=True) as producer:
        ends: list[Prepared] = []
        for commit in (True, False, True):
            with producer.transaction() as txn:
                txn.send(topic, ROWS)
                ends.append(txn.prepare())
            (producer.commit if commit else producer.abort)(ends[-1])
        with producer.transaction() as txn:
            txn.send(topic, ROWS)
            last = txn.prepare()
    assert [one.epoch - ends[0].epoch for one in (*ends, last)] == [0, 1, 2, 3]
    assert {(one.transactional_id, one.producer_id) for one in ends} == {(last.transactional_id, last.producer_id)}
    cluster.commit(ends[0])
    cluster.abort(ends[1])
    with pytest.raises(semel.DataLoss, match="PREPARED_LOST"):
        producer.commit(ends[1])
    with pytest.raises(semel.ConfigError, match="COMMITTED_BEFORE"):
        producer.abort(ends[2])
    assert ongoing(cluster, topic) == [last.transactional_id], "the old texts have not touched it"
    producer.commit(last)
    assert len(values(brokers, topic)) == 9


def test_that_retention_can_reach_it_is_said(
    brokers: Sandbox, cluster: semel.Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """By what the topic keeps, and by the time that the rows carry."""
    week, hour = 7 * 24 * 3_600_000, 3_600_000
    old = pa.array([datetime.now(UTC) - timedelta(days=6.5)] * 3, pa.timestamp("us", "UTC"))
    for retention, rows, said in (
        (week, ROWS, []),
        (hour, ROWS, ["keeps rows for 1.0 hours"]),
        (week, ROWS.append_column("timestamp", old), ["may be deleted in 12.0 hours"]),
    ):
        caplog.clear()
        name = f"two-phase-kept-{next(numbers)}"
        cluster.commit(prepare(cluster, create(brokers.bootstrap_servers, name, retention_ms=str(retention)), rows))
        warned = [record.getMessage() for record in caplog.records]
        assert len(warned) == len(said), warned
        assert all(text in one for text, one in zip(said, warned, strict=True)), warned


def test_what_waits_for_its_end_is_counted_and_warned_of(
    brokers: Sandbox,
    cluster: semel.Cluster,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = CollectorRegistry()
    registry.register(cluster.prepared_metrics(topic))

    def metrics() -> tuple[float | None, float | None]:
        count, oldest = (registry.get_sample_value(metric.name, {"prefix": topic}) for metric in METRICS)
        return count, oldest

    assert metrics() == (0, 0)
    with cluster.producer(topic, two_phase=True) as producer:
        for ended in (False, True):
            with producer.transaction() as txn:
                txn.send(topic, ROWS)
                prepared = txn.prepare()
            if ended:
                cluster.commit(prepared)
        count, oldest = metrics()
        assert count == 1
        assert oldest is not None
        assert 0 < oldest < 120
        monkeypatch.setattr(two_phase_producer, "_LONG_PREPARED_S", 0.0)
        caplog.clear()
        for _ in range(2):  # it is warned of once, and not of the one that was committed
            producer.transaction().abort()
        (warning,) = [one.getMessage() for one in caplog.records if "still open" in one.getMessage()]
        assert f"Readers of {topic}-" in warning
    cluster.recover(topic, lambda found: [])
    assert metrics() == (0, 0)


def test_metrics_of_brokers_that_do_not_answer_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with semel.Cluster({"bootstrap.servers": "127.0.0.1:1"}) as nowhere:
        registry = CollectorRegistry()
        registry.register(nowhere.prepared_metrics("orders"))
        assert registry.get_sample_value(METRICS[0].name, {"prefix": "orders"}) is None
    assert "could not be asked" in caplog.text


def test_the_id_stays_with_the_process_that_began_it(brokers: Sandbox, cluster: semel.Cluster, topic: str) -> None:
    """A forked child may commit by the text, and goes on with an id of its own."""
    with cluster.producer(topic, two_phase=True) as producer:
        with producer.transaction() as txn:
            txn.send(topic, ROWS)
            prepared = txn.prepare()
        child = os.fork()
        if not child:
            status = 1
            try:
                producer.commit(prepared)
                with producer.transaction() as own:
                    own.send(topic, ROWS)
                    mine = own.prepare()
                producer.commit(mine)
                status = 0 if mine.transactional_id != prepared.transactional_id else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        producer.commit(prepared)
        with producer.transaction() as txn:
            txn.send(topic, ROWS)
            producer.commit(txn.prepare())
    assert len(values(brokers, topic)) == 9


def test_a_topic_that_was_created_again_is_seen_by_the_next_transaction(
    brokers: Sandbox, cluster: semel.Cluster, topic: str
) -> None:
    with cluster.producer(topic, two_phase=True) as producer:
        with producer.transaction() as txn:
            txn.send(topic, ROWS)
            producer.commit(txn.prepare())
        delete(brokers.bootstrap_servers, topic)
        create(brokers.bootstrap_servers, topic, 3)
        with pytest.raises(semel.AbortAndRetry, match="TOPIC_CREATED_AGAIN"), producer.transaction() as txn:
            txn.send(topic, ROWS)
        assert ongoing(cluster, topic) == []
        with producer.transaction() as txn:
            txn.send(topic, ROWS)
            producer.commit(txn.prepare())
    assert values(brokers, topic) == ["a", "b", "c"]


def test_a_block_that_is_left_without_prepare_is_aborted(brokers: Sandbox, cluster: semel.Cluster, topic: str) -> None:
    with cluster.producer(topic, two_phase=True) as producer:
        with pytest.raises(semel.ConfigError, match=r"NOT_PREPARED.*aborted"), producer.transaction() as txn:
            txn.send(topic, ROWS)
        with pytest.raises(semel.ConfigError, match="EXTRA_COLUMN"), producer.transaction() as txn:
            txn.send(topic, ROWS.append_column("other", ROWS["key"]))
        with producer.transaction() as txn:
            prepared = txn.prepare()
            with pytest.raises(semel.ConfigError, match="is prepared already"):
                txn.send(topic, ROWS)
            with pytest.raises(semel.ConfigError, match="is prepared already"):
                txn.abort()
        cluster.commit(prepared)
    assert values(brokers, topic) == []
    assert ongoing(cluster, topic) == []


def test_what_is_refused(kafka: Sandbox, brokers: Sandbox, cluster: semel.Cluster, topic: str) -> None:
    prepared = prepare(cluster, topic)
    create(kafka.bootstrap_servers, topic, 1)
    with semel.Cluster({"bootstrap.servers": kafka.bootstrap_servers}) as plain:
        with pytest.raises(semel.Unsupported, match=r"TWO_PHASE_OFF.*unstable\.api\.versions\.enable.*bounded"):
            plain.producer(topic, two_phase=True).transaction()
        with pytest.raises(semel.ConfigError, match="OTHER_CLUSTER"):
            plain.commit(prepared)
        with plain.producer(topic, two_phase="bounded") as producer, producer.transaction() as txn:
            txn.send(topic, ROWS)
            bounded = txn.prepare()
        plain.commit(bounded)
        assert values(kafka, topic) == ["a", "b", "c"]
    long = {"bootstrap.servers": kafka.bootstrap_servers, "transaction.timeout.ms": "90000000"}
    with semel.Cluster(long) as cluster_long, pytest.raises(semel.ConfigError, match="TIMEOUT_TOO_LONG"):
        cluster_long.producer(topic, two_phase="bounded").transaction()
    with pytest.raises(semel.ConfigError, match=r"WRONG_VALUE. two_phase="):
        cluster.producer(topic, two_phase="both")  # type: ignore[call-overload]
    for text in ("", "{}", "orders", '{"v":2}', str(prepared)[:-1]):
        with pytest.raises(semel.ConfigError, match="NO_PREPARED"):
            semel.Prepared.parse(text)
    cluster.abort(prepared)


def test_a_forked_child_that_leaves_the_block_ends_nothing(
    brokers: Sandbox, cluster: semel.Cluster, topic: str
) -> None:
    with cluster.producer(topic, two_phase=True) as producer, producer.transaction() as txn:
        txn.send(topic, ROWS)
        child = os.fork()
        if not child:
            status = 1
            try:
                txn.__exit__(None, None, None)
                try:
                    txn.send(topic, ROWS)
                except semel.ConfigError as error:
                    status = 0 if error.tag == "FORKED" else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        prepared = txn.prepare()
    cluster.commit(prepared)
    assert values(brokers, topic) == ["a", "b", "c"]


def test_what_the_brokers_have_aborted_is_not_prepared(brokers: Sandbox, topic: str) -> None:
    """Its rows are in the log still: no check of the rows alone would find it."""
    short = {"bootstrap.servers": brokers.bootstrap_servers, "transaction.timeout.ms": "1000"}
    with semel.Cluster(short) as cluster, cluster.producer(topic, two_phase="bounded") as producer:
        txn = producer.transaction()
        txn.send(topic, ROWS)
        wait_for(lambda: ongoing(cluster, topic) == [], "the brokers have aborted it")
        with pytest.raises(semel.AbortAndRetry, match=r"EXPIRED.*Nothing of it is visible"):
            txn.prepare()
    assert values(brokers, topic) == []


def test_a_topic_that_was_created_again_is_not_prepared(brokers: Sandbox, cluster: semel.Cluster, topic: str) -> None:
    with cluster.producer(topic, two_phase=True) as producer:
        txn = producer.transaction()
        txn.send(topic, ROWS)
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(60)
        wait_for(lambda: topic not in cluster._client.existing({topic}), "the topic is gone")
        create(brokers.bootstrap_servers, topic, 2)
        with pytest.raises(semel.DataLoss, match="ROWS_GONE"):
            txn.prepare()
        txn.abort()
