"""Long-running processes on Spark: killed, frozen, told to end. Executors and drivers are killed in test_kills."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from semel.errors import ConfigError
from semel.processes.channel import Channel, Launch
from semel.processes.launcher import Launcher
from semel.processes.supervisor import State, Status, Supervisor
from semel.sandbox.processes import alive
from tests.connect.support.beating import pids
from tests.support.waiting import wait_for

BEATING = "tests.connect.support.beating"
SILENT_S = 3.0


class Watched:
    """A supervisor, and what it said."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.directory = directory
        self.states: list[Status] = []
        self.told: list[Any] = []
        self.supervisor = Supervisor(
            Launcher(spark),
            on_change=self.states.append,
            on_message=lambda _, message: self.told.append(message),
            silent_s=SILENT_S,
        )

    def start(self, entry: str, **settings: object) -> None:
        given = {"directory": str(self.directory), "name": "one", **settings}
        self.supervisor.start("one", f"{BEATING}:{entry}", given)

    @property
    def status(self) -> Status:
        return self.supervisor.statuses[0]

    def wait_state(self, state: State) -> Status:
        wait_for(lambda: self.status.state is state, lambda: f"{state}; so far {self.states}")
        return self.status

    def running(self, after: int = 0) -> int:
        """The pid of the process that runs, once it is not ``after``."""
        wait_for(
            lambda: self.status.state is State.RUNNING and self.status.where.rpartition(":")[2] != str(after),
            lambda: f"a process that is not {after}; so far {self.states}",
        )
        return int(self.status.where.rpartition(":")[2])


@pytest.fixture
def watched(spark: SparkSession, tmp_path: Path) -> Iterator[Watched]:
    made = Watched(spark, tmp_path)
    yield made
    made.supervisor.close()


def test_it_runs_tells_and_ends_when_asked(watched: Watched) -> None:
    watched.start("beat", secret="not for Spark")
    pid = watched.running()
    wait_for(lambda: {"pid": pid, "secret": "not for Spark"} in watched.told, "its message")
    assert watched.supervisor.stop(30) == []
    assert watched.status.state is State.STOPPED
    assert watched.status.launches == 1


def test_one_that_is_stopped_while_it_connects_ends_well(watched: Watched) -> None:
    """It hears that it shall stop before it is given its work. Nothing was lost, and nothing is started again."""
    channel = watched.supervisor._channel
    serve, stop, connected, asked = channel._serve, channel.stop, threading.Event(), threading.Event()

    def held(launch: Launch, connection: Any) -> None:
        connected.set()
        assert asked.wait(60)
        serve(launch, connection)

    def asking(launch: Launch) -> None:
        stop(launch)
        asked.set()

    channel._serve, channel.stop = held, asking  # type: ignore[method-assign]
    watched.start("beat")
    assert connected.wait(60)
    assert watched.supervisor.stop(30) == []
    assert watched.status.state is State.STOPPED
    assert State.RESTARTING not in {one.state for one in watched.states}
    assert pids(watched.directory) == []


def test_a_launch_is_withdrawn_only_before_a_process_connects(watched: Watched) -> None:
    launch = Launch("", {}, lambda: None, lambda _: None)
    connected = Launch("", {}, lambda: None, lambda _: None, attempt=0)
    channel = watched.supervisor._channel
    assert (channel.withdraw(launch), launch.over) == (True, True)
    assert (channel.withdraw(connected), connected.over) == (False, False)


def test_a_killed_process_comes_back_in_sparks_next_attempt_and_then_in_a_new_job(watched: Watched) -> None:
    watched.start("beat")
    pid = 0
    for _ in range(5):  # one more than the attempts that Spark makes of a task
        pid = watched.running(after=pid)
        os.kill(pid, signal.SIGKILL)
    watched.running(after=pid)
    assert watched.status.launches == 2


def test_a_frozen_process_is_lost_and_thawed_it_ends(watched: Watched) -> None:
    watched.start("beat")
    frozen = watched.running()
    os.kill(frozen, signal.SIGSTOP)
    watched.running(after=frozen)
    assert watched.status.launches == 2
    if alive(frozen):
        os.kill(frozen, signal.SIGCONT)
    wait_for(lambda: not alive(frozen), "the end of the process that was frozen")


def test_what_does_not_listen_is_ended(watched: Watched) -> None:
    watched.start("deaf")
    pid = watched.running()
    assert watched.supervisor.stop(0.5) == ["one"]
    wait_for(lambda: not alive(pid), "its end")
    assert pids(watched.directory) == [pid]


def test_a_failure_is_told_with_its_trace_and_stays(watched: Watched) -> None:
    watched.start("fail")
    failed = watched.wait_state(State.FAILED)
    assert failed.reason == "ValueError: no such table"
    assert "in fail" in failed.trace
    assert failed.launches == 1


def test_a_process_that_has_a_slot_is_not_said_to_lack_one(watched: Watched) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # its process finds a driver that does not answer
        watched.supervisor._channel.address = f"127.0.0.1:{deaf.getsockname()[1]}"
        watched.start("beat")
        wait_for(lambda: "it has a slot of Spark" in watched.status.reason, lambda: str(watched.states))
    assert watched.status.state is State.UNASSIGNED


