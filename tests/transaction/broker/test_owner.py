"""The owner on a real broker: what it does where a request, a marker or a participant does not come back."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pyarrow as pa
import pytest

import semel
import semel.steps
from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, Step
from semel.testing.proxy.fault_proxy import Fault, FaultProxy
from semel.transaction.producer import Producer
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from semel.wire.api.describe_transactions import describe, open_transactions
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client
from tests.support.other_client import delete, topic_id
from tests.support.raw_producer import CONCURRENT, Raw
from tests.support.waiting import wait_for

ROWS = pa.table({"value": ["x", "y"], "partition": [0, 1]})


@pytest.fixture
def raw(kafka: Sandbox) -> Iterator[Raw]:
    made = Raw(kafka.bootstrap_servers, partitions=2)
    yield made
    made.close()


def abort_from_outside(raw: Raw) -> None:
    """An InitProducerId that comes late, with an epoch of long ago: it aborts what is open, and its sender is
    refused.
    """
    found = describe(raw.client, raw.id)
    assert found is not None
    wait_for(lambda: raw.init_once(producer_id=found.producer_id, epoch=0)[0] != CONCURRENT, "the abort")


def test_while_markers_are_not_seen_nothing_begins(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait for markers that failed is waited for again by whoever wants to begin."""
    with FaultProxy(raw.servers) as proxy:
        properties = {
            "bootstrap.servers": proxy.bootstrap_servers,
            "request.timeout.ms": 500,
            "delivery.timeout.ms": 4_000,
        }
        with semel.Cluster(properties) as cluster, cluster.producer(raw.id) as producer:
            producer.take_over([raw.topic])
            held: list[Fault] = []

            def hold(step: Step, detail: str) -> None:
                if step is OwnerStep.COMMIT_SENT and detail == raw.id:
                    held.extend(proxy.delay_request("ListOffsets", n) for n in range(1, 40))

            with monkeypatch.context() as patch, producer.transaction() as txn:
                patch.setattr(semel.steps, "_observer", hold)
                txn.send(raw.topic, ROWS)
                txn.commit()
            for _ in range(2):
                with pytest.raises(semel.AbortAndRetry, match="PARTITION_AWAY"):
                    producer.transaction()
            before = len(proxy.log)
            for fault in held:
                fault.release()
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
            after = [seen.api for seen in proxy.log[before:]]
            assert after.index("ListOffsets") < after.index("AddPartitionsToTxn")
    assert raw.visible() == ["x", "x", "y", "y"]


def test_the_markers_of_a_refused_transaction_are_awaited_too(raw: Raw) -> None:
    with (
        FaultProxy(raw.servers) as proxy,
        semel.Cluster({"bootstrap.servers": proxy.bootstrap_servers}) as cluster,
        cluster.producer(raw.id) as producer,
    ):
        producer.take_over([raw.topic])
        for _ in range(3):
            producer.transaction().abort()
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
        producer.wait_visible()
        refused = producer.transaction()
        refused.send(raw.topic, ROWS)
        abort_from_outside(raw)
        with pytest.raises(semel.AbortAndRetry):
            refused.send(raw.topic, ROWS)
        before = len(proxy.log)
        with producer.transaction() as txn:
            txn.send(raw.topic, ROWS)
        after = [seen.api for seen in proxy.log[before:]]
        assert "DescribeProducers" in after[: after.index("AddPartitionsToTxn")]
    assert raw.visible() == ["x"] * 4 + ["y"] * 4


def test_a_rival_is_met_once_and_the_second_time_it_is_one(raw: Raw) -> None:
    """A commit that finds its transaction aborted too early for the timeout: once may be a late request, twice in a row
    is an owner at work.
    """
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        for _ in range(3):
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
        for expected in (semel.AbortAndRetry, None, semel.AbortAndRetry, semel.Fenced):
            txn = producer.transaction()
            txn.send(raw.topic, ROWS)
            if expected is None:
                txn.commit()
            else:
                abort_from_outside(raw)
                with pytest.raises(expected):
                    txn.commit()
        with pytest.raises(semel.Fenced):
            producer.take_over()
    assert raw.visible() == ["x"] * 4 + ["y"] * 4


def test_a_participant_that_is_dropped_in_the_middle_leaves_no_answers_behind(raw: Raw) -> None:
    """What it had under way is answered to nobody; the next one on this client gets its own answers."""
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        for number in range(5):
            dropped = producer.transaction()
            (ticket,) = dropped.tickets([raw.at(0, 1)])
            participant = cluster.participant(ticket)
            participant.write(raw.topic, ROWS)
            del participant
            gc.collect()
            dropped.abort()
            with producer.transaction() as txn:
                (ticket,) = txn.tickets([raw.at(0, 1)])
                with cluster.participant(ticket) as participant:
                    participant.write(raw.topic, pa.table({"value": [f"{number}"] * 3, "partition": [0, 0, 1]}))
                txn.accept([participant.receipt])
                wrote = participant.receipt.wrote
                assert [wrote[where].records for where in raw.at(0, 1)] == [2, 1]
    assert raw.visible(0) == [f"{number}" for number in range(5) for _ in range(2)]
    assert raw.visible(1) == [f"{number}" for number in range(5)]


