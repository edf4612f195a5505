"""A worker on one Spark: connectors of one's own, offsets that others wrote, and tasks that do not behave."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from semel.connect.worker.worker import Worker
from semel.errors import ConfigError
from semel.processes.supervisor import State
from semel.records.partitioner import partition_for
from semel.sandbox import Sandbox
from semel.sandbox.processes import alive
from semel.testing.records import arrived, read
from tests.connect.support.numbers import Stuck
from tests.connect.support.place import PARTITIONS, Place
from tests.connect.support.rest import Rest
from tests.support import topics
from tests.support.other_client import Transactional, produce
from tests.support.waiting import wait_for

STUCK = "tests.connect.support.numbers.Stuck"


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


def test_connectors_that_block_hold_up_no_other(place: Place) -> None:
    """More of them than the driver works on at a time, and more requests than a server answers at a time."""
    Stuck.let_go.clear()
    stored = place.stored | {"listeners": "http://127.0.0.1:0"}
    with place.running(**stored, semel_connector_timeout_ms="600000") as running, ThreadPoolExecutor(50) as pool:
        rest = Rest("blocked", running.worker.addresses[0], place.servers, place.worker, place.file.parent)
        try:
            for number in range(9):
                stuck = place.numbers(1, name=f"stuck-{number}") | {"connector.class": f"{STUCK}"}
                assert rest.ask("PUT", f"/connectors/{stuck['name']}/config", stuck)[0] == 201
            at_once = place.numbers(1, name="none") | {"connector.class": f"{STUCK}AtOnce"}
            path = f"/connector-plugins/{STUCK}AtOnce/config/validate"
            validated = [pool.submit(rest.ask, "PUT", path, at_once) for _ in range(50)]
            assert rest.ask("PUT", f"/connectors/{place.name}/config", place.numbers(20))[0] == 201
            place.wait_arrived(20)
            assert rest.ask("PUT", f"/connectors/{place.name}/config", place.numbers(30))[0] == 200
            place.wait_arrived(30)
            assert rest.ask("PUT", f"/connectors/{place.name}/pause")[0] == 202
            rest.wait_states(place.name, "PAUSED", "PAUSED")
            assert not any(one.done() for one in validated)
            assert rest.states("stuck-0") == [], "it is still asked"
            running.worker.stop()
        finally:
            Stuck.let_go.set()
    assert sorted(map(int, place.values())) == list(range(30))


def test_what_a_connector_does_to_the_driver_is_its_own_failure(place: Place) -> None:
    Stuck.let_go.clear()
    stored = place.stored | {"listeners": "http://127.0.0.1:0"}
    with place.running(**stored, semel_connector_timeout_ms="500") as running:
        rest = Rest("blocked", running.worker.addresses[0], place.servers, place.worker, place.file.parent)
        try:
            _check_failures(place, rest)
            Stuck.let_go.set()  # what it answers now is too late
            assert rest.ask("PUT", f"/connectors/{place.name}/config", place.numbers(20))[0] == 201
            place.wait_arrived(20)
            assert rest.states("block") == ["FAILED"]
            assert rest.ask("POST", "/connectors/block/restart?includeTasks=true")[0] == 202
            rest.wait_states("block", "RUNNING", "RUNNING")
            place.wait_arrived(21)
        finally:
            Stuck.let_go.set()
    assert sorted(map(int, place.values())) == sorted([0, *range(20)])


def _check_failures(place: Place, rest: Rest) -> None:
    reasons = {
        "block": "tasks did not return within 500 ms",
        "exit": "tasks raised SystemExit: 3",
        "interrupt": "tasks raised KeyboardInterrupt",
        "nonsense": "tasks raised TypeError: a task's configuration is int",
    }
    for how, reason in reasons.items():
        given = place.numbers(1, name=how, how=how) | {"connector.class": STUCK}
        assert rest.ask("PUT", f"/connectors/{how}/config", given)[0] == 201
        rest.wait_states(how, "FAILED")
        trace = rest.ask("GET", f"/connectors/{how}/status")[1]["connector"]["trace"]
        assert reason in trace
        assert "in tasks" in trace or how == "nonsense", "the line where it stands, or stood"
    at_once = place.numbers(1, name="none") | {"connector.class": f"{STUCK}AtOnce"}
    for method, path in (
        ("PUT", "/connectors/none/config"),
        ("PUT", f"/connector-plugins/{STUCK}AtOnce/config/validate"),
        ("GET", f"/connector-plugins/{STUCK}AtOnce/config"),
    ):
        status, body = rest.ask(method, path, None if method == "GET" else at_once)
        assert status == 500
        assert "its constructor did not return within 500 ms" in body["message"]
