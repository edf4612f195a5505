"""An application of streams by the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from semel import cli
from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.sandbox.processes import children
from semel.streams import App
from semel.streams.app_file import AppFile
from semel.streams.lookup import look_up
from semel.streams.worker.worker import Worker
from semel.testing.records import read
from semel.wire.api import groups
from semel.wire.client import Client
from tests.streams.support.applications import fill, names, values
from tests.support.topics import create
from tests.support.waiting import wait_for


@pytest.fixture
def conf(servers: str, tmp_path: Path) -> dict[str, object]:
    return {"bootstrap.servers": servers, "state.dir": str(tmp_path / "state"), "commit.interval.ms": 50}


@pytest.fixture
def name() -> str:
    return f"app-{next(names)}"


APP = """
from semel.streams import App
app = App("{name}", **{{"bootstrap.servers": "{servers}", "state.dir": "{state}", "commit.interval.ms": 50}})
app.stream("{name}-in", value="string").group_by("value").count("counts").to_stream().to("{name}-out")
"""


@pytest.fixture
def file(servers: str, name: str, tmp_path: Path) -> Path:
    create(servers, f"{name}-in", 2)
    create(servers, f"{name}-out", 2)
    path = tmp_path / "app.py"
    path.write_text(APP.format(name=name, servers=servers, state=tmp_path / "state"))
    return path


def shown(*command: str) -> str:
    done = CliRunner().invoke(cli.app, ["streams", *command])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_the_command_line_runs_shows_and_begins_again(servers: str, name: str, file: Path) -> None:
    assert f"Sink: KSTREAM-SINK-0000000007 (topic: {name}-out)" in shown("describe", str(file))
    fill(servers, f"{name}-in", (None, "a", 1), (None, "b", 2), (None, "a", 3))

    program = "from semel.cli import main; main()"
    running = subprocess.Popen([sys.executable, "-c", program, "streams", "run", str(file)])
    try:
        wait_for(lambda: {("a", "2"), ("b", "1")} <= set(values(servers, f"{name}-out")), "the counts", 60)
        with pytest.raises(ConfigError, match="running workers"):
            shown("reset", str(file), "--yes")
    finally:
        os.kill(running.pid, signal.SIGTERM)
        assert running.wait(60) == 0
    assert json.loads(shown("state", str(file), "counts", "--key", "a", "--json")) == [
        {"key": "a", "value": 2, "timestamp": 3}
    ]
    assert "nothing for 'c'" in shown("state", str(file), "counts", "--key", "c")
    with pytest.raises(ConfigError, match="has no store 'other'"):
        shown("state", str(file), "other")
    assert f"{name}-counts-changelog is deleted" in shown("reset", str(file), "--yes")
    assert not (file.parent / "state" / name).exists()
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        assert groups.all_committed(client, name) == {}
        assert not client.existing({f"{name}-counts-changelog", f"{name}-counts-repartition"})


@pytest.mark.exhaustive
def test_as_many_processes_as_threads_and_one_that_is_killed_comes_back(servers: str, name: str, file: Path) -> None:
    file.write_text(file.read_text().replace("50}", '50, "num.stream.threads": 2, "session.timeout.ms": 6_000}'))
    with pytest.raises(ConfigError, match=r"App.run\(\) is one worker"):
        AppFile.read(file).load().run()
    fill(servers, f"{name}-in", (None, "a", 1), (None, "b", 2), (None, "a", 3))
    program = "from semel.cli import main; main()"
    running = subprocess.Popen([sys.executable, "-c", program, "streams", "run", str(file)])
    try:
        wait_for(lambda: {("a", "2"), ("b", "1")} <= set(values(servers, f"{name}-out")), "the counts")
        first = dict(children(running.pid))
        assert len(first) == 2
        os.kill(min(first), signal.SIGKILL)
        wait_for(lambda: len(dict(children(running.pid)).keys() - first.keys()) == 1, "the one that comes instead")
        fill(servers, f"{name}-in", (None, "b", 4), (None, "a", 5))
        wait_for(lambda: {("a", "3"), ("b", "2")} <= set(values(servers, f"{name}-out")), "the next counts")
    finally:
        os.kill(running.pid, signal.SIGTERM)
        assert running.wait(60) == 0
    assert len(values(servers, f"{name}-out")) == len(set(values(servers, f"{name}-out")))
    assert not children(running.pid)
    assert {path.name for path in (file.parent / "state").iterdir()} == {"0", "1"}


def test_a_key_is_found_in_whichever_partition_it_lies(servers: str, name: str, tmp_path: Path) -> None:
    """librdkafka's own partitioner is another one than Kafka's, and a table is where its topic has the key."""
    source = create(servers, f"{name}-in", 3)
    conf = {"bootstrap.servers": servers, "state.dir": str(tmp_path / "state"), "commit.interval.ms": 50}
    app = App(name, **conf)
    app.table(source, key="string", value="string", name="users")
    producer = Producer({"bootstrap.servers": servers})
    for index in range(3):
        producer.produce(source, f"in {index}", key=f"key-{index}", partition=(index + 1) % 3, timestamp=index + 1)
        producer.produce(source, f"{index}", key=f"of-{index}", partition=index, timestamp=index + 1)
    assert producer.flush(30) == 0
    changelog = f"{name}-users-changelog"
    with Worker(app) as worker, Client(app.settings.client) as client:
        wait_for(lambda: (worker.step(), worker.commit(), len(read(servers, [changelog], {})) == 6)[2], "the state", 60)
        for number in range(3):
            (found,) = look_up(client, app.topology, "users", f"key-{number}")
            assert found == {"key": f"key-{number}", "value": f"in {number}", "timestamp": number + 1}
            assert len(list(look_up(client, app.topology, "users", f"of-{number}"))) == 1
        assert list(look_up(client, app.topology, "users", "nobody")) == []
        assert len(list(look_up(client, app.topology, "users", None))) == 6


def test_workers_on_spark_are_refused_before_spark_starts(servers: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(APP.format(name=name, servers=servers, state=tmp_path / "state"))
    with pytest.raises(ConfigError, match=f"{name}-in"):
        shown("run", str(file), "--tasks", "2")
    assert "these are for workers on Spark" in shown("run", str(file), "--master", "local[2]")
    assert "is not NAME=VALUE" in shown("run", str(file), "--tasks", "2", "--conf", "spark.cores.max")


def test_a_file_that_has_no_application_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    for text, problem in (
        ("1", "has 0 applications"),
        ("from semel.streams import App\na, b = App('a'), App('b')", "has 2"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=problem):
            shown("describe", str(file))
    file.write_text("1 / 0")
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        shown("describe", str(file))
