"""A secret that a config provider gives is nowhere: not in logs, REST, topics, statuses, or what Spark shows and keeps.

The connectors that have it fail, each in its own place, since an error is where a secret would be shown.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from semel.sandbox.ports import Ports
from semel.sandbox.processes import children
from semel.testing.crash import CrashPlan
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import SparkCluster
from tests.connect.support.lines import SEMEL
from tests.connect.support.place import Place
from tests.connect.support.rest import Rest
from tests.support.secured import EVERYTHING, secured_kafka
from tests.support.waiting import wait_for

IN_A_FILE, IN_THE_ENVIRONMENT = "h0rse-battery-staple", "correct-pa55-phrase"
GUARDED = "tests.connect.support.numbers.Guarded"


def _place(spark: SparkSession, servers: str, tmp_path: Path) -> Place:
    made = Place(spark, servers, tmp_path)
    (tmp_path / "secrets.properties").write_text(f"password={IN_A_FILE}\n")
    made.worker |= {
        "config.providers": "file,env",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.env.class": "EnvVarConfigProvider",
    }
    return made


def _connectors(place: Place) -> dict[str, dict[str, str]]:
    """One whose poll raises, one whose tasks do, and one that cannot reach its database. Each has the secret."""
    secret = f"${{file:{place.file.parent}/secrets.properties:password}}"
    guarded = place.numbers(10, "raise", token=secret) | {"connector.class": GUARDED}
    ports = Ports(1)
    ports.release()
    database = {
        "connector.class": "SqlSource",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{ports.numbers[0]}/none?user=me&password={secret}",
        "connection.password": secret,
        "mode": "incrementing",
        "table.whitelist": "orders",
        "topic.prefix": place.topic,
    }
    return {
        "in-its-poll": guarded | {"name": "in-its-poll"},
        "in-its-tasks": guarded | {"name": "in-its-tasks", "then": "raise in tasks"},
        "in-its-database": database | {"name": "in-its-database"},
    }


def _create(rest: Rest, connectors: dict[str, dict[str, str]]) -> None:
    """Create them, and wait until each has failed in its place."""
    for name, config in connectors.items():
        status, body = rest.ask("PUT", f"/connectors/{name}/config", config)
        assert status == 201, body
    for name in connectors:
        rest.wait_states(name, *(["RUNNING", "FAILED"] if name == "in-its-poll" else ["FAILED"]))


def _answers(rest: Rest, connectors: dict[str, dict[str, str]]) -> Iterator[str]:
    """All that REST says of them, and of a configuration in which the secret is a mistake."""
    paths = ["/", "/connectors", "/connectors?expand=info&expand=status", "/semel/tasks", "/admin/loggers"]
    for name in connectors:
        paths += [f"/connectors/{name}{path}" for path in ("", "/config", "/status", "/tasks", "/topics", "/offsets")]
    for path in (*paths, "/connectors/in-its-poll/tasks/0/status"):
        yield json.dumps(rest.ask("GET", path))
    for name, config in connectors.items():
        wrong = {**config, "tasks.max": config.get("token", config.get("connection.password", ""))}
        plugin = config["connector.class"]
        validated = rest.ask("PUT", f"/connector-plugins/{plugin}/config/validate", wrong)
        assert validated[0] == 200
        assert validated[1]["error_count"] >= 1
        yield json.dumps(validated)
        refused = rest.ask("PUT", f"/connectors/{name}/config", wrong)
        assert refused[0] == 400
        yield json.dumps(refused)


def _stored(servers: str, topics: Sequence[str]) -> Iterator[str]:
    """Every record of these topics, the aborted ones too."""
    settings = {"isolation.level": "read_uncommitted", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", **settings})
    try:
        known = consumer.list_topics(timeout=30).topics
        partitions = [TopicPartition(topic, index, 0) for topic in topics for index in known[topic].partitions]
        consumer.assign(partitions)
        left = len(partitions)
        while left:
            message = consumer.poll(60)
            if not message.error():
                yield repr((message.key(), message.value()))
                continue
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            left -= 1
    finally:
        consumer.close()


def _check(where: str, texts: Iterator[str], least: int = 1) -> None:
    looked_at = list(texts)
    for text in looked_at:
        for secret in (IN_A_FILE, IN_THE_ENVIRONMENT):
            assert secret not in text, f"{where}: {text[:2000]}"
    assert len(looked_at) >= least, f"nothing of {where} was looked at"


def test_rest_topics_and_the_drivers_log(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = _place(spark, kafka.bootstrap_servers, tmp_path)
    connectors = {"in-its-poll": _connectors(place)["in-its-poll"]}
    with caplog.at_level(logging.DEBUG), place.running(**place.stored | {"listeners": "http://127.0.0.1:0"}) as running:
        rest = Rest("secret", running.worker.addresses[0], place.servers, place.worker, place.file.parent)
        _create(rest, connectors)
        _check("REST", _answers(rest, connectors), 14)
        _check("states", map(repr, running.states.values()))
    _check("the topics", _stored(place.servers, [place.configs, place.statuses, place.offsets, place.topic]), 10)
    _check("the log", iter([caplog.text]))


@contextmanager
def _worker(place: Place, ports: Ports, events: Path) -> Iterator[Program]:
    """A worker in a process of its own, with Spark's UI and event log."""
    given = {name.replace("_", "."): value for name, value in place.stored.items()} | place.worker
    given |= {"listeners": f"http://127.0.0.1:{ports.numbers[0]}"}
    file = place.file.parent / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    shown = {"spark.ui.enabled": "true", "spark.ui.port": str(ports.numbers[1])}
    kept = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
    ports.release()
    spark = SparkCluster("local[8,4]", shown | kept)
    with spark.driver([*SEMEL, "connect", str(file)], CrashPlan(place.file.parent / "none")) as driver:
        yield driver


