"""Markers and rows that are looked for: by whose word, behind what, and what is said where they are not there."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing
from functools import partial

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import semel
import semel.transaction.transaction
from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.transaction.markers.wait import wait_for_markers
from semel.transaction.progress.record import Progress
from semel.wire.api.describe_transactions import open_transactions
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata_cache import newest_leaders
from semel.wire.target import TransactionCoordinator
from tests.support.broker_faults import leader_of
from tests.support.never_heal import Patient
from tests.support.other_client import delete, delete_records, produce
from tests.support.raw_producer import CONCURRENT, Raw
from tests.support.topics import create
from tests.support.waiting import wait_for

ROWS = pa.table({"value": ["x", "y"], "partition": [0, 0]})
SHORT = {"request.timeout.ms": 500, "delivery.timeout.ms": 4_000}


def test_a_leader_of_another_epoch_has_no_say(raw: Raw) -> None:
    """Asked by name, it is asked alone: nobody answers in its place, so what a deposed leader said is not confirmed by
    its successor.
    """
    (partition,) = raw.at(0)
    right = newest_leaders(raw.client, [partition])
    node, epoch = right[partition]
    for leaders in ({partition: (node, epoch + 1)}, {partition: (node + 1, epoch)}):
        assert list_offsets(raw.client, {partition: LATEST}, read_committed=True, leaders=leaders) == {}
    assert open_transactions(raw.client, [partition], leaders={partition: (node + 1, epoch)}) == {}
    assert list_offsets(raw.client, {partition: LATEST}, read_committed=True, leaders=right).keys() == {partition}
    assert open_transactions(raw.client, [partition], leaders=right) == {partition: []}


def _known(admin: AdminClient, topic: str) -> bool:
    return topic in admin.list_topics(timeout=30).topics


def test_one_broker_of_three_does_not_say_who_leads(kafka3: Sandbox) -> None:
    """It may be the one that was cut off: what it takes for the newest epoch was that of a leader before."""
    topic = create(kafka3.bootstrap_servers, "led", replication=3)
    properties = {"request.timeout.ms": 1_000, "socket.connection.setup.timeout.ms": 500, "delivery.timeout.ms": 2_000}
    first, *others = kafka3.nodes
    with Client(ClientConfig.parse({"bootstrap.servers": f"127.0.0.1:{first.port}", **properties})) as client:
        assert newest_leaders(client, [(topic, 0)])[topic, 0][0] >= 0
        for node in others:
            node.freeze()
        try:
            with pytest.raises(semel.Retriable, match="only 1 of 3 brokers said who leads"):
                newest_leaders(client, [(topic, 0)], Deadline(3_000))
        finally:
            for node in others:
                node.thaw()


def test_a_topic_that_one_broker_has_not_heard_of_yet(kafka3: Sandbox) -> None:
    """Right behind the answer that it is made, some broker has mostly not: another one's word counts, whoever is asked
    first.
    """
    admin = AdminClient({"bootstrap.servers": kafka3.bootstrap_servers})
    with ExitStack() as held:
        clients = [
            held.enter_context(Client(ClientConfig.parse({"bootstrap.servers": f"127.0.0.1:{node.port}"})))
            for node in kafka3.nodes
        ]
        for client in clients:
            client.versions()
        for number in range(30):
            topic = f"new-{number}"
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
            wait_for(partial(_known, admin, topic), "a broker that has heard of it")
            assert [topic in client.existing({topic}) for client in clients] == [True] * 3


def test_a_leader_that_dies_while_markers_are_awaited_is_followed_by_the_next(kafka3: Sandbox) -> None:
    servers = kafka3.bootstrap_servers
    topic = create(servers, "awaited", replication=3)
    partition = (topic, 0)
    properties = {
        "bootstrap.servers": servers,
        "request.timeout.ms": 2_000,
        "socket.connection.setup.timeout.ms": 1_000,
    }
    with Client(ClientConfig.parse(properties)) as client, semel.Cluster(properties) as cluster:
        victim = leader_of(kafka3, topic)
        assert victim is not None
        with cluster.producer("awaited") as producer:
            txn = producer.transaction()
            txn.send(topic, ROWS)
            (opened,) = open_transactions(client, [partition])[partition]
            seen: list[float] = []

            def watch() -> None:
                successor = Identity("awaited", opened.producer_id, opened.epoch + 1)
                wait_for_markers(
                    client, [partition], successor, (), last_offsets={}, deadline=Deadline(120_000), heal=Patient()
                )
                seen.append(time.monotonic())

            watching = threading.Thread(target=watch)
            watching.start()
            victim.kill()
            try:
                wait_for(lambda: newest_leaders(client, [partition])[partition][1] > 0, "another leader")
                txn.abort()
                ended = time.monotonic()
                watching.join(100)
            finally:
                victim.start()
                victim.wait_ready(60)
    assert seen, "it asked the dead leader's epoch to the end"
    assert seen[0] - ended < 60, "it did not look for the new leader before its deadline"


def test_the_marker_of_a_partition_that_has_no_leader(kafka3: Sandbox) -> None:
    """KAFKA-20734: from 4.3.0 to 4.4.0 all is said to be well, the marker never comes, and the abort of the next
    transaction takes the committed rows with it. Before that the coordinator is busy until the partition is back.
    """
    lost = tuple(map(int, kafka3.version.split("."))) >= (4, 3, 0)
    with closing(Raw(kafka3.bootstrap_servers)) as raw, closing(Raw(kafka3.bootstrap_servers)) as other:
        identity = raw.init()
        coordinator = raw.client.connect(TransactionCoordinator(raw.id)).address
        alone = next(node for node in kafka3.nodes if f"127.0.0.1:{node.port}" != coordinator)
        raw.topic = other.topic = create(raw.servers, f"{raw.topic}-alone", 2, on=[alone.id])
        list_offsets(raw.client, dict.fromkeys(raw.at(0, 1), LATEST), read_committed=False)  # until it leads them
        raw.add(identity, 0)
        assert raw.produce(identity, ["committed"])[0] == 0
        alone.kill()
        try:
            wait_for(
                lambda: raw.client.refresh({raw.topic}).topics[raw.topic].partitions[0].leader < 0,
                "a partition without a leader",
            )
            assert raw.end_once(identity, commit=True)[0] == 0
            if lost:
                wait_for(lambda: raw.end_once(identity, commit=True)[0] == 0, "an answer that all is well")
                assert raw.init_once()[0] == 0
            else:
                assert [raw.init_once()[0] for _ in range(5)] == [CONCURRENT] * 5
        finally:
            alone.start()
            kafka3.wait_ready()
        list_offsets(other.client, dict.fromkeys(other.at(1), LATEST), read_committed=False)  # until it leads again
        later = other.init()
        other.add(later, 1)
        assert other.produce(later, ["later"], index=1)[0] == 0
        other.end(later, commit=True)
        other.settled(1)
        if not lost:
            raw.settled(0)
        successor = raw.init()
        raw.add(successor, 0)
        raw.end(successor, commit=False)
        raw.settled(0)
        assert raw.visible() == (["later"] if lost else ["committed", "later"])


def test_rows_that_were_deleted_before_their_commit_are_not_committed_in_silence(raw: Raw) -> None:
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        txn = producer.transaction()
        txn.send(raw.topic, ROWS)
        delete_records(raw.servers, raw.topic, 0, 1)
        with pytest.raises(semel.DataLoss, match=r"ROWS_GONE.*were deleted before it was committed"):
            txn.commit()
        with producer.transaction() as txn:
            txn.send(raw.topic, ROWS)
    assert raw.visible() == ["x", "y"]


def test_rows_that_were_deleted_after_another_owner_has_aborted_them_are_not_lost(raw: Raw) -> None:
    """As a worker of streams finds it that was frozen until the others have purged what it had left."""
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        txn = producer.transaction()
        txn.send(raw.topic, ROWS)
        with cluster.producer(raw.id) as successor:
            successor.take_over([raw.topic])
            delete_records(raw.servers, raw.topic, 0, 1)
            with pytest.raises(semel.Fenced, match="was not committed"):
                txn.commit()


def test_rows_that_are_deleted_while_offsets_are_committed_are_looked_at_again(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were there when the progress record was sent; then the group was waited for."""

    def delete_them(step: semel.steps.Step, detail: str) -> None:
        if step is semel.steps.OwnerStep.OFFSETS_ADDED and detail == raw.id:
            delete_records(raw.servers, raw.topic, 0, 1)

    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        txn = producer.transaction()
        txn.send(raw.topic, ROWS)
        txn.send_offsets({(raw.topic, 0): 0}, raw.group)
        monkeypatch.setattr(semel.transaction.transaction, "_LOOK_AGAIN_S", 0.0)
        monkeypatch.setattr(semel.steps, "_observer", delete_them)
        with pytest.raises(semel.DataLoss, match=r"ROWS_GONE.*were deleted before it was committed"):
            txn.commit()
        monkeypatch.undo()
    assert raw.visible() == []