def test_an_error_of_the_owner_is_logged_and_the_process_runs_on(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    def heard(_: str, message: Mapping[str, Any]) -> None:
        watched.told.append(message)
        raise KeyError("what the owner wants")

    watched.supervisor._on_message = heard
    watched.start("beat")
    pid = watched.running()
    wait_for(lambda: caplog.text.count("what the owner wants") > 2, lambda: str(watched.states))
    assert watched.supervisor.stop(30) == []
    assert watched.status.launches == 1
    assert {one["pid"] for one in watched.told} == {pid}


def test_without_a_slot_it_says_what_to_raise(watched: Watched) -> None:
    slots = watched.supervisor._launcher._context.defaultParallelism
    for number in range(slots + 1):
        given = {"directory": str(watched.directory), "name": f"many-{number}"}
        watched.supervisor.start(f"many-{number}", f"{BEATING}:beat", given)

    def waiting() -> list[Status]:
        return [one for one in watched.supervisor.statuses if "no slot of Spark is its own yet" in one.reason]

    def last_one_waits() -> bool:
        states = [one.state for one in watched.supervisor.statuses]
        return states.count(State.RUNNING) == slots and len(waiting()) == 1

    wait_for(last_one_waits, lambda: str(watched.supervisor.statuses))
    (last,) = waiting()
    others = [one.name for one in watched.supervisor.statuses if one.name != last.name]
    assert watched.supervisor.stop(30, others[:1]) == []
    wait_for(lambda: all(one.state is not State.UNASSIGNED for one in watched.supervisor.statuses), "its slot")
    watched.supervisor.forget(others[:1])
    assert others[0] not in [one.name for one in watched.supervisor.statuses]


def test_it_asks_the_driver_and_is_answered(watched: Watched) -> None:
    def answer(_: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        if question["n"] == 3:
            raise ConfigError("three is refused. Nothing was read. Ask for another.", tag="THREE")
        return {"twice": 2 * question["n"]}

    watched.supervisor._on_ask = answer
    watched.start("ask")
    assert "[SEMEL_THREE] three is refused" in watched.wait_state(State.FAILED).reason
    assert {"answers": [2, 4]} in watched.told


def test_what_asks_for_it_is_launched_again(watched: Watched) -> None:
    watched.start("ask_again")
    watched.wait_state(State.STOPPED)
    assert watched.status.launches == 3


def test_an_entry_that_executors_lack(watched: Watched) -> None:
    watched.supervisor.start("one", "nowhere.there:run", {})
    assert "[SEMEL_ENTRY_MISSING] nowhere.there:run" in watched.wait_state(State.FAILED).reason


# ---- the channel alone


@pytest.fixture
def channel() -> Iterator[Channel]:
    made = Channel("127.0.0.1", "127.0.0.1", SILENT_S)
    yield made
    made.close()


def _hello(channel: Channel, token: str, attempt: int) -> Any:
    connection = connect(
        f"ws://{channel.address}", additional_headers={"Authorization": f"Bearer {token}"}, proxy=None
    ).__enter__()
    connection.send(json.dumps({"type": "hello", "attempt": attempt, "host": "h", "pid": 1}))
    return connection


def _launch() -> Launch:
    return Launch("m:f", {"password": "x"}, lambda: None, lambda _: None)


@pytest.mark.parametrize(
    "text", ["no json", "[]", '{"type": "other", "message": {}}', '{"type": "told", "message": 1}']
)
def test_a_message_that_is_not_valid_is_logged(channel: Channel, caplog: pytest.LogCaptureFixture, text: str) -> None:
    launch = _launch()
    channel.open(launch)
    connection = _hello(channel, launch.token, 0)
    connection.send(text)
    wait_for(lambda: "is treated as lost" in caplog.text, lambda: caplog.text)
    wait_for(lambda: launch.silent_since is not None, "the process to be lost")
    connection.close()


@pytest.mark.parametrize("kind", ["told", "ask"])
def test_an_error_of_the_driver_has_a_traceback(channel: Channel, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    def fail(_: Mapping[str, Any]) -> Any:
        raise KeyError("wanted")

    launch = Launch("m:f", {}, lambda: None, fail, fail)
    channel.open(launch)
    connection = _hello(channel, launch.token, 0)
    connection.recv(10)
    connection.send(json.dumps({"type": kind, "number": 1, "message": {}}))
    wait_for(lambda: "Traceback" in caplog.text and "wanted" in caplog.text, lambda: caplog.text)
    if kind == "ask":
        answer = json.loads(connection.recv(10))["message"]
        assert (answer["class"], answer["tag"]) == ("Retriable", "NO_ANSWER")
    connection.close()


def test_without_the_token_nobody_is_let_in(channel: Channel) -> None:
    channel.open(_launch())
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}):
        with pytest.raises(InvalidStatus), connect(f"ws://{channel.address}", additional_headers=headers, proxy=None):
            pass


def test_a_silent_connection_holds_nobody_up(channel: Channel) -> None:
    host, _, port = channel.address.partition(":")
    launch = _launch()
    channel.open(launch)
    with socket.create_connection((host, int(port))):
        connection = _hello(channel, launch.token, 0)
        assert json.loads(connection.recv(10))["settings"] == {"password": "x"}
        connection.close()


def test_of_two_attempts_the_later_one_works(channel: Channel) -> None:
    launch = _launch()
    channel.open(launch)
    earlier = _hello(channel, launch.token, 4)
    assert json.loads(earlier.recv(10))["type"] == "run"
    later = _hello(channel, launch.token, 5)
    assert json.loads(later.recv(10))["type"] == "run"
    assert json.loads(earlier.recv(10))["type"] == "end"
    too_late = _hello(channel, launch.token, 4)
    assert json.loads(too_late.recv(10))["type"] == "end"
    for connection in (earlier, later, too_late):
        connection.close()
