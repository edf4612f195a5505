"""A Singer tap that is killed between two STATEs, and its task: each record once. What else becomes of taps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from semel.connect.api import SourceBatch, TaskContext
from semel.connect.connectors.singer import SingerSource, SingerSourceTask
from semel.connect.settings.connector_config import ConnectorConfigParser
from semel.connect.settings.worker_config import WorkerConfig
from semel.errors import ConfigError, Retriable
from semel.processes.supervisor import State
from semel.sandbox import Sandbox
from semel.serdes.schemas.struct import checked
from semel.testing.connector import check_connector
from semel.testing.records import arrived, read
from tests.connect.support.place import Place
from tests.support import topics
from tests.support.waiting import wait_for

LINES = 47
STRING = {"key.converter": "StringConverter", "value.converter": "StringConverter"}


class Tap:
    """The tap of the tests as a program of its own, with its source."""

    def __init__(self, folder: Path) -> None:
        code = (Path(__file__).parents[1] / "support" / "tap_lines.py").read_text()
        self.program, self.source, self.hold = folder / "tap-lines", folder / "source.txt", folder / "hold"
        self.program.write_text(f"#!{sys.executable}\n{code}")
        self.program.chmod(0o755)
        self.source.write_text("".join(f"line {number}\n" for number in range(LINES)))
        self._pids = folder / "pids"

    def config(self, **more: Any) -> str:
        return json.dumps({"file": str(self.source), "pids": str(self._pids), "hold": str(self.hold), **more})

    @property
    def pids(self) -> list[int]:
        return [int(pid) for pid in self._pids.read_text().split()] if self._pids.exists() else []

    def connector(self, name: str, prefix: str, **more: Any) -> dict[str, str]:
        return {
            "name": name,
            "connector.class": "SingerSource",
            "tap": str(self.program),
            "tap.config": self.config(**more),
            "topic.prefix": prefix,
            "format": "text",
            "poll.interval.ms": "500",
            **STRING,
        }

    def task(self, state: Mapping[str, str] | None = None, form: str = "struct", **more: Any) -> SingerSourceTask:
        """One in this process."""
        given = {"tap": str(self.program), "tap.config": self.config(**more), "topic.prefix": "t-", "format": form}
        settings = {name: getattr(one, "default", None) for name, one in SingerSource.config.items()}
        made = SingerSourceTask()
        made.start({**settings, **given}, TaskContext(lambda _: state))
        return made


@pytest.fixture
def tap(tmp_path: Path) -> Tap:
    return Tap(tmp_path)


@pytest.mark.parametrize("boundary", ["poll", pytest.param("interval", marks=pytest.mark.exhaustive)])
def test_a_tap_and_its_task_are_killed_between_two_states(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, tap: Tap, boundary: str
) -> None:
    place = Place(spark, kafka.bootstrap_servers, tmp_path)
    topic = topics.create(place.servers, f"{place.name}-{boundary}-lines")
    connector = tap.connector(place.name, f"{place.name}-{boundary}-", at=24)
    connector |= {"transaction.boundary": boundary, "transaction.boundary.interval.ms": "200"}
    tap.hold.touch()
    with place.running(connector, semel_programs_allowed=str(tap.program)) as running:
        wait_for(lambda: arrived(place.servers, topic) >= 20, "the records before the second STATE", 60)
        os.kill(tap.pids[0], signal.SIGKILL)
        wait_for(lambda: len(tap.pids) == 2, "another tap, after the first was killed", 60)
        os.kill(int(running.wait_state(f"{place.name}-0", State.RUNNING).where.rpartition(":")[2]), signal.SIGKILL)
        wait_for(lambda: len(tap.pids) >= 3, "another tap, after its task was killed", 60)
        tap.hold.unlink()
        wait_for(lambda: arrived(place.servers, topic) >= LINES, "all records", 60)
        with tap.source.open("a") as source:  # it ends, and runs again
            source.write("one more\n")
        wait_for(lambda: arrived(place.servers, topic) > LINES, "what came later", 60)
        (kept,) = running.worker.herder.offsets(place.name)
    values = read(place.servers, [topic], {"value": "value"}).sort_by("offset")["value"].to_pylist()
    texts = [f"line {number}" for number in range(LINES)] + ["one more"]
    assert [json.loads(str(value)) for value in values] == [{"id": n, "text": text} for n, text in enumerate(texts)]
    assert kept["partition"] == {"tap": str(tap.program)}
    assert json.loads(kept["offset"]["state"]) == {"bookmarks": {"lines": {"count": LINES + 1}}}


@pytest.mark.exhaustive
def test_semel_connect_test_runs_a_tap(tap: Tap) -> None:
    tap.source.write_text("".join(f"line {number}\n" for number in range(400)))
    found = check_connector(tap.connector("tested", "tested-") | {"batch.max.rows": "10"})
    assert found.expected == 400
    assert found.exact
    assert found.struck


@pytest.mark.exhaustive  # the control
def test_at_least_once_a_killed_task_doubles(spark: SparkSession, kafka: Sandbox, tmp_path: Path, tap: Tap) -> None:
    place = Place(spark, kafka.bootstrap_servers, tmp_path)
    topic = topics.create(place.servers, f"{place.name}-control-lines")
    connector = tap.connector(place.name, f"{place.name}-control-", at=24)
    tap.hold.touch()
    worker = {"semel_programs_allowed": str(tap.program), "exactly_once_source_support": "disabled"}
    with place.running(connector, **worker) as running:
        wait_for(lambda: arrived(place.servers, topic) >= 20, "the records before the second STATE", 60)
        os.kill(int(running.wait_state(f"{place.name}-0", State.RUNNING).where.rpartition(":")[2]), signal.SIGKILL)
        wait_for(lambda: len(tap.pids) >= 2, "another tap, after its task was killed", 60)
        tap.hold.unlink()
        wait_for(lambda: arrived(place.servers, topic) == 20 + LINES, "the first ones twice", 60)


def test_records_and_keys_are_structures_unless_text_is_asked_for(tap: Tap) -> None:
    task = tap.task({"state": '{"bookmarks":{"lines":{"count":40}}}'})
    try:
        polled = _polled(task)
    finally:
        task.stop()
    assert [(one.topic, one.key, one.value["text"]) for one in polled] == [
        ("t-lines", {"id": number}, f"line {number}") for number in range(40, LINES)
    ]
    assert {one.offset["state"] for one in polled} == {'{"bookmarks":{"lines":{"count":47}}}'}


def test_records_with_the_schema_that_the_tap_says(tap: Tap) -> None:
    task = tap.task({"state": '{"bookmarks":{"lines":{"count":46}}}'}, form="schema")
    try:
        (record,) = _polled(task)
    finally:
        task.stop()
    assert record.value_schema is not None
    assert record.key_schema is not None
    assert (record.value_schema.name, record.key) == ("lines", {"id": 46})
    assert {one.name: str(one.schema.type) for one in record.key_schema.fields} == {"id": "int64"}
    assert checked(record.value_schema, record.value)["text"] == "line 46"


def test_how_a_tap_may_end(tap: Tap) -> None:
    for config, tag in (({"status": 3}, "TAP_FAILED"), ({"careless": True}, "TAP_NO_STATE")):
        task = tap.task(**config)
        assert len(_polled(task)) == LINES
        with pytest.raises(ConfigError) as raised:
            _polled(task)
        assert raised.value.tag == tag
        task.stop()
        if tag == "TAP_FAILED":
            assert "the source said no" in raised.value.message
    tap.hold.touch()
    task = tap.task(at=24)
    assert len(_polled(task)) == 20
    os.kill(tap.pids[-1], signal.SIGKILL)
    with pytest.raises(Retriable, match="killed by signal 9"):
        _polled(task)


def test_only_programs_that_the_worker_names_are_run(tap: Tap) -> None:
    worker = {
        "bootstrap.servers": "b:9092",
        "group.id": "g",
        "offset.storage.topic": "o",
        **STRING,
        "semel.programs.allowed": "/usr/bin/tap-other",
    }
    given = tap.connector("lines", "t-")
    (problem,) = ConnectorConfigParser(given, WorkerConfig.parse(worker)).problems
    assert problem.setting == "tap"
    assert "semel.programs.allowed" in problem.text
    allowed = worker | {"semel.programs.allowed": f"/usr/bin/tap-other, {tap.program}"}
    assert not ConnectorConfigParser(given, WorkerConfig.parse(allowed)).problems


def _polled(task: SingerSourceTask) -> list[Any]:
    found: list[Any] = []

    def poll() -> bool:
        polled = task.poll()
        assert not isinstance(polled, SourceBatch)
        found.extend(polled or ())
        return bool(found)

    wait_for(poll, "records", 30)
    return found


@pytest.mark.parametrize(
    ("says", "tag"),
    [
        ('{"type":"BATCH","stream":"lines","manifest":["file:///tmp/1.gz"]}', "TAP_MESSAGE"),
        ('{"type":"RECORD","stream":"lines","record":{"id":1,"price":12345678901234567.89}}', "TAP_NUMBER"),
        ("no JSON", "TAP_MESSAGE"),
    ],
)
def test_what_a_tap_may_not_say(tap: Tap, says: str, tag: str) -> None:
    """Passed over, its rows would be behind a committed STATE; rounded, they would be others."""
    task = tap.task(says=says)
    with pytest.raises(ConfigError) as raised:
        _polled_twice(task)
    assert raised.value.tag == tag
    task.stop()


def _polled_twice(task: SingerSourceTask) -> list[Any]:
    return [*_polled(task), *_polled(task)]


def test_a_price_is_a_number(tap: Tap) -> None:
    task = tap.task(
        says='{"type":"RECORD","stream":"lines","record":{"id":1,"price":19.90}}\n{"type":"STATE","value":{}}'
    )
    found = _polled(task)
    while "price" not in found[-1].value:
        found = _polled(task)
    task.stop()
    assert found[-1].value["price"] == 19.9


def test_what_a_killed_process_has_left_goes_with_the_next_tap(tap: Tap) -> None:
    """Its passwords would stay."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = Path(tempfile.mkdtemp(prefix=f"semel-tap-{ended.pid}-"))
    living = Path(tempfile.mkdtemp(prefix=f"semel-tap-{os.getpid()}-"))
    task = tap.task()
    _polled(task)
    task.stop()
    assert not left.exists()
    assert living.exists()
    living.rmdir()