def test_a_topic_that_is_made_anew_before_the_commit_is_not_the_same(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single row: behind its marker the new topic ends where the old one would have."""

    def again(step: semel.steps.Step, detail: str) -> None:
        if step is semel.steps.OwnerStep.WRITTEN and detail == raw.id:
            monkeypatch.undo()
            delete(raw.servers, raw.topic)
            create(raw.servers, raw.topic)

    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        txn = producer.transaction()
        txn.send(raw.topic, ROWS.slice(0, 1))
        monkeypatch.setattr(semel.steps, "_observer", again)
        with pytest.raises(semel.DataLoss, match=r"ROWS_GONE.*not the one that it was.*It is aborted"):
            txn.commit()
        with producer.transaction() as txn:
            txn.send(raw.topic, ROWS)
    assert raw.visible() == ["x", "y"]


def test_acknowledged_rows_that_are_gone_behind_their_commit_stop_the_owner(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is deleted and created again between the last acknowledgement and the end."""

    def again(step: semel.steps.Step, detail: str) -> None:
        if step is semel.steps.OwnerStep.PROGRESS_WRITTEN and detail == raw.id:
            delete(raw.servers, raw.topic)
            create(raw.servers, raw.topic)

    with semel.Cluster(
        {"bootstrap.servers": raw.servers, "delivery.timeout.ms": 12_000, "request.timeout.ms": 6_000}
    ) as cluster:
        producer = cluster.producer(raw.id)
        producer.take_over([raw.topic])
        monkeypatch.setattr(semel.steps, "_observer", again)
        with producer.transaction() as txn:
            txn.send(raw.topic, ROWS)
        with pytest.raises(semel.DataLoss, match=r"ROWS_GONE.*lost acknowledged rows"):
            producer.wait_visible()


@pytest.mark.parametrize("marker", [True, False])
def test_an_end_right_behind_the_last_row_is_that_of_a_log_without_its_marker(raw: Raw, marker: bool) -> None:
    """Two rows, and what stands where a third one had been: a marker, or nothing."""
    produce(
        raw.servers,
        raw.topic,
        [{"value": b"one"}, {"value": b"two"}, *([{"value": b"in the marker's place"}] if marker else [])],
    )
    nobody = Identity(raw.id, 1_000_000, 0)

    def wait() -> None:
        wait_for_markers(
            raw.client, raw.at(0), nobody, (), last_offsets={(raw.topic, 0): 1}, deadline=Deadline(500), heal=Patient()
        )

    if marker:
        wait()
    else:
        with pytest.raises(semel.DataLoss, match="ROWS_GONE"):
            wait()


@pytest.mark.parametrize("waits", ["wait_visible", "close"])
def test_behind_a_commit_nobody_is_told_to_write_again(raw: Raw, waits: str) -> None:
    """Its markers are not seen when it is closed. A batch job that is told to run again writes its rows twice."""
    with (
        FaultProxy(raw.servers) as proxy,
        semel.Cluster({"bootstrap.servers": proxy.bootstrap_servers, **SHORT}) as cluster,
    ):
        producer = cluster.producer(raw.id)
        producer.take_over([raw.topic])
        with producer.transaction() as txn:
            txn.send(raw.topic, ROWS)
            # the first one is the look, before the commit, whether it is the same topic still
            held = [proxy.delay_request("Metadata", n) for n in range(2, 60)]
        with pytest.raises(semel.Retriable, match=r"COMMITTED.*do not write its rows again"):
            getattr(producer, waits)()
        for fault in held:
            fault.release()
    assert raw.visible() == ["x", "y"]


def test_a_round_in_which_nobody_answers_is_not_the_end_of_the_wait(raw: Raw) -> None:
    """Brokers that stall for longer than a request may take are waited for as long as delivery.timeout.ms says."""
    with FaultProxy(raw.servers) as proxy:
        properties = {"bootstrap.servers": proxy.bootstrap_servers, "request.timeout.ms": 500}
        with semel.Cluster(properties) as cluster, cluster.producer(raw.id) as producer:
            producer.take_over([raw.topic])
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
                lost = [proxy.drop_request("Metadata", n) for n in range(1, 6)]
            producer.wait_visible()
            assert all(fault.happened.is_set() for fault in lost)
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
    assert raw.visible() == ["x", "y"] * 2


def test_a_marker_that_does_not_come_stops_the_owner_and_is_named(raw: Raw) -> None:
    former = raw.init()
    raw.add(former, 0)
    assert raw.produce(former, ["open"]) == (0, 0)
    successor = Identity(raw.id, former.producer_id + 1_000, 0)
    with pytest.raises(
        semel.DataLoss, match=rf"MARKER_LOST.*{raw.topic}-0 from offset 0 \(producer id {former.producer_id}"
    ):
        wait_for_markers(
            raw.client,
            raw.at(0),
            successor,
            {former.producer_id},
            last_offsets={},
            deadline=Deadline(5_000),
            heal=Patient(),
        )


def test_what_a_later_version_puts_into_progress_stays_there(raw: Raw) -> None:
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster:
        for given in ({"colour": "blue"}, {}):
            with cluster.producer(raw.id) as producer, producer.transaction() as txn:
                txn.commit(Progress(batch=0, extra=given))
        with cluster.producer(raw.id) as producer:
            found = producer.take_over()
    assert found is not None
    assert found.extra == {"colour": "blue"}
