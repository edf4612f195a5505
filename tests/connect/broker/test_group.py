"""Several workers of one group: one leads, the others hand requests on to it, stand by, and take over."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from semel.config import ClientConfig
from semel.connect.stores.config_format import STARTED, commit_record
from semel.connect.stores.statuses import TaskState
from semel.connect.worker.group import Role, WorkerGroup
from semel.connect.worker.worker import Worker
from semel.errors import ConfigError, Fenced, Retriable
from semel.processes.launcher import Launcher
from semel.processes.supervisor import State
from semel.sandbox import Sandbox
from semel.sandbox.security import Secured
from semel.strict_json import read_object
from semel.web.basic_header import basic_header
from semel.wire.api import membership
from semel.wire.client import Client
from tests.connect.support.place import Place
from tests.connect.support.rest import Rest
from tests.support.other_client import Transactional
from tests.support.waiting import wait_for

LISTENS = {"listeners": "http://127.0.0.1:0"}


@pytest.fixture
def place(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Place:
    return Place(spark, kafka.bootstrap_servers, tmp_path)


def _rest(place: Place, worker: Worker) -> Rest:
    return Rest("group", worker.addresses[0], place.servers, place.worker, place.file.parent)


def test_a_worker_hands_requests_on_and_leads_once_the_leader_leaves(place: Place, tmp_path: Path) -> None:
    """By https, and with logins."""
    secured = Secured.make(tmp_path, {})
    stores = {"truststore": secured.truststore, "keystore": tmp_path / "127.0.0.1.pem"}
    users = tmp_path / "users.properties"
    users.write_text("ada=secret\n")
    worker = {
        **place.stored,
        "listeners": "https://127.0.0.1:0",
        "semel.rest.credentials.file": str(users),
        **{f"listeners.https.ssl.{store}.location": str(path) for store, path in stores.items()},
    }
    place.file.write_text("")
    with place.running(**worker) as first, place.running(place.lines("of-a-file"), **worker) as second:
        assert (first.worker.leads, second.worker.leads) == (True, False)
        assert first.worker.herder.names == ["of-a-file"], "files act as PUT does, at the leader"
        rest = _rest(place, second.worker)
        rest.trusts = ssl.create_default_context(cafile=secured.truststore)
        assert rest.ask("GET", "/health")[0] == rest.ask("GET", "/connectors")[0] == 401
        rest.headers = {"Authorization": basic_header("ada", "secret")}
        assert rest.ask("GET", "/health")[0] == 200
        status, made = rest.ask("POST", "/connectors", {"name": place.name, "config": place.numbers(2000)})
        assert (status, made["name"]) == (201, place.name)
        assert rest.ask("GET", f"/connectors/{place.name}?forward=false")[0] == 409  # a second hop would be a third
        assert rest.ask("GET", "/connectors/none/status")[0] == 404
        rest.wait_states(place.name, "RUNNING", "RUNNING")
        place.wait_arrived(200)
        first.worker.stop()
        wait_for(lambda: second.worker.due, "that it is to lead", 60)
        second.worker._take_over()
        herder = second.worker.herder
        shown = herder.status(place.name)
        assert (shown["connector"]["state"], herder.task_status(place.name, 0)["state"]) == ("UNASSIGNED",) * 2
        second.worker.statuses.put_connector(place.name, TaskState("RUNNING", "here"))
        assert [task["state"] for task in herder.status(place.name)["tasks"]] == ["UNASSIGNED"], "they are not started"
        second.lead()
        rest.wait_states(place.name, "RUNNING", "RUNNING")
        place.wait_arrived(2000)
        assert second.states[f"{place.name}-0"].launches == 1
    assert sorted(map(int, place.values())) == list(range(2000))


@pytest.mark.exhaustive
def test_a_leader_whose_id_another_program_uses_takes_it_again_and_its_tasks_run_on(place: Place) -> None:
    """As Kafka Connect's: only the group says who leads."""
    with place.running(place.numbers(2000), **place.stored) as first, place.running(**place.stored) as second:
        place.wait_arrived(100)
        Transactional(place.servers, f"connect-cluster-{place.worker['group.id']}")
        first.worker.herder.set_target(place.name, STARTED)
        Transactional(place.servers, f"connect-cluster-{place.worker['group.id']}")
        first.worker.herder.put("another", place.numbers(10, name="another"))
        place.wait_arrived(2000)
        assert first.states[f"{place.name}-0"].launches == 1
        assert (first.worker.ready, first.worker.leads, second.worker.leads) == (True, True, False)
        first.worker.stop()
        second.lead()
        assert sorted(second.worker.herder.names) == ["another", place.name], "all of it is stored"


def test_a_leader_ends_its_tasks_where_another_one_has_written_the_config_topic(place: Place) -> None:
    with place.running(place.numbers(2000), **place.stored) as first, place.running(**place.stored) as second:
        place.wait_arrived(100)
        other = Transactional(place.servers, f"connect-cluster-{place.worker['group.id']}")
        key, value = commit_record(place.name, 1)
        other.write(place.configs, [{"key": key, "value": value, "partition": 0}])
        other.end(commit=True)
        with pytest.raises(Fenced, match="NOT_LEADER"):
            first.worker.herder.set_target(place.name, STARTED)
        second.lead()
        place.wait_arrived(2000)
        wait_for(lambda: not first.worker.ready, "that it ends its tasks")
    assert sorted(map(int, place.values())) == list(range(2000))


