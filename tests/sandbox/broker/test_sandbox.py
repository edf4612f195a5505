"""A real Kafka: it comes up, goes away, and does not outlive whoever started it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from semel.errors import ConfigError
from semel.sandbox import Sandbox
from semel.sandbox.cluster import FAST_JVM
from semel.sandbox.readiness import ask
from semel.sandbox.settings import parse_properties
from tests.support.waiting import wait_for

#: A node that comes back is let in when its former session is over.
QUICK_RETURN = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "250"}

FORKS = """
import os
if os.fork() == 0:
    print(os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
"""

PARENT = """
import sys
from semel.sandbox import Sandbox
sandbox = Sandbox.start()
print(sandbox.nodes[0].pid, sandbox.nodes[0].port, sandbox.directory, flush=True)
{then}
sys.stdin.read()
"""


def alive(pid: int) -> bool:
    """Whether the process runs; one that is dead but not yet reaped does not."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")


def create(sandbox: Sandbox, topic: str, *, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, partitions)]).values():
        future.result(30)


def topics(sandbox: Sandbox) -> set[str]:
    return set(AdminClient({"bootstrap.servers": sandbox.bootstrap_servers}).list_topics(timeout=30).topics)


@pytest.fixture
def parent(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    code = PARENT.format(then=getattr(request, "param", ""))
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        yield process
        process.kill()


def started(process: subprocess.Popen[str]) -> tuple[int, int, Path]:
    assert process.stdout is not None
    pid, port, directory = process.stdout.readline().split(maxsplit=2)
    return int(pid), int(port), Path(directory.strip())


def test_a_broker_finds_its_classes_parsed() -> None:
    with Sandbox.start() as sandbox:
        assert f"{sandbox.version}.jsa" in Path(f"/proc/{sandbox.nodes[0].pid}/maps").read_text()


@pytest.mark.exhaustive
def test_an_archive_that_does_not_fit_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "classes.jsa").write_bytes(b"\0" * 100_000)
    with Sandbox.start(jvm=(*FAST_JVM, "-Xshare:auto", f"-XX:SharedArchiveFile={tmp_path / 'classes.jsa'}")) as sandbox:
        create(sandbox, "without-an-archive")


def test_one_node_serves_and_leaves_nothing_behind() -> None:
    with Sandbox.start() as sandbox:
        node = sandbox.nodes[0]
        pid = node.pid
        assert sandbox.bootstrap_servers == f"127.0.0.1:{node.port}"
        create(sandbox, "there")
        assert "there" in topics(sandbox)
        assert "started" in node.log_path.read_text()
    assert not alive(pid)
    assert not sandbox.directory.exists()
    assert ask(node.port) is None
    sandbox.stop()


@pytest.mark.exhaustive
def test_a_killed_node_comes_back_with_its_port_and_data(tmp_path: Path) -> None:
    with Sandbox.start(directory=tmp_path / "kept", settings=QUICK_RETURN) as sandbox:
        node = sandbox.nodes[0]
        create(sandbox, "kept")
        first, port = node.pid, node.port
        node.kill()
        assert not node.running
        assert not alive(first)
        with pytest.raises(ConfigError, match="does not run"):
            node.freeze()
        node.start()
        node.wait_ready()
        assert node.port == port
        assert node.pid != first
        assert "kept" in topics(sandbox)
    assert (tmp_path / "kept" / "node-1" / "data" / "kept-0").is_dir()
    with Sandbox.start(directory=tmp_path / "kept") as again:
        assert again.cluster_id == sandbox.cluster_id
        assert "kept" in topics(again)
    with pytest.raises(ConfigError, match="holds the data of 1 nodes, and 3 were asked for"):
        Sandbox.start(directory=tmp_path / "kept", nodes=3)


def test_a_frozen_node_is_silent_until_it_thaws(kafka: Sandbox) -> None:
    node = kafka.nodes[0]
    node.freeze()
    try:
        assert node.answer() is None
        assert node.running
    finally:
        node.thaw()
    node.wait_ready()