def _spark_answers(port: int) -> Iterator[str]:
    """All that Spark's REST says of the application, and its page of the environment."""
    api = f"http://127.0.0.1:{port}/api/v1/applications"
    (application,) = json.loads(_text(api))
    for path in ("environment", "jobs", "stages?details=true", "executors", "allexecutors", "storage/rdd", "sql"):
        yield _text(f"{api}/{application['id']}/{path}")
    for page in ("environment", "jobs", "stages", "executors"):
        yield _text(f"http://127.0.0.1:{port}/{page}/")


def _text(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.exhaustive
def test_the_worker_as_a_whole(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own file has the other secret: the password of its user."""
    with secured_kafka() as cluster:
        cluster.add_scram_user("connect", IN_THE_ENVIRONMENT)
        cluster.allow("connect", EVERYTHING)
        monkeypatch.setenv("ITS_PASSWORD", IN_THE_ENVIRONMENT)
        place = _place(spark, cluster.kafka.bootstrap_servers, tmp_path)
        place.worker |= cluster.login("SCRAM-SHA-256", "connect", "${env:ITS_PASSWORD}")
        _check_worker(place, tmp_path)


def _check_worker(place: Place, tmp_path: Path) -> None:
    ports, connectors, events = Ports(2), _connectors(place), tmp_path / "events"
    events.mkdir()
    with _worker(place, ports, events) as driver:
        rest = Rest("secret", f"http://127.0.0.1:{ports.numbers[0]}", place.servers, place.worker, tmp_path)
        wait_for(rest.answers, driver.tail, 90)
        _create(rest, connectors)
        _check("REST", _answers(rest, connectors), 25)
        _check("Spark", _spark_answers(ports.numbers[1]), 11)
        _check("command lines", (command for _, command in children(driver.process.pid)))
        driver.process.terminate()
        driver.wait(60)
    _check("the log", iter([driver.log.read_text(errors="replace")]))
    assert "LookupError" in driver.log.read_text(), "the failure is in the log"
    _check("the topics", _stored(place.servers, [place.configs, place.statuses, place.offsets, place.topic]), 10)
    _check("Spark's events", (one.read_text() for one in events.rglob("*") if one.is_file()))
