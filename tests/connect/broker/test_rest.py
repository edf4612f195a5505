"""The REST interface, twice: the same test against semel and against Kafka's own Connect. A shape is right when it
passes on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from semel.testing.records import arrived
from tests.connect.support.kafka_connect import kafka_connect
from tests.connect.support.lines import STRING
from tests.connect.support.rest import FILE_SOURCE, Rest, semel_connect
from tests.support.other_client import produce
from tests.support.waiting import wait_for


@pytest.fixture(scope="module", params=["semel", pytest.param("kafka", marks=pytest.mark.exhaustive)])
def rest(
    request: pytest.FixtureRequest, spark: SparkSession, kafka: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rest]:
    servers, folder = kafka.bootstrap_servers, tmp_path_factory.mktemp("rest")
    worker = {
        "bootstrap.servers": servers,
        "group.id": f"rest-{request.param}",
        "offset.storage.topic": f"rest-{request.param}-offsets",
        "offset.storage.partitions": "3",
        "key.converter": STRING,
        "value.converter": STRING,
        "exactly.once.source.support": "enabled",
    }
    if request.param == "semel":
        with semel_connect(spark, worker) as address:
            yield Rest("semel", address, servers, worker, folder)
    else:
        with kafka_connect(worker, folder / "connect") as theirs:
            yield Rest("kafka", theirs.address, servers, worker, folder)


@pytest.fixture(autouse=True)
def _deleted(rest: Rest) -> Iterator[None]:
    """Slots of Spark are few: no connector outlives its test."""
    yield
    for name in rest.ask("GET", "/connectors")[1]:
        rest.ask("DELETE", f"/connectors/{quote(name)}")


def test_the_root_and_health(rest: Rest) -> None:
    status, root = rest.ask("GET", "/")
    assert status == 200
    assert root.keys() == {"version", "commit", "kafka_cluster_id"}
    assert rest.ask("GET", "/health")[1] == {
        "status": "healthy",
        "message": "Worker has completed startup and is ready to handle requests.",
    }


def test_a_connector_from_its_creation_to_its_end(rest: Rest) -> None:
    name, config = rest.new()
    status, made = rest.ask("POST", "/connectors", {"name": name, "config": config})
    assert (status, made) == (201, {"name": name, "config": {**config, "name": name}, "tasks": [], "type": "source"})
    rest.wait_states(name, "RUNNING", "RUNNING")
    wait_for(lambda: arrived(rest.servers, name) >= 3, "3 lines", 60)

    assert name in rest.ask("GET", "/connectors")[1]
    tasks = [{"connector": name, "task": 0}]
    named = {**config, "name": name}
    info = {"name": name, "config": named, "tasks": tasks, "type": "source"}
    assert rest.ask("GET", f"/connectors/{name}") == (200, info)
    assert rest.ask("GET", f"/connectors/{name}/config") == (200, named)
    status, shown = rest.ask("GET", f"/connectors/{name}/status")
    assert shown.keys() == {"name", "connector", "tasks", "type"}
    assert shown["connector"].keys() == {"state", "worker_id", "version"}
    assert shown["tasks"][0].keys() == {"id", "state", "worker_id", "version"}
    expanded = rest.ask("GET", "/connectors?expand=info&expand=status")[1]
    assert expanded[name] == {"info": info, "status": shown}
    assert rest.ask("GET", "/connectors?expand=nothing")[1][name] == {}
    assert rest.ask("GET", f"/connectors/{name}/tasks/0/status") == (200, shown["tasks"][0])
    status, listed = rest.ask("GET", f"/connectors/{name}/tasks")
    assert [one["id"] for one in listed] == tasks
    assert listed[0]["config"] == {**named, "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}
    wait_for(lambda: rest.ask("GET", f"/connectors/{name}/topics")[1] == {name: {"topics": [name]}}, "its topic")
    assert rest.ask("PUT", f"/connectors/{name}/topics/reset") == (202, None)

    assert rest.ask("DELETE", f"/connectors/{name}") == (204, None)
    wait_for(lambda: rest.ask("GET", f"/connectors/{name}")[0] == 404, "its end")
    assert rest.values(name) == ["line 0", "line 1", "line 2"]


def test_pause_resume_stop_and_restart(rest: Rest) -> None:
    name, config = rest.new()
    rest.ask("PUT", f"/connectors/{name}/config", config)
    rest.wait_states(name, "RUNNING", "RUNNING")
    assert rest.ask("PUT", f"/connectors/{name}/pause") == (202, None)
    rest.wait_states(name, "PAUSED", "PAUSED")
    with Path(config["file"]).open("a") as file:
        file.write("while paused\n")
    assert rest.ask("PUT", f"/connectors/{name}/resume") == (202, None)
    rest.wait_states(name, "RUNNING", "RUNNING")
    wait_for(lambda: arrived(rest.servers, name) >= 4, "what was written while it was paused", 60)
    for query in ("onlyFailed=true", "includeTasks=true&onlyFailed=true"):  # nothing has failed, so nothing is started
        status, shown = rest.ask("POST", f"/connectors/{name}/restart?{query}")
        assert (status, [task["state"] for task in shown["tasks"]]) == (202, ["RUNNING"])
    assert rest.ask("POST", f"/connectors/{name}/restart") == (204, None)
    status, shown = rest.ask("POST", f"/connectors/{name}/restart?includeTasks=true")
    assert status == 202
    assert [shown["connector"]["state"], *(task["state"] for task in shown["tasks"])] == ["RESTARTING", "RESTARTING"]
    rest.wait_states(name, "RUNNING", "RUNNING")
    assert rest.ask("POST", f"/connectors/{name}/tasks/0/restart") == (204, None)
    assert rest.ask("PUT", f"/connectors/{name}/stop") == (204, None)
    rest.wait_states(name, "STOPPED")
    assert rest.ask("GET", f"/connectors/{name}")[1]["tasks"] == []
    assert rest.values(name) == ["line 0", "line 1", "line 2", "while paused"]


def test_another_configuration(rest: Rest) -> None:
    name, config = rest.new()
    assert rest.ask("PUT", f"/connectors/{name}/config", config)[0] == 201
    rest.wait_states(name, "RUNNING", "RUNNING")
    status, made = rest.ask("PUT", f"/connectors/{name}/config", {**config, "batch.size": "7"})
    assert (status, made["config"]["batch.size"]) == (200, "7")
    status, made = rest.ask("PATCH", f"/connectors/{name}/config", {"batch.size": None, "tasks.max": "2"})
    assert (status, made["config"]) == (200, {**config, "name": name, "tasks.max": "2"})
    rest.wait_states(name, "RUNNING", "RUNNING")
    with Path(config["file"]).open("a") as file:
        file.write("more\n")
    wait_for(lambda: arrived(rest.servers, name) >= 4, "what came after it", 60)
    assert rest.values(name) == ["line 0", "line 1", "line 2", "more"]


@pytest.mark.parametrize("state", ["PAUSED", "stopped"])
def test_created_without_running(rest: Rest, state: str) -> None:
    name, config = rest.new()
    status, made = rest.ask("POST", "/connectors", {"name": name, "config": config, "initial_state": state})
    assert (status, made["tasks"]) == (201, [])
    rest.wait_states(name, state.upper())
    assert arrived(rest.servers, name) == 0


def test_offsets_are_shown_set_and_removed(rest: Rest) -> None:
    name, config = rest.new()
    partition = {"filename": config["file"]}
    rest.ask("PUT", f"/connectors/{name}/config", config)
    wait_for(lambda: arrived(rest.servers, name) >= 3, "3 lines", 90)
    path = f"/connectors/{name}/offsets"
    shown = {"offsets": [{"partition": partition, "offset": {"position": 21}}]}
    wait_for(lambda: rest.ask("GET", path) == (200, shown), lambda: str(rest.ask("GET", path)), 60)
    change = {"offsets": [{"partition": partition, "offset": {"position": 7}}]}
    for method, body in (("PATCH", change), ("DELETE", None)):
        status, refused = rest.ask(method, path, body)
        assert status == 400
        assert f"'PUT' request to the '/connectors/{name}/stop' endpoint" in refused["message"]
    rest.ask("PUT", f"/connectors/{name}/stop")
    rest.wait_states(name, "STOPPED")
    done = "The offsets for this connector have been {} successfully"
    assert rest.ask("PATCH", path, change) == (200, {"message": done.format("altered")})
    assert rest.ask("GET", path) == (200, change)
    refusals: list[tuple[Any, int, str]] = [
        ({"offsets": []}, 400, "Partitions / offsets need to be provided"),
        ({"offsets": [{"partition": partition, "offset": {"position": "x"}}]}, 500, "expected to be a Long value"),
        ({"offsets": [{"partition": {"a": "b"}, "offset": {"position": 1}}]}, 500, "should contain the key 'filename'"),
        ({"offsets": [{"partition": partition, "offset": {"a": 1}}]}, 500, "or contain the key 'position'"),
        ({"others": 1}, 500, 'Unrecognized field "others"'),
        ([], 500, "Cannot deserialize value of type"),
    ]
    for body, wanted, text in refusals:
        status, refused = rest.ask("PATCH", path, body)
        assert (status, refused["error_code"]) == (wanted, wanted)
        assert text in refused["message"]
    rest.ask("PUT", f"/connectors/{name}/resume")
    wait_for(lambda: arrived(rest.servers, name) >= 5, "the two lines behind it, again", 90)
    assert rest.values(name) == ["line 0", "line 1", "line 2", "line 1", "line 2"]
    rest.ask("PUT", f"/connectors/{name}/stop")
    rest.wait_states(name, "STOPPED")
    assert rest.ask("DELETE", path) == (200, {"message": done.format("reset")})
    assert rest.ask("GET", path) == (200, {"offsets": []})


def test_what_is_not_there(rest: Rest) -> None:
    for method, path, text in (
        ("GET", "/connectors/none", "Connector none not found"),
        ("GET", "/connectors/none/config", "Connector none not found"),
        ("GET", "/connectors/none/status", "No status found for connector none"),
        ("GET", "/connectors/none/tasks", "Connector none not found"),
        ("GET", "/connectors/none/tasks/0/status", "No status found for task none-0"),
        ("GET", "/connectors/none/offsets", "Connector none not found"),
        ("PATCH", "/connectors/none/config", "Connector none not found"),
        ("DELETE", "/connectors/none", "Connector none not found"),
        ("PUT", "/connectors/none/pause", "Unknown connector none"),
        ("PUT", "/connectors/none/resume", "Unknown connector none"),
        ("PUT", "/connectors/none/stop", "Unknown connector none"),
        ("POST", "/connectors/none/restart", "Unknown connector: none"),
        ("POST", "/connectors/none/tasks/0/restart", "Unknown connector: none"),
        ("GET", "/connector-plugins/Nope/config", "Unknown plugin Nope"),
        ("GET", "/nothing", "HTTP 404 Not Found"),
    ):
        status, refused = rest.ask(method, path, {"a": "b"} if method == "PATCH" else None)
        assert (status, refused["error_code"]) == (404, 404), path
        assert text in refused["message"]
    assert rest.ask("PUT", "/connectors", {}) == (405, {"error_code": 405, "message": "HTTP 405 Method Not Allowed"})


def test_configurations_that_are_refused(rest: Rest) -> None:
    name, config = rest.new()

    def post(wanted: int, body: Any) -> str:
        status, refused = rest.ask("POST", "/connectors", body)
        assert (status, refused["error_code"]) == (wanted, wanted)
        return str(refused["message"])

    made = {"name": name, "config": config}
    assert "contains no connector type" in post(400, {"name": name, "config": {}})
    assert "doesn't match connector name in the URL" in post(400, {**made, "config": {**config, "name": "other"}})
    message = post(400, {**made, "config": {**config, "tasks.max": "0", "batch.size": "zz"}})
    assert "Connector configuration is invalid and contains the following 2 error(s):\n" in message
    assert "Invalid value 0 for configuration tasks.max: Value must be at least 1" in message
    assert "Invalid value zz for configuration batch.size: Not a number of type" in message
    del (without := dict(config))["topic"]
    message = post(400, {**made, "config": without})
    assert 'Missing required configuration "topic" which has no default value.' in message
    message = post(400, {**made, "config": {**config, "exactly.once.support": "x", "transaction.boundary": "y"}})
    assert "Invalid value x for configuration exactly.once.support: String must be one of (case insensitive)" in message
    assert "Invalid value y for configuration transaction.boundary: String must be one of (case insens" in message
    post(400, {**made, "config": {**config, "connector.class": "no.such.Thing"}})
    post(500, b"{nope")
    post(500, {**made, "unknown": 1})
    post(500, {**made, "initial_state": "LATER"})
    assert rest.ask("POST", "/connectors", b"{}", Content_Type="text/plain")[0] == 415
    assert rest.ask("POST", "/connectors", made)[0] == 201
    assert "already exists" in post(409, made)
    assert rest.ask("DELETE", f"/connectors/{name}")[0] == 204


def test_plugins_and_validation(rest: Rest) -> None:
    status, listed = rest.ask("GET", "/connector-plugins")
    assert all(one.keys() == {"class", "type", "version"} for one in listed)
    assert any(one["type"] == "source" and "FileStreamSource" in one["class"] for one in listed)
    assert len(rest.ask("GET", "/connector-plugins?connectorsOnly=false")[1]) > len(listed)
    status, definitions = rest.ask("GET", f"/connector-plugins/{FILE_SOURCE}/config")
    by_name = {one["name"]: one for one in definitions}
    assert by_name["topic"]["required"]
    assert by_name["transaction.boundary"]["default_value"] == "poll"
    fields = {
        "name", "type", "required", "default_value", "importance", "documentation", "group", "order_in_group", "width",
        "display_name", "dependents",
    }  # fmt: skip
    assert all(one.keys() == fields for one in definitions)
    _, config = rest.new()
    path = f"/connector-plugins/{FILE_SOURCE}/config/validate"
    status, shown = rest.ask("PUT", path, {**config, "tasks.max": "0"})
    assert shown.keys() == {"name", "error_count", "groups", "configs"}
    assert (status, shown["error_count"]) == (200, 2)
    errors = {one["value"]["name"]: one["value"]["errors"] for one in shown["configs"] if one["value"]["errors"]}
    assert errors["name"] == ['Missing required configuration "name" which has no default value.']
    assert errors.keys() == {"name", "tasks.max"}
    values = shown["configs"][0]["value"]
    assert values.keys() == {"name", "value", "recommended_values", "errors", "visible"}
    assert rest.ask("PUT", path, {**config, "name": "n"})[1]["error_count"] == 0
    status, refused = rest.ask("PUT", path, {**config, "connector.class": "Other"})
    assert status == 400
    assert "Included connector type Other does not match request type FileStreamSource" in refused["message"]


def test_a_task_that_fails_is_shown_with_its_trace_and_restarts(rest: Rest) -> None:
    name, config = rest.new()
    offsets = rest.worker["offset.storage.topic"]
    rest.ask("PUT", f"/connectors/{name}/config", {**config, "topic": offsets})
    rest.wait_states(name, "RUNNING", "FAILED")
    (task,) = rest.ask("GET", f"/connectors/{name}/status")[1]["tasks"]
    assert "ource tasks may not produce to their own offsets topics" in task["trace"]
    assert rest.ask("PUT", f"/connectors/{name}/config", config)[0] == 200
    rest.wait_states(name, "RUNNING", "RUNNING")
    wait_for(lambda: rest.values(name) == ["line 0", "line 1", "line 2"], "its lines", 60)


def test_a_path_may_end_in_a_slash(rest: Rest) -> None:
    name, config = rest.new()
    status, made = rest.ask("POST", "/connectors/", {"name": name, "config": config})
    assert (status, made["name"]) == (201, name)
    rest.wait_states(name, "RUNNING", "RUNNING")
    assert rest.ask("GET", "/connectors/") == (200, [name])
    assert rest.ask("GET", f"/connectors/{name}/config/") == rest.ask("GET", f"/connectors/{name}/config")
    assert rest.ask("PUT", f"/connectors/{name}/pause/") == (202, None)
    assert rest.ask("GET", "/connector-plugins/")[0] == 200
    assert rest.ask("DELETE", f"/connectors/{name}/") == (204, None)


def test_names_with_control_characters_are_refused(rest: Rest) -> None:
    name, config = rest.new()
    status, refused = rest.ask("POST", "/connectors", {"name": f"{name}\nand\x7f", "config": config})
    text = "String may not contain control sequences but had the following ASCII chars: 10, 127"
    assert (status, text in refused["message"]) == (400, True), refused
    assert rest.ask("PUT", f"/connectors/{name}%0Aand%7F/config", config)[0] == 400
    assert rest.ask("GET", "/connectors") == (200, [])


def test_names_with_blanks(rest: Rest) -> None:
    name, config = rest.new()
    name = f"{name} and more"
    assert rest.ask("POST", "/connectors", {"name": name, "config": config})[0] == 201
    rest.wait_states(quote(name), "RUNNING", "RUNNING")
    assert rest.ask("GET", f"/connectors/{quote(name)}")[1]["name"] == name


def test_a_sink_and_its_offsets(rest: Rest) -> None:
    name, _ = rest.new()
    out = rest.folder / f"{name}.out"
    produce(rest.servers, name, [{"value": f"v{number}"} for number in range(3)])
    config = {"connector.class": "FileStreamSinkConnector", "topics": name, "file": str(out)}
    status, made = rest.ask("POST", "/connectors", {"name": name, "config": {**config, "topics.regex": "x"}})
    assert (status, "are mutually exclusive options, but both are set" in made["message"]) == (400, True)
    status, made = rest.ask("POST", "/connectors", {"name": name, "config": config})
    assert (status, made["type"]) == (201, "sink")
    rest.wait_states(name, "RUNNING", "RUNNING")
    wait_for(lambda: out.exists() and out.read_text() == "v0\nv1\nv2\n", "3 lines", 60)
    path, partition = f"/connectors/{name}/offsets", {"kafka_topic": name, "kafka_partition": 0}
    rest.ask("PUT", f"/connectors/{name}/stop")
    rest.wait_states(name, "STOPPED")
    wait_for(
        lambda: rest.ask("GET", path)[1] == {"offsets": [{"partition": partition, "offset": {"kafka_offset": 3}}]},
        lambda: str(rest.ask("GET", path)),
    )
    change = {"offsets": [{"partition": partition, "offset": {"kafka_offset": "1"}}]}
    done = "The offsets for this connector have been {} successfully"
    assert rest.ask("PATCH", path, change) == (200, {"message": done.format("altered")})
    for bad, text in (
        ({"partition": None, "offset": None}, "The partition for a sink connector offset cannot be null or missing"),
        ({"partition": {"kafka_topic": name}, "offset": None}, "must contain the keys 'kafka_topic' and"),
        ({"partition": partition, "offset": {"a": 1}}, "should either be null or contain the key 'kafka_offset'"),
    ):
        status, refused = rest.ask("PATCH", path, {"offsets": [bad]})
        assert (status, text in refused["message"]) == (400, True), refused
    rest.ask("PUT", f"/connectors/{name}/resume")
    wait_for(lambda: out.read_text() == "v0\nv1\nv2\nv1\nv2\n", out.read_text, 60)
    rest.ask("PUT", f"/connectors/{name}/stop")
    rest.wait_states(name, "STOPPED")
    removed = {"offsets": [{"partition": partition, "offset": None}]}
    assert rest.ask("PATCH", path, removed) == (200, {"message": done.format("altered")})
    assert rest.ask("GET", path) == (200, {"offsets": []})
    with _member(rest.servers, f"connect-{name}", name):
        for method, body, what in (("PATCH", change, "alter"), ("DELETE", None, "reset")):
            status, refused = rest.ask(method, path, body)
            assert f"Failed to {what} consumer group offsets for connector {name}" in refused["message"]
            assert (status, "zombie sink task" in refused["message"]) == (500, True), refused
    assert rest.ask("DELETE", path) == (200, {"message": done.format("reset")})
    assert rest.ask("GET", path) == (200, {"offsets": []})


def test_a_sink_is_paused_restarted_and_deleted(rest: Rest) -> None:
    name, _ = rest.new()
    out = rest.folder / f"{name}.out"
    config = {"connector.class": "FileStreamSinkConnector", "topics": name, "file": str(out)}
    assert rest.ask("POST", "/connectors", {"name": name, "config": config})[0] == 201
    rest.wait_states(name, "RUNNING", "RUNNING")
    produce(rest.servers, name, [{"value": "v0"}])
    wait_for(lambda: out.exists() and out.read_text() == "v0\n", "a line")
    wait_for(lambda: rest.ask("GET", f"/connectors/{name}/topics") == (200, {name: {"topics": [name]}}), "its topic")
    rest.ask("PUT", f"/connectors/{name}/pause")
    rest.wait_states(name, "PAUSED", "PAUSED")
    produce(rest.servers, name, [{"value": "v1"}])
    rest.ask("PUT", f"/connectors/{name}/resume")
    wait_for(lambda: out.read_text() == "v0\nv1\n", out.read_text)
    assert rest.ask("POST", f"/connectors/{name}/tasks/0/restart")[0] == 204
    produce(rest.servers, name, [{"value": "v2"}])
    wait_for(lambda: out.read_text() == "v0\nv1\nv2\n", out.read_text)
    assert rest.ask("DELETE", f"/connectors/{name}")[0] == 204
    assert rest.ask("GET", f"/connectors/{name}")[0] == 404


@contextmanager
def _member(servers: str, group: str, topic: str) -> Iterator[None]:
    """Be a member of a group meanwhile."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([topic])
    wait_for(lambda: (consumer.poll(0.2), consumer.assignment())[1], "an assignment")
    try:
        yield
    finally:
        consumer.close()
