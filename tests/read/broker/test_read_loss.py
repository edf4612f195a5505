"""Rows that are gone: found before reading and while reading, told apart from rows that are only not to be seen."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from semel.config import ClientConfig
from semel.errors import DataLoss
from semel.read import NO_END, Loss, Range, Reader, check_ranges
from semel.wire.api.fetch import fetch
from semel.wire.api.fetch_frames import Position
from semel.wire.client import Client
from tests.support.other_client import (
    Transactional,
    delete,
    delete_records,
    oracle,
    produce,
    ranges,
    rows,
    topic_id,
    values,
)
from tests.support.topics import create


@pytest.fixture
def client(servers: str) -> Iterator[Client]:
    """One whose fetches are small, so that something can happen in the middle of a range."""
    with Client(ClientConfig.parse({"bootstrap.servers": servers, "max.partition.fetch.bytes": 1_000})) as opened:
        yield opened


def offsets(found: list[tuple[int, int, bytes | None, bytes | None]]) -> list[int]:
    return [row[1] for row in found]


def test_nothing_is_said_to_be_lost_that_is_only_not_visible(servers: str, client: Client) -> None:
    topic = create(servers, "whole")
    one = Transactional(servers, "whole")
    for commit in (False, True, False):
        one.write(topic, values(20))
        one.end(commit=commit)
    wanted = ranges(client, topic)
    checked = check_ranges(client, wanted, fail_on_data_loss=True)
    assert (checked.ranges, checked.lost) == (wanted, [])
    assert rows(Reader(client, wanted)) == oracle(servers, wanted)


def test_deleted_records_below_the_start(servers: str, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    topic = create(servers, "deleted-records")
    produce(servers, topic, values(100), batch_num_messages=10)
    wanted = ranges(client, topic)
    delete_records(servers, topic, 0, 30)
    message = r"\[SEMEL_OFFSETS_GONE\] .*deleted-records-0 \[0, 30\): the log starts at 30"
    with pytest.raises(DataLoss, match=message):
        check_ranges(client, wanted, fail_on_data_loss=True)
    with pytest.raises(DataLoss, match=message):
        rows(Reader(client, wanted))
    lost = [Loss(topic, 0, 0, 30, "the log starts at 30 (retention, or records were deleted)")]
    with caplog.at_level(logging.WARNING, "semel"):
        checked = check_ranges(client, wanted, fail_on_data_loss=False)
    assert (checked.ranges, checked.lost) == ([Range(topic, wanted[0].topic_id, 0, 30, 100)], lost)
    assert "deleted-records-0 [0, 30)" in caplog.text
    reader = Reader(client, wanted, fail_on_data_loss=False)
    assert offsets(rows(reader)) == list(range(30, 100))
    assert (reader.lost, reader.positions) == (lost, {(topic, 0): 100})


def test_a_range_that_is_gone_as_a_whole(servers: str, client: Client) -> None:
    topic = create(servers, "gone")
    produce(servers, topic, values(100))
    delete_records(servers, topic, 0, 60)
    wanted = [Range(topic, topic_id(client, topic), 0, 10, 50)]
    reader = Reader(client, wanted, fail_on_data_loss=False)
    assert rows(reader) == []
    assert [(loss.start, loss.end) for loss in reader.lost] == [(10, 50)]
    assert reader.positions == {(topic, 0): 50}


def test_records_deleted_in_the_middle_of_reading(servers: str, client: Client) -> None:
    topic = create(servers, "overtaken")
    produce(servers, topic, [{"value": b"%d" % i * 400} for i in range(100)], batch_num_messages=1)
    wanted = ranges(client, topic)
    for fail in (True, False):
        reader = Reader(client, wanted, fail_on_data_loss=fail)
        batches = iter(reader)
        if fail:
            first = offsets(rows([next(batches)]))
            delete_records(servers, topic, 0, 40)
            with pytest.raises(DataLoss, match="the log starts at 40"):
                list(batches)
            assert reader.positions[topic, 0] < 40
            assert first[0] == 0
            wanted = [Range(topic, wanted[0].topic_id, 0, 40, 100)]
        else:
            first = offsets(rows([next(batches)]))
            delete_records(servers, topic, 0, 80)
            seen = first + offsets(rows(batches))
            (loss,) = reader.lost
            assert seen == [*range(40, loss.start), *range(80, 100)]


def test_an_end_beyond_the_end_of_the_log(servers: str, client: Client) -> None:
    topic = create(servers, "cut")
    produce(servers, topic, values(10))
    name = topic_id(client, topic)
    for start, lost in ((0, (10, 25)), (10, (10, 25)), (12, (12, 25))):
        wanted = [Range(topic, name, 0, start, 25)]
        with pytest.raises(
            DataLoss, match=rf"cut-0 \[{lost[0]}, 25\): the log ends at 10 \(it was cut, or has never gone as far\)"
        ):
            rows(Reader(client, wanted))
        reader = Reader(client, wanted, fail_on_data_loss=False)
        assert offsets(rows(reader)) == list(range(start, 10))
        assert [(loss.start, loss.end) for loss in reader.lost] == [lost]
    with pytest.raises(DataLoss, match=r"cut-0 \[10, 12\): the log ends at 10"):
        next(iter(Reader(client, [Range(topic, name, 0, 12, NO_END)])))


def test_another_history_below_the_position_is_seen_by_the_leader_epoch(servers: str, client: Client) -> None:
    """One broker cannot lose an epoch, so it is told that a later one was read: it answers that it does not know that
    history.
    """
    topic = create(servers, "history")
    produce(servers, topic, values(10))
    known = client.topics({topic})[topic]
    node = known.partitions[0].leader
    answers = {
        last_epoch: fetch(client, node, {(topic, 0): Position(known.id, 5, 0, last_epoch)}, read_committed=True)[
            topic, 0
        ]
        for last_epoch in (-1, 0, 3)
    }
    assert [(answer.code, len(answer.records) > 0) for answer in answers.values()] == [(0, True), (0, True), (1, False)]


def test_a_topic_that_was_deleted(servers: str, client: Client) -> None:
    topic = create(servers, "deleted")
    produce(servers, topic, values(10))
    wanted = ranges(client, topic)
    delete(servers, topic)
    with pytest.raises(DataLoss, match=r"deleted-0 \[0, 10\): the topic or partition does not exist any more"):
        rows(Reader(client, wanted))
    with Client(client.config) as stranger, pytest.raises(DataLoss, match=r"deleted-0 \[0, 10\)"):
        rows(Reader(stranger, wanted))
    reader = Reader(client, wanted, fail_on_data_loss=False)
    assert rows(reader) == []
    assert [(loss.start, loss.end) for loss in reader.lost] == [(0, 10)]


def test_a_topic_that_was_deleted_and_created_again(servers: str, client: Client) -> None:
    """By name the offsets exist: only the topic's id tells that they are other rows."""
    topic = create(servers, "again")
    produce(servers, topic, values(10))
    wanted = ranges(client, topic)
    delete(servers, topic)
    create(servers, topic)
    produce(servers, topic, values(20, "new"))
    with pytest.raises(
        DataLoss, match=f"again-0 .* created again: its id was {wanted[0].topic_id} and is {topic_id(client, topic)}"
    ):
        rows(Reader(client, wanted))
    with pytest.raises(DataLoss, match="created again"):
        check_ranges(client, wanted, fail_on_data_loss=True)
    reader = Reader(client, wanted, fail_on_data_loss=False)
    assert rows(reader) == []
    assert [(loss.start, loss.end) for loss in reader.lost] == [(0, 10)]
    endless = Reader(client, [Range(topic, wanted[0].topic_id, 0, 3, NO_END)], fail_on_data_loss=False)
    assert next(iter(endless)).column("value").to_pylist()[0] == b"new0"


def test_a_topic_created_again_in_the_middle_of_reading(servers: str, client: Client) -> None:
    topic = create(servers, "meanwhile")
    produce(servers, topic, [{"value": b"%d" % i * 400} for i in range(100)], batch_num_messages=1)
    batches = iter(Reader(client, ranges(client, topic)))
    next(batches)
    delete(servers, topic)
    create(servers, topic)
    produce(servers, topic, [{"value": b"new%d" % i * 400} for i in range(100)], batch_num_messages=1)
    seen: list[bytes] = []
    with pytest.raises(DataLoss, match="created again"):
        seen.extend(value for batch in batches for value in batch.column("value").to_pylist())
    assert not any(value.startswith(b"new") for value in seen)


def test_a_partition_that_is_not_there(servers: str, client: Client) -> None:
    topic = create(servers, "one-partition")
    with pytest.raises(DataLoss, match=r"one-partition-4 \[0, 5\): the topic or partition does not exist any more"):
        rows(Reader(client, [Range(topic, topic_id(client, topic), 4, 0, 5)]))
