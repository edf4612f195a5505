"""Several tasks and their generations, boundaries, what is stored of a connector, and what is done around a record."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from pyspark.sql import SparkSession

from semel.connect.stores.config_format import STARTED, STOPPED
from semel.connect.worker.worker import Worker
from semel.errors import ConfigError, Retriable
from semel.processes.supervisor import State
from semel.sandbox import Sandbox
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.testing.records import arrived, read
from tests.connect.support.numbers import Announced
from tests.connect.support.place import Place
from tests.connect.support.running import Running
from tests.support import topics
from tests.support.other_client import Transactional
from tests.support.waiting import wait_for

DATAGEN = {"connector.class": "DatagenSource", "rate": "200", "batch.size": "20", "iterations": "400"}
JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}


@pytest.fixture
def place(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Place:
    return Place(spark, kafka.bootstrap_servers, tmp_path)


def _log(servers: str, topic: str) -> list[tuple[bytes, Any]]:
    """All committed records of a topic of one partition, in order."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "isolation.level": "read_committed"})
    found = []
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, 30)
        consumer.assign([partition])
        while consumer.position([partition])[0].offset < end:
            for message in consumer.consume(1000, 0.2):
                value = message.value()
                found += [(message.key(), value and json.loads(value))]
    finally:
        consumer.close()
    return found


def _has_tasks(running: Running, name: str, tasks: int) -> bool:
    return len(running.worker.herder.info(name)["tasks"]) == tasks


def test_generations_of_several_tasks(place: Place) -> None:
    """Reconfigured under load: 2 tasks, 1, 2 again, and then another worker. Each record once, and one fencing round
    before each generation. More tasks at a time than Spark has slots here would wait.
    """
    config = {**DATAGEN, **JSON, "name": place.name, "topic": place.topic, "tasks.max": "2"}
    with place.running(**place.stored) as running:
        herder = running.worker.herder
        herder.put(place.name, config)
        for number, tasks in enumerate((1, 2), start=1):
            place.wait_arrived(150 * number)
            herder.put(place.name, {**config, "tasks.max": str(tasks)})
            wait_for(partial(_has_tasks, running, place.name, tasks), f"{tasks} tasks")
        place.wait_arrived(450)
    with place.running(**place.stored) as running:  # what is stored is all that it knows
        place.wait_arrived(800)
        assert running.worker.herder.status(place.name)["connector"]["state"] == "RUNNING"
    rows = [json.loads(value) for value in place.values()]
    assert sorted((row["task"], row["id"]) for row in rows) == [(task, i) for task in range(2) for i in range(400)]
    log = _log(place.servers, place.configs)
    kinds = [(key.decode(), value) for key, value in log if key.startswith((b"commit-", b"tasks-fencing-"))]
    counts = (2, 1, 2)
    assert kinds == [
        pair
        for count in counts
        for pair in ((f"commit-{place.name}", {"tasks": count}), (f"tasks-fencing-{place.name}", {"task-count": count}))
    ]
    configs = [value["properties"] for key, value in log if key == f"task-{place.name}-1".encode()]
    assert configs[-1] == {**config, "task": "1", "task.class": "semel.connect.connectors.datagen.DatagenSource"}
    assert [key for key, _ in log].count(b"session-key") == 2


def test_a_task_that_was_fenced_starts_again(place: Place) -> None:
    with place.running(place.numbers(3000)) as running:
        place.wait_arrived(50)
        Transactional(place.servers, f"{place.worker['group.id']}-{place.name}-0")
        place.wait_arrived(3000)
        assert running.states[f"{place.name}-0"].launches == 2
    assert sorted(map(int, place.values())) == list(range(3000))


def test_kafkas_states_are_stored_and_a_stopped_connector_has_no_tasks(place: Place) -> None:
    with place.running(place.numbers(20), **place.stored) as running:
        place.wait_arrived(20)
        wait_for(lambda: running.worker.herder.status(place.name)["tasks"][0]["state"] == "RUNNING", "its state")
        running.worker.herder.set_target(place.name, STOPPED)
        wait_for(lambda: running.worker.herder.status(place.name)["connector"]["state"] == "STOPPED", "its end")
        assert running.worker.herder.status(place.name)["tasks"] == []
    rows = read(place.servers, [place.statuses], {"key": "key", "value": "value"}, missing="").to_pylist()
    kept = {row["key"]: row["value"] for row in sorted(rows, key=lambda row: row["offset"])}
    stored = json.loads(kept[f"status-connector-{place.name}"])
    assert list(stored) == ["state", "trace", "worker_id", "generation", "version"]
    assert (stored["state"], stored["trace"]) == ("STOPPED", None)
    assert kept[f"status-task-{place.name}-0"] == ""
    topic = json.loads(kept[f"status-topic-{place.topic}:connector-{place.name}"])["topic"]
    assert list(topic) == ["name", "connector", "task", "discoverTimestamp"]
    target = dict(_log(place.servers, place.configs))[f"target-state-{place.name}".encode()]
    assert target == {"state": "PAUSED", "state.v2": "STOPPED"}
    with place.running(**place.stored) as running:  # and it stays so
        assert running.worker.herder.info(place.name)["tasks"] == []
        wait_for(lambda: running.worker.statuses.shown(place.name) is not None, "its state")
        assert running.worker.herder.status(place.name)["connector"]["state"] == "STOPPED"


