"""What callers do wrong, or do in forked children and threads: the owner refuses it, or loses nothing by it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

import semel
import semel.steps
from semel.sandbox import Sandbox
from semel.transaction.participant import Participant
from semel.transaction.producer import Producer
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.api.describe_transactions import open_transactions
from semel.wire.api.transactions import Identity
from tests.support.raw_producer import Raw

ROWS = pa.table({"value": ["x", "y"], "partition": [0, 1]})


@pytest.fixture
def raw(kafka: Sandbox) -> Iterator[Raw]:
    made = Raw(kafka.bootstrap_servers, partitions=2)
    yield made
    made.close()


def test_an_identity_is_never_used_for_two_transactions(raw: Raw) -> None:
    """Also after an abort: a bump stands between them (DESIGN rule 9)."""
    seen: set[Identity] = set()
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        for number in range(6):
            txn = producer.transaction()
            (ticket,) = txn.tickets([raw.at(0)])
            assert ticket.identity not in seen
            seen.add(ticket.identity)
            if number % 2:
                txn.withdraw([ticket])
                txn.commit()
            else:
                txn.abort()


def test_threads_that_share_a_participant_lose_nothing(raw: Raw) -> None:
    """A batch under a number that was given out before would be acknowledged as a repetition, and its rows dropped."""
    with (
        semel.Cluster({"bootstrap.servers": raw.servers}) as cluster,
        cluster.producer(raw.id) as producer,
        producer.transaction() as txn,
    ):
        (ticket,) = txn.tickets([raw.at(0)])
        participant = cluster.participant(ticket)
        with ThreadPoolExecutor(4) as pool:
            rows = [pa.table({"value": [f"{number}"] * 3, "partition": [0] * 3}) for number in range(200)]
            list(pool.map(lambda table: participant.write(raw.topic, table), rows))
        txn.accept([participant.receipt])
    assert sorted(raw.visible(), key=int) == [f"{number}" for number in range(200) for _ in range(3)]


def test_behind_its_receipt_a_participant_writes_nothing(raw: Raw) -> None:
    with (
        semel.Cluster({"bootstrap.servers": raw.servers}) as cluster,
        cluster.producer(raw.id) as producer,
        producer.transaction() as txn,
    ):
        (ticket,) = txn.tickets([raw.at(0, 1)])
        participant = cluster.participant(ticket)
        participant.send(raw.topic, ROWS)
        txn.accept([participant.receipt])
        with pytest.raises(semel.ConfigError, match="SEALED"):
            participant.send(raw.topic, ROWS)
    assert raw.visible() == ["x", "y"]


def test_a_forked_child_is_not_the_owner_and_not_the_participant(raw: Raw) -> None:
    """Two processes with one identity write under the same sequences: the broker would answer OK to both, and keep the
    rows of one.
    """

    def refused(child_of: Producer, participant: Participant) -> bool:
        tries = (
            child_of.transaction,
            child_of.wait_visible,
            lambda: participant.send(raw.topic, ROWS),
            lambda: participant.receipt,
        )
        tags = []
        for tried in tries:
            try:
                tried()
            except semel.ConfigError as error:
                tags.append(error.tag)
        child_of.close()  # as a ``with`` block does
        return tags == ["FORKED"] * len(tries)

    with (
        semel.Cluster({"bootstrap.servers": raw.servers}) as cluster,
        cluster.producer(raw.id) as producer,
        producer.transaction() as txn,
    ):
        (ticket,) = txn.tickets([raw.at(0, 1)])
        participant = cluster.participant(ticket)
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:  # nothing of pytest may run on in it
                status = 1
                with suppress(BaseException):
                    status = 0 if refused(producer, participant) else 2
                os._exit(status)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
        participant.send(raw.topic, ROWS)
        txn.accept([participant.receipt])
    assert raw.visible() == ["x", "y"]


def test_the_topic_of_the_progress_is_no_output(raw: Raw) -> None:
    """Of its one row and the progress record, both with sequence 0, the broker would keep the first, and answer OK to
    both.
    """
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        with pytest.raises(semel.ConfigError, match="PROGRESS_TOPIC"), producer.transaction() as txn:
            txn.send(DEFAULT_TOPIC, pa.table({"value": ["x"]}))
        with producer.transaction() as txn:
            txn.send(raw.topic, ROWS)
    assert raw.visible() == ["x", "y"]


def test_a_forked_child_does_not_speak_on_its_parents_connections(raw: Raw) -> None:
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster:
        with cluster.producer(raw.id) as producer, producer.transaction() as txn:
            txn.send(raw.topic, pa.table({"value": [str(i) for i in range(400)], "partition": [0] * 400}))

        def found(start: int) -> list[str]:
            batches = cluster.read(raw.topic, start={0: start, 1: 0}, end={0: start + 100, 1: 0})
            return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]

        assert len(found(0)) == 100  # connections are open
        children = []
        for number in range(3):
            child = os.fork()
            if child == 0:  # nothing of pytest may run on in it
                status = 1
                with suppress(BaseException):
                    wanted = [str(i) for i in range(100 * number, 100 * number + 100)]
                    status = 0 if all(found(100 * number) == wanted for _ in range(20)) else 2
                os._exit(status)
            children.append(child)
        for _ in range(20):
            assert found(300) == [str(i) for i in range(300, 400)]
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]


@pytest.mark.parametrize(
    ("tag", "ask"),
    [
        ("NO_TABLE", lambda txn, raw: txn.send(raw.topic, None)),
        ("NO_PARTITION", lambda txn, raw: txn.tickets([[(raw.topic, 1.0)]])),
        ("NO_PARTITION", lambda txn, raw: txn.tickets([[(raw.topic, True)]])),
        ("NO_PARTITION", lambda txn, raw: txn.tickets([[raw.topic]])),
        ("NO_OFFSET", lambda txn, raw: txn.send_offsets({(raw.topic, 0): -5}, raw.group)),
        ("NO_OFFSET", lambda txn, raw: txn.send_offsets({(raw.topic, 0): 2**70}, raw.group)),
        ("NO_OFFSET", lambda txn, raw: txn.send_offsets({(raw.topic, 0): True}, raw.group)),
    ],
)
def test_what_is_no_table_no_partition_and_no_offset_is_refused(
    raw: Raw, tag: str, ask: Callable[[Any, Raw], object]
) -> None:
    """Before anything of it is sent: an offset below 0 would be committed, and the next start would begin somewhere
    else.
    """
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        with pytest.raises(semel.ConfigError, match=tag), producer.transaction() as txn:
            ask(txn, raw)
        with producer.transaction() as txn:
            txn.send(raw.topic, ROWS)
    assert raw.visible() == ["x", "y"]


def test_closing_aborts_what_is_open(raw: Raw) -> None:
    """Left to its timeout, it would hold readers back for a quarter of an hour."""
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster:
        with cluster.producer(raw.id) as producer:
            producer.transaction().send(raw.topic, ROWS)
        assert not any(open_transactions(raw.client, raw.at(0)).values())
    assert raw.visible() == []


def test_after_refused_rows_nothing_is_committed(raw: Raw) -> None:
    """A caller that swallows the refusal would commit without these rows."""
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        txn = producer.transaction()
        txn.send(raw.topic, ROWS)
        with pytest.raises(semel.ConfigError, match="UNKNOWN_PARTITION"):
            txn.send(raw.topic, pa.table({"value": ["x"], "partition": [2]}))
        with pytest.raises(semel.AbortAndRetry, match="NO_RECEIPT"):
            txn.commit()
    assert raw.visible() == []