def test_what_a_participant_finds_ended_is_looked_into_by_its_owner(raw: Raw) -> None:
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        for _ in range(3):
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)

        def found_ended() -> None:
            with producer.transaction() as txn:
                (ticket,) = txn.tickets([raw.at(0, 1)])
                with cluster.participant(ticket) as participant:
                    participant.send(raw.topic, ROWS)
                    abort_from_outside(raw)
                    participant.send(raw.topic, ROWS)

        with pytest.raises(semel.AbortAndRetry, match=r"ABORTED_BY_RIVAL.*another owner was here"):
            found_ended()
        with pytest.raises(semel.Fenced):
            found_ended()
    assert raw.visible() == ["x"] * 3 + ["y"] * 3


def test_a_fenced_owner_does_not_fence_back(raw: Raw) -> None:
    with (
        semel.Cluster({"bootstrap.servers": raw.servers}) as cluster,
        cluster.producer(raw.id) as old,
        cluster.producer(raw.id) as new,
    ):
        old.take_over()
        new.take_over()
        with pytest.raises(semel.Fenced):
            old.transaction().send(raw.topic, ROWS)
        before = describe(raw.client, raw.id)
        with pytest.raises(semel.Fenced):
            old.take_over()
        assert describe(raw.client, raw.id) == before
        with new.transaction() as txn:
            txn.send(raw.topic, ROWS)
    assert raw.visible() == ["x", "y"]


def test_a_takeover_that_fails_half_way_is_done_again_from_the_start(raw: Raw) -> None:
    """Its InitProducerId is done, its markers are not seen: the next transaction takes over first."""
    with FaultProxy(raw.servers) as proxy:
        properties = {
            "bootstrap.servers": proxy.bootstrap_servers,
            "request.timeout.ms": 500,
            "delivery.timeout.ms": 4_000,
        }
        with semel.Cluster(properties) as cluster, cluster.producer(raw.id) as producer:
            producer.take_over([raw.topic])
            held = [proxy.delay_request("DescribeProducers", n) for n in range(1, 20)]
            with pytest.raises(semel.AbortAndRetry, match="PARTITION_AWAY"):
                producer.take_over([raw.topic])
            for fault in held:
                fault.release()
            before = len(proxy.log)
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
            after = [seen.api for seen in proxy.log[before:]]
            assert after.index("InitProducerId") < after.index("DescribeProducers") < after.index("AddPartitionsToTxn")
    assert raw.visible() == ["x", "y"]


