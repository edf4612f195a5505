"""Rows, partitions and topics that are gone, made again or left out while a streaming query reads."""

from __future__ import annotations

import json
import logging

import pytest

from semel.errors import ConfigError, DataLoss
from semel.spark.source_offset import parse
from semel.wire.client import Client
from tests.read.support.source_readers import Start, more, topic_numbers
from tests.read.support.source_runs import Row, add, numbers, texts
from tests.support.other_client import (
    delete,
    delete_records,
    topic_id,
)
from tests.support.topics import create
from tests.support.waiting import wait_for


@pytest.fixture
def topic() -> str:
    return f"source-{next(topic_numbers)}"


# ---- what is gone


def test_records_that_were_deleted_before_a_planned_batch_was_read(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 30)
    query = run([], subscribe=topic, startingOffsets="earliest")
    assert query.plan()
    delete_records(servers, topic, 0, 12)
    with pytest.raises(DataLoss, match=r"\[0, 12\): the log starts at 12"):
        query.read()
    again = run(query.log, subscribe=topic, failOnDataLoss=False)
    assert numbers(again.read(0)) == texts(12, 30)


def test_records_that_were_deleted_while_it_runs_are_missed_by_the_task(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    query = run([], subscribe=topic, startingOffsets="earliest")
    assert numbers(query.batch()) == texts(0, 10)
    add(servers, topic, 10, 30)
    delete_records(servers, topic, 0, 20)
    assert query.plan()
    with pytest.raises(DataLoss, match=r"\[10, 20\): the log starts at 20"):
        query.read()
    assert numbers(run(query.log, subscribe=topic, failOnDataLoss=False).read()) == texts(20, 30)


def test_a_topic_that_is_created_anew(
    servers: str, client: Client, topic: str, run: Start, caplog: pytest.LogCaptureFixture
) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    log: list[str] = []
    query = run(log, subscribe=topic, startingOffsets="earliest")
    assert numbers(query.batch()) == texts(0, 10)
    delete(servers, topic)
    create(servers, topic)
    add(servers, topic, 100, 130)
    strict = run(list(log), subscribe=topic)
    with pytest.raises(DataLoss, match=r"\[10, …\): the topic was deleted and created again"):
        strict.plan()
    assert strict.log == log, "nothing is logged"
    easy = run(log, subscribe=topic, failOnDataLoss=False)
    with caplog.at_level(logging.WARNING, "semel"):
        assert numbers(easy.batch()) == texts(100, 130), "more than the old one had, and from its start"
    assert "created again" in caplog.text
    logged = parse(log[-1]).topics[topic]
    assert (logged.id, dict(logged.began)) == (topic_id(client, topic), {0: 0})
    assert numbers(run(log, subscribe=topic).read()) == texts(100, 130), "a replay does not judge anew"


@pytest.mark.parametrize("available_now", [False, True])
def test_one_of_two_topics_is_deleted(
    servers: str, topic: str, run: Start, available_now: bool, caplog: pytest.LogCaptureFixture
) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        create(servers, name)
        add(servers, name, 0, 10)
    log: list[str] = []
    options = {"subscribe": f"{topic},{other}", "startingOffsets": "earliest"}
    query = run(log, **options)
    assert len(query.batch() or []) == 20
    delete(servers, other)
    add(servers, topic, 10, 20)
    with pytest.raises(DataLoss, match=rf"{other}-0 \[10, …\): the topic or partition does not exist any more"):
        run(list(log), **options, available_now=available_now).plan()
    easy = run(log, **options, failOnDataLoss=False, available_now=available_now)
    with caplog.at_level(logging.WARNING, "semel"):
        assert numbers(easy.batch()) == texts(10, 20)
    assert set(parse(log[-1]).topics) == {topic}
    add(servers, topic, 20, 30)
    assert numbers(easy.rest()) == ([] if available_now else texts(20, 30)), "what comes later is no more for this run"


def test_all_that_is_there_now_of_a_topic_that_never_was(topic: str, run: Start) -> None:
    with pytest.raises(ConfigError, match=rf"\[SEMEL_UNKNOWN_TOPIC\] topic {topic} does not exist"):
        run([], subscribe=topic, startingOffsets="earliest", available_now=True).plan()


def test_a_topic_that_the_options_leave_out_stops_the_query(topic: str, other: str, run: Start) -> None:
    """As with Spark's own source: a name may be mistyped, or the topic moved to another source of the query."""
    log: list[str] = []
    assert len(run(log, subscribe=f"{topic},{other}", startingOffsets="earliest").rest()) == 20
    before = list(log)
    with pytest.raises(DataLoss, match=rf"\[SEMEL_LEFT_OUT\].*was reading: {other}-0 at 10\. Nothing was read"):
        run(log, subscribe=topic).plan()
    assert log == before


def test_a_topic_that_the_options_leave_out_begins_as_new_when_it_is_named_again(
    servers: str, topic: str, other: str, run: Start, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []
    both = f"{topic},{other}"
    assert len(run(log, subscribe=both, startingOffsets="earliest").rest()) == 20
    for name in (topic, other):
        add(servers, name, 10, 20)
    with caplog.at_level(logging.WARNING, "semel"):
        without = run(log, subscribe=topic, failOnDataLoss=False)
        assert numbers(without.batch()) == texts(10, 20)
        add(servers, topic, 20, 30)
        assert numbers(without.batch()) == texts(20, 30)
    assert [record.message.count(f"{other}-0 at 10") for record in caplog.records] == [1], "said once"
    assert parse(log[-1]).topics.keys() == {topic}
    assert run(log, subscribe=topic).batch() is None, "it needs no consent any more"
    again = run(log, subscribe=both)
    assert [row[:3] for row in again.rest()] == [(other, 0, offset) for offset in range(20)]
    assert run(log, subscribe=both).batch() is None


def test_a_partition_that_the_options_leave_out_begins_as_new(servers: str, topic: str, run: Start) -> None:
    create(servers, topic, 2)
    add(servers, topic, 0, 20, partitions=2)
    log: list[str] = []
    assert len(run(log, subscribe=topic, startingOffsets="earliest").rest()) == 20
    add(servers, topic, 20, 40, partitions=2)
    with pytest.raises(DataLoss, match=rf"\[SEMEL_LEFT_OUT\].*{topic}-1 at 10"):
        run(log, assign=json.dumps({topic: [0]})).plan()
    assert {row[1] for row in run(log, assign=json.dumps({topic: [0]}), failOnDataLoss=False).rest()} == {0}
    assert sorted(row[1:3] for row in run(log, assign=json.dumps({topic: [0, 1]})).rest()) == [
        (1, offset) for offset in range(20)
    ]


@pytest.mark.parametrize("anew", [False, True])
def test_a_topic_that_the_options_leave_out_and_that_is_gone(
    servers: str, topic: str, other: str, run: Start, anew: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []
    assert len(run(log, subscribe=f"{topic},{other}", startingOffsets="earliest").rest()) == 20
    delete(servers, other)
    if anew:
        create(servers, other)
    with pytest.raises(DataLoss, match=rf"{other}-0 at 10"):
        run(log, subscribe=topic).plan()
    assert run(log, subscribe=topic, failOnDataLoss=False).batch() == []
    assert f"no longer include it: {other}-0 at 10" in caplog.records[-1].message
    assert set(parse(log[-1]).topics) == {topic}


def test_a_topic_of_which_a_part_is_left_out_is_created_anew(servers: str, topic: str, run: Start) -> None:
    """The place of the part that is left out is one of the old topic: it must not keep the new one from being read."""
    create(servers, topic, 2)
    add(servers, topic, 0, 20, partitions=2)
    log: list[str] = []
    assert len(run(log, subscribe=topic, startingOffsets="earliest").rest()) == 20
    part = run(log, assign=json.dumps({topic: [0]}), failOnDataLoss=False)
    assert part.batch() == []
    delete(servers, topic)
    create(servers, topic, 2)
    add(servers, topic, 0, 8, partitions=2)

    seen: list[Row] = []
    wait_for(lambda: len(more(seen, part.rest())) >= 4, "the new topic's rows")
    assert sorted(row[1:3] for row in seen) == [(0, offset) for offset in range(4)]


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_a_wrong_name_is_refused_although_the_checkpoint_has_another(
    topic: str, other: str, run: Start, fail_on_data_loss: bool
) -> None:
    log: list[str] = []
    assert len(run(log, subscribe=f"{topic},{other}", startingOffsets="earliest").rest()) == 20
    before = list(log)
    for wrong in ({"subscribe": f"{topic}-mistyped"}, {"assign": json.dumps({topic: [7]})}):
        with pytest.raises(ConfigError, match=r"\[SEMEL_UNKNOWN_(TOPIC|PARTITION)\]"):
            run(log, **wrong, failOnDataLoss=fail_on_data_loss).plan()
    assert log == before


def test_a_wrong_name_beside_a_right_one_is_refused(topic: str, other: str, run: Start) -> None:
    log: list[str] = []
    assert len(run(log, subscribe=topic, startingOffsets="earliest").rest()) == 10
    for wrong in ({"subscribe": f"{topic},{other}-mistyped"}, {"assign": json.dumps({topic: [0, 7]})}):
        with pytest.raises(ConfigError, match=r"\[SEMEL_UNKNOWN_(TOPIC|PARTITION)\]"):
            run(log, **wrong).plan()


def test_a_topic_that_is_found_later_and_does_not_start_at_0(servers: str, topic: str, run: Start) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        create(servers, name)
        add(servers, name, 0, 10)
    delete_records(servers, other, 0, 4)
    query = run([], subscribe=topic)
    assert query.batch() == []
    both = f"{topic},{other}"
    with pytest.raises(DataLoss, match=rf"{other}-0 \[0, 4\): it was found later"):
        run(list(query.log), subscribe=both).plan()
    assert numbers(run(query.log, subscribe=both, failOnDataLoss=False).batch()) == texts(4, 10)


def test_a_log_that_is_shorter_than_what_was_read(servers: str, topic: str, run: Start) -> None:
    """As after an unclean leader election: the checkpoint has read up to 50, and the log ends at 30."""
    create(servers, topic)
    add(servers, topic, 0, 30)
    query = run([], subscribe=topic)
    assert query.batch() == []
    beyond = [query.log[0].replace(": 30}", ": 50}")]
    with pytest.raises(DataLoss, match=r"\[30, 50\): the log ends at 30"):
        run(list(beyond), subscribe=topic).plan()
    easy = run(beyond, subscribe=topic, failOnDataLoss=False)
    assert easy.batch() == []
    add(servers, topic, 30, 35)
    assert numbers(easy.batch()) == texts(30, 35), "read on from where the log ends now"


def test_a_checkpoint_of_another_cluster_is_refused(servers: str, topic: str, run: Start) -> None:
    create(servers, topic)
    query = run([], subscribe=topic)
    assert query.batch() == []
    elsewhere = [query.log[0].replace(parse(query.log[0]).cluster, "elsewhere")]
    with pytest.raises(ConfigError, match=r"\[SEMEL_OTHER_CLUSTER\]"):
        run(elsewhere, subscribe=topic).plan()
