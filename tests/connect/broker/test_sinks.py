"""Sinks on a real broker: what arrives in the target, what is left out, and which offsets are committed.

Each has a worker and topics of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from semel.processes.supervisor import State
from semel.sandbox import Sandbox
from semel.testing.records import arrived, read
from tests.connect.support.collecting import BACK, UNWANTED, noted, records
from tests.connect.support.place import Place
from tests.connect.support.running import Running
from tests.support import topics
from tests.support.other_client import produce, values
from tests.support.waiting import wait_for

COLLECTING = "tests.connect.support.collecting.Collecting"
JSON, BYTES = "org.apache.kafka.connect.json.JsonConverter", "ByteArrayConverter"
#: The connectors that note what they get: their settings but for their names and topics.
SINKS: dict[str, dict[str, str]] = {
    "moving": {"tasks.max": "2", "consumer.override.session.timeout.ms": "6000"},
    "retrying": {"how": "retry"},
    "rewinding": {"how": "rewind"},
    "turns": {"how": "turns", "consumer.override.max.poll.records": "1"},
    "dead": {
        "how": "report",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "letters-of-sinks",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    },
    "schemas": {
        "value.converter": JSON,
        "transforms": "rename,route",
        "transforms.rename.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.rename.renames": "a:b",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "routed",
    },
    "refusing": {"value.converter": JSON, "value.converter.schemas.enable": "false"},
}


class Sink:
    """A worker with one of the sink."""

    def __init__(self, place: Place, name: str, folder: Path) -> None:
        self.place, self.folder, self.name = place, folder, f"{name}-of-{place.name}"
        self.topic = topics.create(place.servers, self.name, 3)
        shared = {"name": self.name, "connector.class": COLLECTING, "topics": self.topic, "folder": str(folder)}
        self.config = {**shared, **SINKS[name]}
        self.running: Running

    def produce(self, rows: list[dict[str, Any]]) -> None:
        produce(self.place.servers, self.topic, rows)

    def wait(self, count: int) -> list[dict[str, Any]]:
        wait_for(lambda: len(records(self.folder)) >= count, lambda: f"{noted(self.folder)} {self.running.states}")
        return records(self.folder)


@pytest.fixture
def place(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Place:
    return Place(spark, kafka.bootstrap_servers, tmp_path)


@pytest.fixture
def sink(place: Place, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sink]:
    made = Sink(place, request.param, tmp_path)
    with place.running(made.config, offset_flush_interval_ms="100") as running:
        made.running = running
        yield made


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("sink", [name], indirect=True)


def test_values_of_a_pattern_s_topics_become_lines_of_a_file(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    one, other = f"a-of-{place.name}", f"b-of-{place.name}"
    topics.create(place.servers, one)
    produce(place.servers, one, values(10))
    file = {"connector.class": "FileStreamSink", "file": str(out), "topics.regex": f".-of-{place.name}"}
    pattern = {"name": place.name, **file, "consumer.override.metadata.max.age.ms": "500"}
    with place.running(pattern, offset_flush_interval_ms="100") as running:
        wait_for(lambda: out.exists() and len(out.read_text().splitlines()) >= 10, lambda: str(running.states))
        topics.create(place.servers, other)
        produce(place.servers, other, values(1, "other"))
        wait_for(lambda: "other0" in out.read_text(), lambda: str(running.states))
    assert out.read_text() == "".join(f"v{number}\n" for number in range(10)) + "other0\n"


@of("retrying")
def test_a_batch_is_put_again_where_the_target_asks_for_it(sink: Sink) -> None:
    sink.produce(values(20))
    assert [one["value"] for one in sink.wait(20)] == [f"v{number}" for number in range(20)]


def test_a_batch_that_the_target_did_not_take_comes_again(place: Place, tmp_path: Path) -> None:
    """The connector is stopped while its task waits before the next try."""
    sink = Sink(place, "retrying", tmp_path)
    sink.produce(values(20))
    with place.running(sink.config | {"how": "refuse"}, offset_flush_interval_ms="100") as running:
        wait_for(lambda: len(noted(tmp_path)) > 2, lambda: str(running.states))
    with place.running(sink.config, offset_flush_interval_ms="100") as sink.running:
        assert [one["value"] for one in sink.wait(20)] == [f"v{number}" for number in range(20)]


@of("rewinding")
def test_a_task_goes_back(sink: Sink) -> None:
    sink.produce([*values(3), {"value": BACK}])
    expected = ["v0", "v1", "v2", BACK]
    assert [one["value"] for one in sink.wait(8)] == [*expected, *expected]


@of("turns")
def test_partitions_are_paused_and_resumed(sink: Sink) -> None:
    sink.produce(values(4, "a", partition=0) + values(4, "b", partition=1))
    found = [one["value"] for one in sink.wait(8)]
    assert sorted(found) == sorted([*(f"a{n}" for n in range(4)), *(f"b{n}" for n in range(4))])
    assert all(one[0] != other[0] for one, other in itertools.pairwise(found)), found


@of("dead")
def test_records_that_are_left_out_are_dead_letters(sink: Sink) -> None:
    bad, reported = b"{no json", json.dumps(UNWANTED).encode()
    headers = [("a", b"1")]
    sink.produce([{"value": b"1"}, {"value": bad, "key": b"k", "headers": headers}, {"value": b"2"}])
    sink.produce([{"value": reported, "key": b"r", "headers": headers}, {"value": b"3"}])
    assert [one["value"] for one in sink.wait(3)] == [1, 2, 3]
    topic = sink.config["errors.deadletterqueue.topic.name"]
    wait_for(lambda: arrived(sink.place.servers, topic) >= 2, "two letters")
    said = ("topic", "partition", "offset", "connector.name", "task.id", "stage")
    fields = {"key": "key", "value": "value", "a": "header:a"} | {one: f"header:__connect.errors.{one}" for one in said}
    letters = read(sink.place.servers, [topic], fields).sort_by("offset").to_pylist()
    place = {"topic": sink.topic, "partition": "0", "connector.name": sink.name, "task.id": "0"}
    assert letters == [
        {"key": "k", "value": bad.decode(), "a": "1", "offset": "1", "stage": "VALUE_CONVERTER", **place},
        {"key": "r", "value": reported.decode(), "a": "1", "offset": "3", "stage": "TASK_PUT", **place},
    ]


@of("refusing")
def test_a_record_that_cannot_be_read_fails_the_task(sink: Sink) -> None:
    sink.produce([{"value": b"1"}, {"value": b"{no json"}])
    text = sink.running.wait_state(f"{sink.name}-0", State.FAILED).reason
    assert f"{sink.topic}-0, offset 1" in text
    assert "The record was not put into the target" in text


@of("schemas")
def test_json_with_schemas_and_transformations(sink: Sink) -> None:
    schema = {"type": "struct", "optional": False, "fields": [{"field": "a", "type": "int32", "optional": True}]}
    rows = [json.dumps({"schema": schema, "payload": {"a": one}}) for one in (1, None, 3)]
    plain = json.dumps({"schema": None, "payload": {"a": 4}})
    sink.produce([{"value": one, "timestamp": 1000} for one in (*rows, plain)] + [{"key": "k"}])
    found = sink.wait(5)
    assert [one["value"] for one in found] == [{"b": 1}, {"b": None}, {"b": 3}, {"b": 4}, None]
    assert {one["topic"] for one in found} == {"routed"}
    assert [one["offset"] for one in found] == [0, 1, 2, 3, 4]
    assert found[0]["timestamp"] == 1000


@pytest.mark.exhaustive
@of("moving")
def test_partitions_move_between_tasks(sink: Sink) -> None:
    folder = sink.folder
    sink.produce([{"value": f"{n}", "partition": n % 3} for n in range(300)])
    sink.wait(300)

    def alone() -> list[Path]:
        return [one for one in sorted(folder.glob("*.jsonl")) if len(_last_opened(one)) in (1, 2)]

    wait_for(lambda: len(alone()) == 2, lambda: str(noted(folder)))
    victim = alone()[0]
    os.kill(int(victim.stem), signal.SIGKILL)
    sink.produce([{"value": f"{n}", "partition": n % 3} for n in range(300, 600)])
    wait_for(lambda: len({one["value"] for one in records(folder)}) == 600, lambda: str(sink.running.states))
    wait_for(lambda: len([one for one in alone() if one != victim]) == 2, lambda: str(noted(folder)))
    # at least once: what the victim put after its last commit may come twice, and nothing else
    twice = [one for one, count in Counter(row["value"] for row in records(folder)).items() if count > 1]
    moved = {one[1] for one in _last_opened(victim)}
    assert {int(one) % 3 for one in twice} <= moved


def _last_opened(file: Path) -> list[list[Any]]:
    lines = [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [one["opened"] for one in lines if "opened" in one][-1] if lines else []