@pytest.mark.parametrize(("whose", "error"), [("a rival's", semel.Fenced), ("another's", semel.AbortAndRetry)])
def test_offsets_that_stay_pending(
    raw: Raw, whose: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While taking over: an owner that came in between is told from a transaction that has nothing to do with us
    (PROTOCOL 2.5).
    """
    partition = (raw.topic, 0)
    properties = {"bootstrap.servers": raw.servers, "request.timeout.ms": 500, "delivery.timeout.ms": 4_000}
    with semel.Cluster(properties) as cluster:
        with cluster.producer(raw.id) as first, first.transaction() as txn:
            at = KafkaSource(raw.client.cluster, {raw.topic: TopicEnd(topic_id(raw.client, raw.topic), {0: 7})})
            txn.send_offsets({partition: 7}, raw.group)
            txn.commit(Progress(batch=0, sources=(at,)))
        owner = raw.id
        if whose != "a rival's":
            raw.id += "-other"

        def meanwhile(step: Step, detail: str) -> None:
            if step is OwnerStep.MARKERS_CHECKED and detail == owner:
                assert raw.commit_offset(raw.init(), 9) == 0

        monkeypatch.setattr(semel.steps, "_observer", meanwhile)
        with cluster.producer(owner) as second, pytest.raises(error):
            second.take_over([raw.topic], raw.group)


def test_a_commit_of_nothing_ends_what_it_may_have_begun(raw: Raw) -> None:
    """Partitions were asked for and no answer came, so it may be open; the next one must not go on in it."""
    with FaultProxy(raw.servers) as proxy:
        properties = {
            "bootstrap.servers": proxy.bootstrap_servers,
            "request.timeout.ms": 1_000,
            "delivery.timeout.ms": 6_000,
        }
        with semel.Cluster(properties) as cluster, cluster.producer(raw.id) as producer:
            producer.take_over([raw.topic])
            held = [proxy.delay_reply("AddPartitionsToTxn", n) for n in range(1, 40)]
            with producer.transaction() as txn:
                with pytest.raises(semel.Retriable):
                    txn.tickets([raw.at(0)])
                for fault in held:
                    fault.release()
            told = describe(raw.client, raw.id)
            assert told is not None
            assert told.state in ("PrepareAbort", "CompleteAbort")
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
    assert raw.visible() == ["x", "y"]


def test_a_progress_topic_that_is_deleted_under_a_living_owner(raw: Raw) -> None:
    """The broker answers as for a topic that it has not heard of yet, until the time is up: then it is said what has
    happened.
    """
    kept = f"{raw.id}-progress"
    short = {"bootstrap.servers": raw.servers, "delivery.timeout.ms": 4_000, "request.timeout.ms": 2_000}

    def work() -> None:
        with semel.Cluster(short) as cluster, cluster.producer(raw.id, progress_topic=kept) as producer:
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
                delete(raw.servers, kept)

    with pytest.raises(semel.DataLoss, match=rf"PROGRESS_LOST.*'{kept}' was deleted") as found:
        work()
    assert "Closing its producer" in found.value.__notes__[-1]
    assert raw.visible() == ["x", "y"]


def test_only_partitions_with_rows_get_a_marker(kafka: Sandbox) -> None:
    raw = Raw(kafka.bootstrap_servers, partitions=60)

    def ends() -> list[int]:
        latest = list_offsets(raw.client, dict.fromkeys(raw.at(*range(60)), LATEST), read_committed=True)
        return [latest[partition].offset for partition in raw.at(*range(60))]

    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        with producer.transaction() as txn:
            for _ in range(3):
                txn.send(raw.topic, pa.table({"key": ["same"], "value": ["x"]}))
        producer.wait_visible()
        assert sorted(ends()) == [0] * 59 + [4], "three rows and one marker"
        with producer.transaction() as txn:  # one of each of two partitions, that of the second call not known before
            txn.send(raw.topic, pa.table({"value": ["y"], "partition": [0]}))
            txn.send(raw.topic, pa.table({"value": ["y"], "partition": [1]}))
            with pytest.raises(semel.ConfigError, match="OVERLAP"):
                txn.tickets([raw.at(2)])
        producer.wait_visible()
        assert sum(ends()) == 4 + 4
        with producer.transaction() as txn:  # the control: tickets are for tasks elsewhere, which may write all of them
            tickets = txn.tickets([raw.at(*range(60))])
            txn.withdraw(tickets)
        producer.wait_visible()
        assert sum(ends()) == 4 + 4 + 60
    raw.close()


def test_one_writer_adds_what_it_writes(kafka: Sandbox) -> None:
    """Its partitions' leaders add them; what an aborted writer may have added is awaited as well."""
    raw = Raw(kafka.bootstrap_servers, partitions=60)
    everywhere = raw.at(*range(60))
    row = pa.table({"key": ["same"], "value": ["x"]})
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        with producer.transaction() as txn:
            (ticket,) = txn.tickets([everywhere], one_writer=True)
            participant = cluster.participant(ticket)
            participant.send(raw.topic, row)
            txn.accept([participant.receipt])
        producer.wait_visible()
        latest = list_offsets(raw.client, dict.fromkeys(everywhere, LATEST), read_committed=True)
        assert sorted(at.offset for at in latest.values()) == [0] * 59 + [2]
        with producer.transaction() as txn:
            (ticket,) = txn.tickets([everywhere], one_writer=True)
            participant = cluster.participant(ticket)
            participant.send(raw.topic, row)
            txn.abort()
        producer.wait_visible()
        assert not any(open_transactions(raw.client, everywhere).values())
        with pytest.raises(semel.SemelError):
            participant.send(raw.topic, row)
        with producer.transaction() as txn:
            txn.send(raw.topic, row)
    assert raw.visible() == ["x", "x"]
    raw.close()


def test_a_transaction_that_expires_between_two_sends_says_so_once(raw: Raw) -> None:
    """The second one adds a partition: that refusal has ended the transaction already."""
    ended: list[bool] = []

    def is_over() -> bool:
        found = describe(raw.client, raw.id)
        return found is not None and found.state == "CompleteAbort"

    quick = ClientConfig.parse({"bootstrap.servers": raw.servers, "transaction.timeout.ms": 1_000})
    with Client(quick) as client, Producer(client, raw.id, on_end=ended.append) as producer:
        txn = producer.transaction()
        txn.send(raw.topic, pa.table({"value": ["lost"], "partition": [0]}))
        wait_for(is_over, "the timeout of the transaction")
        with pytest.raises(semel.AbortAndRetry, match="EXPIRED"):
            txn.send(raw.topic, pa.table({"value": ["lost"], "partition": [1]}))
        with producer.transaction() as again:
            again.send(raw.topic, ROWS)
    assert ended == [False, True]
    assert raw.visible() == ["x", "y"]
