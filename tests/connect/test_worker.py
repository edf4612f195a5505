"""A worker on one Spark: connectors of one's own, offsets that others wrote, and tasks that do not behave."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from semel.connect.worker import Worker
from semel.errors import ConfigError
from semel.records.partitioner import partition_for
from semel.runtime.supervisor import State
from semel.sandbox import Sandbox
from semel.sandbox.processes import alive
from semel.testing.records import arrived, read
from tests import topics
from tests.connect.support.place import PARTITIONS, Place
from tests.kafka.support.other_client import Transactional, produce
from tests.waiting import wait_for


@pytest.fixture
def place(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Place:
    return Place(spark, kafka.bootstrap_servers, tmp_path)


def test_a_connector_of_ones_own_goes_on_where_it_stopped(place: Place) -> None:
    for limit in (95, 130):
        with place.running(place.numbers(limit)) as running:
            place.wait_arrived(limit)
        assert running.states[f"{place.name}-0"].state is State.STOPPED
    rows = read(place.servers, [place.topic], {"value": "value", "key": "key"}).to_pylist()
    assert sorted(int(row["value"]) for row in rows) == list(range(130))
    for row in rows:
        assert row["key"] == f"k{int(row['value']) % 7}"
        assert row["partition"] == partition_for(pa.array([row["key"]]), 3, 0)[0]
    consumer = Consumer({"bootstrap.servers": place.servers, "group.id": "none"})
    consumer.assign([TopicPartition(place.topic, 0, 0)])
    message = consumer.consume(1, 30)[0]
    consumer.close()
    assert message.timestamp()[1] == 1_000 + int(message.value())
    assert message.headers() == [("number", message.value()), ("raw", b"\xff"), ("none", None)]


@pytest.mark.parametrize("exactly_once", [True, False])
def test_offsets_that_kafka_connect_wrote(place: Place, exactly_once: bool) -> None:
    """Its record counts, written in a transaction of the same id or in none, and its spelling of a source partition is
    kept.
    """
    key = b'["%s",{"base":10,"name":"numbers"}]' % place.name.encode()
    with place.running(place.lines()):  # has the topic made
        pass
    row = {"key": key, "value": b'{"next":40}', "partition": place.place_of(key)}
    if exactly_once:
        other = Transactional(place.servers, f"{place.worker['group.id']}-{place.name}-0")
        other.write(place.offsets, [row])
        other.end(commit=True)
    else:
        produce(place.servers, place.offsets, [row])
    with place.running(place.numbers(60)):
        place.wait_arrived(20)
    assert sorted(map(int, place.values())) == list(range(40, 60))
    rows = read(place.servers, [place.offsets], {"key": "key", "value": "value"}, missing="").to_pylist()
    kept = [row for row in rows if row["value"]]
    assert {row["key"] for row in kept} == {key.decode()}
    if exactly_once:
        assert [row["value"] for row in kept[1:]] == ['{"next":50}', '{"next":60}'], "one for each poll"
    assert (kept[-1]["value"], kept[-1]["partition"]) == ('{"next":60}', place.place_of(key))


def test_what_is_open_under_its_own_key_is_waited_for_and_others_are_not(place: Place) -> None:
    key = b'["%s",{"name":"numbers","base":10}]' % place.name.encode()
    with place.running(place.lines()):
        pass
    theirs, ours = (Transactional(place.servers, f"{place.name}-{who}") for who in ("theirs", "ours"))
    for index in range(PARTITIONS):
        theirs.write(place.offsets, [{"key": b'["another",{"a":1}]', "value": b'{"n":1}', "partition": index}])
    ours.write(place.offsets, [{"key": key, "value": b'{"next":70}', "partition": place.place_of(key)}])
    with place.running(place.numbers(80)) as running:
        running.wait_state(f"{place.name}-0", State.RUNNING)
        wait_for(lambda: _claims(place) >= PARTITIONS + 3, "that it looks again")
        assert arrived(place.servers, place.topic) == 0
        ours.end(commit=True)
        place.wait_arrived(10)
    theirs.end(commit=False)
    assert sorted(map(int, place.values())) == list(range(70, 80))


def _claims(place: Place) -> int:
    """How many records came behind those of the start before and of the two transactions: claims, all of them."""
    consumer = Consumer({"bootstrap.servers": place.servers, "group.id": "none", "isolation.level": "read_uncommitted"})
    try:
        partitions = [TopicPartition(place.offsets, index) for index in range(PARTITIONS)]
        ends = [int(consumer.get_watermark_offsets(partition, 30)[1]) for partition in partitions]
    finally:
        consumer.close()
    return sum(ends) - 2 * PARTITIONS - 1


def test_what_does_not_behave_fails_with_its_trace_and_harms_no_other(place: Place) -> None:
    place.file.write_text("one\ntwo\n")
    reasons = {
        "raise": "LookupError: the table is gone",
        "exit": "SystemExit: 3",
        "nonsense": "[SEMEL_POLL_RESULT]",
        "nested": "[SEMEL_OFFSET_FORM]",
    }
    with place.running(place.lines(), *(place.numbers(20, then, name=then) for then in reasons)) as running:
        for then, reason in reasons.items():
            failed = running.wait_state(f"{then}-0", State.FAILED)
            assert reason in failed.reason
            assert "Traceback" in failed.trace
        place.wait_arrived(82)
        with place.file.open("a") as file:
            file.write("three\n")
        place.wait_arrived(83)
        assert running.states["lines-0"].launches == 1
    assert sorted(place.values()) == sorted([*map(str, range(20))] * 4 + ["one", "two", "three"])


def test_a_blocked_poll_does_not_block_the_end(place: Place) -> None:
    with place.running(place.numbers(10, "block"), task_shutdown_graceful_timeout_ms="300") as running:
        place.wait_arrived(10)
        pid = int(running.states[f"{place.name}-0"].where.rpartition(":")[2])
    wait_for(lambda: not alive(pid), "the end of its process")


@pytest.mark.parametrize(
    ("spoil", "tag"),
    [
        (lambda file: os.truncate(file, 3), "FILE_TRUNCATED"),
        (
            lambda file: (file.with_suffix(".new").write_text("x" * 100), file.with_suffix(".new").replace(file)),
            "FILE_REPLACED",
        ),
    ],
)
def test_a_file_that_is_not_what_it_was_stops_the_task(place: Place, spoil: Callable[[Path], object], tag: str) -> None:
    place.file.write_text("one\ntwo\nand no end")
    with place.running(place.lines()) as running:
        place.wait_arrived(2)
        spoil(place.file)
        assert f"[SEMEL_{tag}]" in running.wait_state("lines-0", State.FAILED).reason
    assert sorted(place.values()) == ["one", "two"]


def test_topics_that_are_missing_or_its_own(place: Place) -> None:
    missing, own = place.numbers(10, topic="no-such-topic"), place.numbers(10, name="own", topic=place.offsets)
    with place.running(missing, own) as running:
        assert "no-such-topic" in running.wait_state(f"{place.name}-0", State.FAILED).reason
        assert "may not produce to their own offsets topics" in running.wait_state("own-0", State.FAILED).reason


def test_an_offsets_topic_that_could_lose_offsets_is_refused(place: Place) -> None:
    topics.create(place.servers, place.offsets, 1)
    with pytest.raises(ConfigError, match=r"cleanup\.policy=delete"):
        Worker(place.worker, [place.lines()]).prepare()