def test_three_nodes_survive_the_loss_of_one(kafka3: Sandbox) -> None:
    assert len({node.port for node in kafka3.nodes}) == 3
    create(kafka3, "replicated", partitions=3)
    victim, witness = kafka3.nodes[0], kafka3.nodes[1]
    victim.kill()
    wait_for(
        lambda: (answer := witness.answer()) is not None and victim.id not in answer.brokers,
        "the cluster without its first node",
    )
    assert "replicated" in topics(kafka3)
    victim.start()
    kafka3.wait_ready()
    assert set((witness.answer() or pytest.fail("no answer")).brokers) == {1, 2, 3}


def test_the_parent_dies_by_sigkill(parent: subprocess.Popen[str]) -> None:
    pid, port, directory = started(parent)
    assert alive(pid)
    assert ask(port) is not None
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not alive(pid), "the end of the broker")
    wait_for(lambda: not directory.exists(), "the end of its directory")
    assert ask(port) is None


@pytest.mark.parametrize("parent", [FORKS], indirect=True, ids=["forks"])
def test_the_parent_dies_while_a_forked_child_holds_its_pipes(parent: subprocess.Popen[str]) -> None:
    pid, _, directory = started(parent)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert alive(child)
    wait_for(lambda: not alive(pid), "the end of the broker")
    wait_for(lambda: not directory.exists(), "the end of its directory")


def test_a_parent_that_just_ends_takes_a_frozen_broker_with_it(parent: subprocess.Popen[str]) -> None:
    pid, _, directory = started(parent)
    os.kill(pid, signal.SIGSTOP)
    assert parent.stdin is not None
    parent.stdin.close()
    assert parent.wait() == 0
    wait_for(lambda: not alive(pid), "the end of the broker")
    wait_for(lambda: not directory.exists(), "the end of its directory")


def test_the_watcher_dies() -> None:
    with Sandbox.start() as sandbox:
        pid = sandbox.nodes[0].pid
        watcher = int(
            subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
        )
        os.kill(watcher, signal.SIGKILL)
        if sys.platform != "linux":
            # Elsewhere nothing ties a child to its parent: stopping the sandbox ends it.
            sandbox.stop()
        wait_for(lambda: not alive(pid), "the end of the broker")
        assert not sandbox.nodes[0].running


def test_a_given_port_is_used() -> None:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    with Sandbox.start(ports=[port]) as sandbox:
        assert sandbox.bootstrap_servers == f"127.0.0.1:{port}"
        with pytest.raises(ConfigError, match=rf"PORT_TAKEN.*port {port} of 127.0.0.1 is taken"):
            Sandbox.start(ports=[port])


@pytest.mark.exhaustive
def test_a_port_lost_to_somebody_else_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    thieves: list[socket.socket] = []

    def steal() -> None:
        """Listen on the first broker's port after it was chosen, while its Java still starts."""
        wait_for(lambda: any(tmp_path.glob("semel-kafka-*/node-1/log4j2.properties")), "the settings of node 1")
        (properties,) = tmp_path.glob("semel-kafka-*/node-1/server.properties")
        address = parse_properties(properties.read_text())["advertised.listeners"]
        thieves.append(socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))))

    thread = threading.Thread(target=steal)
    thread.start()
    with Sandbox.start() as sandbox:
        thread.join()
        (thief,) = thieves
        with thief:
            assert sandbox.nodes[0].port != thief.getsockname()[1]
            assert sandbox.nodes[0].answer() is not None
    assert not any(tmp_path.glob("semel-kafka-*"))


def test_a_broker_that_fails_shows_its_log() -> None:
    with pytest.raises(
        ConfigError,
        match=r"(?s)SANDBOX_FAILED.*node 1 ended while it started.*Invalid value many for configuration num.partitions",
    ):
        Sandbox.start(settings={"num.partitions": "many"})


def test_a_broker_may_start_with_an_older_feature() -> None:
    with Sandbox.start(features={"transaction.version": 1}) as sandbox:
        assert "transaction.version=1" in sandbox.nodes[0].log_path.read_text()


def test_without_a_network_the_cache_is_enough(monkeypatch: pytest.MonkeyPatch, kafka: Sandbox) -> None:
    monkeypatch.setenv("SEMEL_MAVEN", "http://127.0.0.1:1/nothing-listens-here/")
    with Sandbox.start(version=kafka.version) as sandbox:
        assert sandbox.nodes[0].answer() is not None