def test_a_leader_that_its_group_has_replaced_ends_its_tasks_and_stands_by(place: Place) -> None:
    with place.running(place.numbers(2000), **place.stored) as first, place.running(**place.stored) as second:
        place.wait_arrived(100)
        with Client(ClientConfig.parse({"bootstrap.servers": place.servers})) as client:
            membership.leave(client, place.worker["group.id"], first.worker._group.leading)
        second.lead()
        place.wait_arrived(2000)
        wait_for(lambda: not first.worker.ready, "that it ends its tasks")
        assert first.worker.running
        assert not first.worker.leads
        assert first.states[f"{place.name}-0"].state in (State.STOPPED, State.FAILED)
        with pytest.raises(ConfigError, match="does not lead"):
            _ = first.worker.herder
    assert sorted(map(int, place.values())) == list(range(2000))


def test_others_in_the_group_are_refused(place: Place) -> None:
    consumer = Consumer({"bootstrap.servers": place.servers, "group.id": place.worker["group.id"]})
    consumer.subscribe([place.topic])
    try:
        wait_for(lambda: consumer.poll(0.2) is None and bool(consumer.memberid()) and consumer.assignment(), "its join")
        with pytest.raises(ConfigError, match=r"\[SEMEL_GROUP_IN_USE\].*no workers of semel"):
            Worker(place.worker, [place.numbers(1)]).prepare()
    finally:
        consumer.close()


def test_a_worker_whose_topics_are_others_is_refused(place: Place) -> None:
    with place.running(place.numbers(10), **place.stored) as first:
        other = {**place.worker, "offset.storage.topic": f"{place.offsets}-other"}
        with pytest.raises(ConfigError, match="WORKERS_DIFFER"):
            Worker(other, [place.numbers(1)]).prepare()
        place.wait_arrived(10)
        assert first.worker.leads


def test_a_worker_that_would_make_its_group_at_least_once_is_refused(place: Place) -> None:
    with place.running(place.numbers(10)) as first:
        disabled = {**place.worker, "exactly.once.source.support": "disabled"}
        with pytest.raises(ConfigError, match=r"WORKERS_DIFFER.*exactly\.once\.source\.support"):
            Worker(disabled, [place.numbers(1)]).prepare()
        place.wait_arrived(10)
        assert first.worker.leads


@pytest.mark.exhaustive
def test_a_leader_that_cannot_read_what_is_stored_stands_by_and_tries_again(place: Place) -> None:
    impatient = {"delivery_timeout_ms": "3000", "request_timeout_ms": "2000"}
    with place.running(place.numbers(20), **place.stored) as first:
        place.wait_arrived(20)
        with place.running(place.numbers(40), **{**place.stored, **impatient}) as second:
            other = Transactional(place.servers, "not-a-worker")
            other.write(place.configs, [{"key": b"connector-x", "value": b"{}", "partition": 0}])
            first.worker.stop()
            with pytest.raises(Retriable, match="stays open"):
                second.lead()
            assert second.worker.running
            other.end(commit=False)
            second.lead()
            place.wait_arrived(40)
    assert sorted(map(int, place.values())) == list(range(40))


#: A member of a group that says so, and waits to be killed.
MEMBER = """
import sys, threading
from semel.config import ClientConfig
from semel.connect.worker.group import WorkerGroup
config = ClientConfig.parse({"bootstrap.servers": sys.argv[1]})
group = WorkerGroup(
    config,
    sys.argv[2],
    ["topic"],
    support="disabled",
    session_timeout_ms=60_000,
    rebalance_timeout_ms=60_000,
    heartbeat_ms=3_000,
)
group.join("")
print(group.role, flush=True)
threading.Event().wait()
"""


@pytest.mark.exhaustive
def test_a_worker_that_died_on_this_machine_is_not_waited_for(kafka: Sandbox) -> None:
    """Without that the group would wait for it until its session of 60 s is over: the control."""
    servers, name = kafka.bootstrap_servers, "dead-member"
    with subprocess.Popen([sys.executable, "-c", MEMBER, servers, name], stdout=subprocess.PIPE) as member:
        assert member.stdout is not None
        assert b"leads=True" in member.stdout.readline()
        member.kill()
    config = ClientConfig.parse({"bootstrap.servers": servers})
    with Client(config) as client:
        (about,) = membership.members(client, name, "connect").values()
        assert read_object(about)["pid"] == member.pid, "the group still has it"
    group = WorkerGroup(
        config,
        name,
        ["topic"],
        support="disabled",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        heartbeat_ms=3_000,
    )
    began = time.monotonic()
    group.join("http://here:1")
    assert group.role == Role(leads=True, url="http://here:1")
    assert time.monotonic() - began < 40
    group.close()
    with Client(config) as client:
        assert membership.members(client, name, "connect") == {}


def test_a_worker_that_starts_says_so_and_lets_requests_wait(place: Place) -> None:
    """By KIP-1017. The leader has started once its Spark has."""
    given = {name.replace("_", "."): value for name, value in place.stored.items()} | LISTENS
    worker = Worker({**place.worker, **given}, [])
    try:
        worker.prepare()
        rest = _rest(place, worker)
        assert rest.ask("GET", "/health") == (503, {"status": "starting", "message": "Worker is still starting up."})
        assert rest.ask("GET", "/")[0] == 200
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(rest.ask, "POST", "/connectors", {"name": place.name, "config": place.numbers(20)})
            assert rest.ask("GET", "/connector-plugins")[0] == 200
            assert not made.done()
            worker.start(Launcher(place.spark))
            assert made.result(60)[0] == 201
        assert rest.ask("GET", "/health")[1]["status"] == "healthy"
        place.wait_arrived(20)
    finally:
        worker.stop()
