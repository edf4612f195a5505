"""What a real broker does with raw requests: the facts that shared transactions rest on.

One test for each fact; none of them runs the code of the owner. A race is repeated until it is seen, within a bound.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from kafka.protocol.producer import ProduceRequest

from semel.config import ClientConfig
from semel.records.codecs import Codec
from semel.records.encode import encode
from semel.sandbox import Sandbox
from semel.wire.api import transactions
from semel.wire.api.describe_transactions import describe
from semel.wire.api.produce import Appender
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from tests.support.raw_producer import (
    CONCURRENT,
    FENCED,
    INVALID_EPOCH,
    INVALID_STATE,
    OUT_OF_ORDER,
    UNSTABLE,
    Raw,
    versions,
)
from tests.support.waiting import wait_for

#: How often a race is run before it counts as impossible.
RACES = 400
#: Enough partitions for the coordinator to be busy for a moment after it has answered.
MANY = 60


@pytest.fixture
def raw(kafka: Sandbox) -> Iterator[Raw]:
    made = Raw(kafka.bootstrap_servers, partitions=4)
    yield made
    made.close()


@pytest.fixture
def wide(kafka: Sandbox) -> Iterator[Raw]:
    made = Raw(kafka.bootstrap_servers, partitions=MANY)
    yield made
    made.close()


# ---- one transaction, several writers


def _write_from_a_process(servers: str, topic: str, identity: Identity, index: int) -> None:
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        appender = Appender(client, {topic: client.topics({topic})[topic].id}, identity.transactional_id)
        for number in range(3):
            rows = _rows([f"{index}-{number}"])
            batches = encode(
                rows,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                base_sequence=number,
                transactional=True,
            )
            appender.submit(((topic, index), batch) for batch in batches)
        appender.flush()


def test_four_processes_write_in_one_transaction_and_one_request_commits_them(raw: Raw) -> None:
    identity = raw.init()
    assert raw.add(identity, 0, 1, 2, 3) == 0
    _rows([""])  # pyarrow imports much more behind its first array: once here, not in each process
    fork = multiprocessing.get_context("fork")
    writers = [
        fork.Process(target=_write_from_a_process, args=(raw.servers, raw.topic, identity, index)) for index in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert raw.ends()[0] == 0
    assert raw.end(identity, commit=True)[0] == 0
    assert raw.visible() == [f"{index}-{number}" for index in range(4) for number in range(3)]


def test_a_connection_that_never_initialised_may_write_and_end(raw: Raw) -> None:
    identity = raw.init()
    with Client(ClientConfig.parse({"bootstrap.servers": raw.servers})) as stranger:
        assert transactions.add_partitions(stranger, identity, raw.at(0), stranger.deadline()) == 0
        assert raw.produce(identity, ["x"], client=stranger) == (0, 0)
        assert transactions.end(stranger, identity, commit=True, deadline=stranger.deadline()).code == 0
    assert raw.visible() == ["x"]


def test_an_explicit_add_takes_all_partitions_at_once_and_writers_need_no_coordinator(raw: Raw) -> None:
    identity = raw.init()
    assert raw.add_once(identity, 0, 1, 2, 3) == 0
    before = describe(raw.client, raw.id)
    assert before is not None
    assert set(before.partitions) == set(raw.at(0, 1, 2, 3))
    assert raw.produce(identity, ["version 12"], index=2) == (0, 0)
    appender = Appender(raw.client, {raw.topic: raw.client.topics({raw.topic})[raw.topic].id}, raw.id)
    batches = encode(
        _rows(["version 13"]),
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=0,
        transactional=True,
    )
    appender.submit(((raw.topic, 3), batch) for batch in batches)
    appender.flush()
    assert describe(raw.client, raw.id) == before
    assert raw.end(identity, commit=True)[0] == 0


@pytest.mark.parametrize("added", [False, True], ids=["not-added", "added"])
def test_writers_that_start_at_once_are_sent_back(raw: Raw, added: bool) -> None:
    """The broker asks the coordinator about one request of a transaction at a time, also where all was added before.
    The next try is taken.
    """
    identity = raw.init()
    seen: set[int] = set()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(RACES):
            if added:
                assert raw.add(identity, 0, 1, 2, 3) == 0
            start = threading.Barrier(4)

            def first(index: int, identity: Identity = identity, start: threading.Barrier = start) -> int:
                start.wait()
                return raw.produce(identity, ["x"], index=index)[0]

            answers = list(pool.map(first, range(4)))
            seen.update(answers)
            for index, code in enumerate(answers):
                while code == 19:
                    code = raw.produce(identity, ["x"], index=index)[0]
                assert code == 0
            _, identity = raw.end(identity, commit=False)
            if 19 in seen:
                break
    assert seen == {0, 19}


# ---- sequences


def test_the_first_batch_of_an_epoch_has_sequence_0(raw: Raw) -> None:
    identity = raw.init()
    raw.add(identity, 0)
    assert raw.produce(identity, ["x"], sequence=0)[0] == 0
    _, identity = raw.end(identity, commit=True)
    raw.add(identity, 0)
    assert raw.produce(identity, ["y"], sequence=5)[0] == OUT_OF_ORDER
    assert raw.produce(identity, ["y"], sequence=0)[0] == 0


def test_a_partition_that_the_producer_id_never_touched_is_no_exception(raw: Raw) -> None:
    identity = raw.init()
    raw.add(identity, 1)
    assert raw.produce(identity, ["x"], index=1, sequence=5)[0] == OUT_OF_ORDER


def test_a_gap_is_refused(raw: Raw) -> None:
    identity = raw.init()
    raw.add(identity, 0)
    assert raw.produce(identity, ["a", "b"])[0] == 0
    assert raw.produce(identity, ["d"], sequence=3)[0] == OUT_OF_ORDER
    assert raw.produce(identity, ["c"], sequence=2)[0] == 0


def test_a_repeat_of_one_of_the_last_five_batches_is_known_again(raw: Raw) -> None:
    identity = raw.init()
    raw.add(identity, 0)
    for number in range(6):
        assert raw.produce(identity, [str(number)], sequence=number) == (0, number)
    for number in range(1, 6):
        assert raw.produce(identity, [str(number)], sequence=number) == (0, number)
    assert raw.produce(identity, ["0"], sequence=0)[0] != 0
    raw.end(identity, commit=True)
    assert raw.visible() == list("012345")


def test_an_identity_handed_out_twice_loses_the_second_ones_rows_silently(raw: Raw) -> None:
    identity = raw.init()
    raw.add(identity, 0)
    assert raw.produce(identity, ["first"]) == (0, 0)
    assert raw.produce(identity, ["other"]) == (0, 0)
    raw.end(identity, commit=True)
    assert raw.visible() == ["first"]


# ---- ending


def test_a_repeated_end_is_busy_and_then_answers_the_same_again(wide: Raw) -> None:
    identity = wide.init()
    busy = False
    for _ in range(RACES):
        wide.add(identity, *range(MANY))
        code, following = wide.end_once(identity, commit=True)
        assert code == 0
        assert (following.producer_id, following.epoch) == (identity.producer_id, identity.epoch + 1)
        code, _ = wide.end_once(identity, commit=True)
        busy = busy or code == CONCURRENT
        assert code in (0, CONCURRENT)
        assert wide.end(identity, commit=True) == (0, following)
        identity = following
        if busy:
            break
    assert busy


@pytest.mark.parametrize("commit", [True, False])
def test_the_opposite_end_afterwards_is_refused(raw: Raw, commit: bool) -> None:
    identity = raw.init()
    raw.add(identity, 0)
    raw.produce(identity, ["x"])
    assert raw.end(identity, commit=commit)[0] == 0
    raw.settled(0)
    for _ in range(2):
        assert raw.end(identity, commit=not commit)[0] == INVALID_STATE
    assert raw.visible() == (["x"] if commit else [])


def test_nothing_cannot_be_committed_but_aborted(raw: Raw) -> None:
    identity = raw.init()
    assert raw.end(identity, commit=True)[0] == INVALID_STATE
    assert raw.end(identity, commit=False) == (0, Identity(raw.id, identity.producer_id, identity.epoch + 1))


@pytest.mark.parametrize("how", ["end", "init"])
def test_an_old_epoch_is_refused(raw: Raw, how: str) -> None:
    identity = raw.init()
    raw.add(identity, 0)
    raw.produce(identity, ["x"])
    following = raw.end(identity, commit=True)[1] if how == "end" else raw.init()
    raw.settled(0)
    raw.add(following, 0)
    raw.produce(following, ["y"])
    for index in (0, 1):
        assert raw.produce(identity, ["z"], index=index)[0] == INVALID_EPOCH
    assert raw.add(identity, 0) == FENCED
    assert raw.end(identity, commit=False)[0] == FENCED
    assert raw.end(following, commit=True)[0] == 0
    assert raw.visible() == (["x", "y"] if how == "end" else ["y"])


def test_until_the_marker_lands_a_writer_still_gets_into_the_committed_transaction(wide: Raw, raw: Raw) -> None:
    """So nobody may hold a ticket and still write when the commit is sent.

    A partition of another topic is in the transaction, and busy with a batch that takes the broker long: its marker,
    and those behind it, come late.
    """
    identity = wide.init()
    long = raw.produce_request(None, ["x"] * 400_000, codec=Codec.GZIP).encode(version=12)
    busy = raw.client.connect(raw.leader(), purpose="busy")
    for number in range(RACES):
        wanted = [*wide.at(*range(MANY)), *raw.at(0)]
        assert transactions.add_partitions(wide.client, identity, wanted, wide.client.deadline()) == 0
        in_time = wide.once(wide.leader(), wide.produce_request(identity, ["in time"], *range(MANY)), 12, "produce")
        assert {int(row.error_code) for row in in_time.responses[0].partition_responses} == {0}
        late = wide.produce_request(identity, [f"late {number}"], *range(MANY), sequence=1).encode(version=12)
        connection = wide.client.connect(wide.leader(), purpose="produce")
        busy.send_raw([long], ProduceRequest, 12)
        code, following = wide.end_once(identity, commit=True)
        assert code == 0
        connection.send_raw([late], ProduceRequest, 12)
        rows = connection.receive().responses[0].partition_responses
        busy.receive()
        accepted = [int(row.index) for row in rows if row.error_code == 0]
        if accepted:
            break
        identity = following
    else:
        pytest.fail("the markers were always faster")
    wide.settled(*range(MANY))
    assert wide.visible(accepted[-1])[-1] == f"late {number}"


# ---- offsets in transactions


def test_offsets_join_a_transaction_by_themselves_and_may_be_all_of_it(raw: Raw) -> None:
    identity = raw.init()
    assert raw.commit_offset(identity, 42) == 0
    assert raw.end(identity, commit=True)[0] == 0
    wait_for(lambda: raw.offset_once(stable=True) == (0, 42), "the offset")


def test_offsets_of_an_aborted_transaction_are_not_committed(raw: Raw) -> None:
    identity = raw.init()
    assert raw.commit_offset(identity, 42) == 0
    assert raw.end(identity, commit=False)[0] == 0
    wait_for(lambda: raw.offset_once(stable=True) == (0, -1), "the end of the transaction")


def test_a_pending_offset_shows_only_if_it_is_named_and_must_be_stable(raw: Raw) -> None:
    identity = raw.init()
    assert raw.commit_offset(identity, 42) == 0
    assert raw.offset_once(stable=False) == (0, -1)
    assert raw.offset_once(stable=True)[0] == UNSTABLE
    assert raw.offset_once(stable=True, named=False) == (0, None)
    raw.end(identity, commit=True)


def test_right_after_a_commit_the_old_offset_may_still_be_answered(wide: Raw) -> None:
    identity = wide.init()
    seen: set[tuple[int, int | None]] = set()
    for number in range(1, RACES):
        wide.add(identity, *range(MANY))
        wide.commit_offset(identity, number)
        _, identity = wide.end_once(identity, commit=True)
        seen.add((number, wide.offset_once(stable=False)[1]))
        stable = wide.offset_once(stable=True)
        assert stable in ((0, number), (UNSTABLE, stable[1]))
        wait_for(partial(_stands_at, wide, number), "the marker")
        if any(found != committed for committed, found in seen):
            break
    assert any(found != committed for committed, found in seen)
    assert all(found in (committed, committed - 1, -1) for committed, found in seen)


def _stands_at(raw: Raw, offset: int) -> bool:
    return raw.offset_once(stable=True) == (0, offset)


def test_offsets_of_a_topic_that_is_not_there_are_refused(raw: Raw) -> None:
    identity = raw.init()
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
        raw.commit_offset(identity, 1, topic="never-created")
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
        raw.commit_offset(identity, 1, index=99)


# ---- rivals


def test_after_a_rival_both_ends_are_fenced_even_of_what_was_committed(raw: Raw) -> None:
    identity = raw.init()
    raw.add(identity, 0)
    raw.produce(identity, ["x"])
    raw.end(identity, commit=True)
    raw.settled(0)
    raw.init()
    assert raw.end(identity, commit=True)[0] == FENCED
    assert raw.end(identity, commit=False)[0] == FENCED
    assert raw.visible() == ["x"]


def test_a_late_init_with_a_stale_epoch_aborts_what_is_ongoing(raw: Raw) -> None:
    stale = raw.init()
    _, identity = raw.end(stale, commit=False)
    _, identity = raw.end(identity, commit=False)
    raw.add(identity, 0)
    raw.produce(identity, ["x"])
    codes: list[int] = []

    def late() -> bool:
        codes.append(raw.init_once(producer_id=stale.producer_id, epoch=stale.epoch)[0])
        return codes[-1] != CONCURRENT

    wait_for(late, "its answer")
    assert set(codes) == {CONCURRENT, FENCED}
    assert raw.end(identity, commit=True)[0] == INVALID_STATE
    assert raw.visible() == []


# ---- versions


def test_the_feature_is_finalised(kafka: Sandbox) -> None:
    assert versions(kafka.bootstrap_servers).features["transaction.version"] == 2


def _rows(values: list[str]) -> Any:
    return pa.table({"value": values})
