"""``semel broker``: it stays when the command ends, is shown, and is stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from semel.sandbox import background, jars
from semel.sandbox.readiness import ask
from tests.support.waiting import wait_for

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


@pytest.fixture
def semel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """The program, with a cache folder of its own that shares the jars."""
    versions = jars.install(jars.chosen_version()).parent
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "kafka").symlink_to(versions)
    monkeypatch.setenv("SEMEL_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", "from semel.cli import main; main()", *arguments]
        return subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    yield run
    background.stop()


def test_it_stays_until_it_is_stopped(semel: Command, port: int) -> None:
    assert semel("broker", "status").returncode == 1
    assert "no broker is running" in semel("broker", "stop").stdout
    assert semel("broker", "topic", "orders").stderr.startswith("[SEMEL_BROKER_NOT_RUNNING]")

    wrong = semel("broker", "start", "--port", str(port), "--topic", "orders:many")
    assert wrong.returncode == 2
    assert "NAME:PARTITIONS" in wrong.stderr
    started = semel("broker", "start", "--port", str(port), "--topic", "orders:2", "--topic", "priced")
    assert started.returncode == 0, started.stderr
    assert f"127.0.0.1:{port}" in started.stdout
    created = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=30).topics
    assert {name: len(created[name].partitions) for name in ("orders", "priced")} == {"orders": 2, "priced": 1}
    broker = background.status()
    assert broker is not None
    assert broker.running
    assert ask(port) is not None

    shown = semel("broker", "status")
    assert shown.returncode == 0
    for fact in ("running", f"127.0.0.1:{port}", jars.chosen_version(), str(broker.pids[0]), "since"):
        assert fact in shown.stdout

    again = semel("broker", "start", "--port", str(port), "--topic", "later:3")
    assert again.returncode == 1
    assert again.stderr.startswith("[SEMEL_BROKER_RUNNING]")
    assert "no topic was created" in again.stderr
    assert "its data with it" in again.stderr
    later = semel("broker", "topic", "later:3", "orders")
    assert later.stdout.splitlines() == [
        "later: created",
        "orders: is there already, and stays as it is, with the partitions that it has",
    ], later.stderr
    created = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=30).topics
    assert {name: len(created[name].partitions) for name in ("orders", "later")} == {"orders": 2, "later": 3}
    assert "Traceback" not in again.stderr

    stopped = semel("broker", "stop")
    assert stopped.returncode == 0
    assert "its data are gone with it" in stopped.stdout
    assert ask(port) is None
    assert not Path(broker.directory).exists()
    assert background.status() is None


@pytest.mark.exhaustive
def test_one_that_ended_by_itself_is_told_and_replaced(semel: Command, port: int, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert semel("broker", "start", "--port", str(port), "--directory", str(kept)).returncode == 0
    first = background.status()
    assert first is not None
    os.kill(first.pids[0], signal.SIGKILL)
    wait_for(lambda: not first.running, "the end of the broker")

    shown = semel("broker", "status")
    assert shown.returncode == 1
    assert "ended by itself" in shown.stdout

    replaced = semel("broker", "start", "--port", str(port), "--directory", str(kept))
    assert replaced.returncode == 0, replaced.stderr
    second = background.status()
    assert second is not None
    assert second.pids != first.pids
    assert "its data are kept" in semel("broker", "stop").stdout
    assert (kept / "node-1" / "data" / "meta.properties").exists()


def test_a_port_that_is_taken_is_named(semel: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        refused = semel("broker", "start", "--port", str(taken))
    assert refused.returncode == 1
    assert f"[SEMEL_PORT_TAKEN] port {taken} of 127.0.0.1 is taken" in refused.stderr
    assert background.status() is None