def test_the_boundary_interval(place: Place) -> None:
    config = place.numbers(200, transaction__boundary="interval")
    config["transaction.boundary"] = config.pop("transaction__boundary")
    config["transaction.boundary.interval.ms"] = "700"
    with place.running(config, offset_flush_interval_ms="600000"):
        place.wait_arrived(200)
    commits = read(place.servers, [place.offsets], {"value": "value"}, missing="").to_pylist()
    kept = [row["value"] for row in commits if row["value"]]
    assert kept[-1] == '{"next":200}'
    assert len(kept) <= 5, "all polls of an interval are one transaction"
    with place.running({**config, "limit": "230", "transaction.boundary.interval.ms": "600000"}) as running:
        running.wait_started(f"{place.name}-0")
        wait_for(lambda: running.told[f"{place.name}-0"]["records"] == 30, "the last 30")
        assert arrived(place.servers, place.topic) == 200
    assert sorted(map(int, place.values())) == list(range(230)), "what is left is committed at the end"


def test_the_boundary_of_a_connector(place: Place) -> None:
    """It commits behind each seventh number, discards some, and what it leaves open is aborted and read again."""
    config = {
        "name": place.name,
        "connector.class": "tests.connect.support.numbers.Chosen",
        "topic": place.topic,
        "transaction.boundary": "connector",
    }
    with place.running({**config, "limit": "45"}) as running:
        place.wait_arrived(28)
        running.wait_started(f"{place.name}-0")
        wait_for(lambda: running.told[f"{place.name}-0"]["records"] == 45, "all of them")
    first = sorted(map(int, place.values()))
    assert first == [*range(14), *range(21, 35)], "14 to 20 and 35 to 41 are discarded, 42 to 44 are open"
    with place.running({**config, "limit": "49"}):
        place.wait_arrived(35)
    assert sorted(map(int, place.values())) == [*first, *range(42, 49)]


@pytest.mark.exhaustive
def test_a_task_whose_transactions_expire_again_and_again_fails(place: Place) -> None:
    config = place.numbers(10_000_000)
    config |= {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "600000"}
    with place.running(config, producer_transaction_timeout_ms="500") as running:
        failed = running.wait_state(f"{place.name}-0", State.FAILED)
        assert "expired 3 times in a row" in failed.reason
        assert "shorten transaction.boundary.interval.ms" in failed.reason
        assert running.states[f"{place.name}-0"].launches == 4
    assert arrived(place.servers, place.topic) == 0


@pytest.mark.exhaustive  # its sample is tests/connect/unit/test_transforms.py
def test_json_transformations_and_dead_letters(place: Place) -> None:
    dead = topics.create(place.servers, f"{place.topic}-dead")
    kept = topics.create(place.servers, f"kept-{place.topic}")
    place.file.write_bytes(b"one\ntwo\nb\xff\nthree\n")
    config = place.lines(
        **{
            "transforms": "wrap,from,route",
            "transforms.wrap.type": "HoistField$Value",
            "transforms.wrap.field": "line",
            "transforms.from.type": "InsertField$Value",
            "transforms.from.static.field": "from",
            "transforms.from.static.value": "a file",
            "transforms.route.type": "RegexRouter",
            "transforms.route.regex": "(.*)",
            "transforms.route.replacement": "kept-$1",
        }
    )
    with place.running({**config, **JSON}):
        wait_for(lambda: arrived(place.servers, kept) >= 4, "4 lines", 60)
    shown = [json.loads(value) for value in read(place.servers, [kept], {"value": "value"})["value"].to_pylist()]
    assert [row["from"] for row in shown] == ["a file"] * 4
    tolerant = place.lines("tolerant")
    tolerant |= {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead}
    with place.running(tolerant):
        place.wait_arrived(3)
        wait_for(lambda: arrived(place.servers, dead) >= 1, "the one that is no text", 60)
    assert sorted(place.values()) == ["one", "three", "two"]


def test_what_is_too_large_is_left_out_and_not_its_task(place: Place) -> None:
    small = topics.create(place.servers, f"{place.topic}-small", max_message_bytes="1000")
    dead = topics.create(place.servers, f"{place.topic}-too-large")
    place.file.write_text(f"one\n{'x' * 2_000}\nthree\n")
    config = place.lines(**{"errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead})
    config |= {"topic": small, "errors.deadletterqueue.context.headers.enable": "true"}
    with place.running(config):
        wait_for(lambda: arrived(place.servers, small) >= 2, "those that fit", 60)
        (letter,) = read(place.servers, [dead], {"value": "value"})["value"].to_pylist()
    assert str(letter) == "x" * 2_000
    assert read(place.servers, [small], {"value": "value"})["value"].to_pylist() == ["one", "three"]


def test_topics_that_will_not_do(place: Place) -> None:
    topics.create(place.servers, place.configs, 2, cleanup_policy="compact")
    more = {name.replace("_", "."): value for name, value in place.stored.items()}
    worker = Worker({**place.worker, **more}, [place.numbers(1)])
    with pytest.raises(ConfigError, match="must have exactly 1"):
        worker.prepare()
    worker.stop()


def test_a_topic_that_is_missing_is_made_as_the_connector_says(place: Place) -> None:
    """By KIP-158. One that is there stays as it is: the first one has three partitions."""
    made = f"made-{place.topic}"
    creation = {
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "2",
        "topic.creation.groups": "made",
        "topic.creation.made.include": "made-.*",
        "topic.creation.made.retention.ms": "123456",
    }
    route = {
        "transforms": "x",
        "transforms.x.type": "RegexRouter",
        "transforms.x.regex": "its-(.*)",
        "transforms.x.replacement": "made-its-$1",
    }
    with place.running(
        place.numbers(20, **creation),
        place.numbers(20, name="routed", **creation, **route),
    ):
        place.wait_arrived(20)
        wait_for(lambda: arrived(place.servers, made) >= 20, "what is routed", 60)
    admin = AdminClient({"bootstrap.servers": place.servers})
    found = admin.list_topics(timeout=30).topics
    assert (len(found[place.topic].partitions), len(found[made].partitions)) == (3, 2)
    resource = ConfigResource(ConfigResource.Type.TOPIC, made)
    assert admin.describe_configs([resource])[resource].result(30)["retention.ms"].value == "123456"


def test_offsets_are_not_changed_under_a_connector_that_was_resumed_meanwhile(place: Place) -> None:
    """Whoever changes them looks once more behind what it waits for."""
    config = place.numbers(20) | {"connector.class": "tests.connect.support.numbers.Announced"}
    with place.running(config, **place.stored) as running, ThreadPoolExecutor(1) as pool:
        place.wait_arrived(20)
        herder, lifecycle = running.worker.herder, running.worker._now._lifecycle
        herder.set_target(place.name, STOPPED)
        wait_for(lambda: herder.status(place.name)["connector"]["state"] == "STOPPED", "its end")
        Announced.made.clear()
        with lifecycle.quiet(place.name):
            changed = pool.submit(herder.alter_offsets, place.name, None)
            assert Announced.made.wait(30), "it has found the connector stopped, and waits"
            herder.set_target(place.name, STARTED)
        with pytest.raises(ConfigError, match="must be in the STOPPED state"):
            changed.result(60)
        assert herder.offsets(place.name) == [
            {"partition": {"name": "numbers", "base": 10}, "offset": {"next": 20}},
        ]
    assert sorted(map(int, place.values())) == list(range(20))


@pytest.mark.exhaustive
def test_offsets_stay_where_the_tasks_before_cannot_be_fenced(place: Place) -> None:
    """Its admin client cannot reach the cluster any more."""
    with FaultProxy(place.servers) as proxy:
        admin = {"bootstrap.servers": proxy.bootstrap_servers, "default.api.timeout.ms": "3000"}
        admin |= {"request.timeout.ms": "1000", "delivery.timeout.ms": "3000"}
        place.worker |= {f"admin.{name}": value for name, value in admin.items()}
        with place.running(place.numbers(20), **place.stored) as running:
            place.wait_arrived(20)
            herder = running.worker.herder
            herder.set_target(place.name, STOPPED)
            wait_for(lambda: herder.status(place.name)["connector"]["state"] == "STOPPED", "its end")
            proxy.stop()
            with pytest.raises(Retriable, match=r"Failed to perform zombie fencing .* prior to modifying offsets"):
                herder.alter_offsets(place.name, None)
    rows = read(place.servers, [place.offsets], {"key": "key", "value": "value"}, missing="").to_pylist()
    assert [row["value"] for row in rows if row["value"]][-1] == '{"next":20}'
    assert not [row for row in rows if "numbers" in row["key"].partition(",")[2] and not row["value"]]
