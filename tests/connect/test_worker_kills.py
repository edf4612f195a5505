"""The worker killed with SIGKILL at each step of a new generation of tasks, under load: each record once."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.sandbox.ports import Ports
from semel.steps import HerderStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.program import Program
from semel.testing.records import arrived, read
from semel.testing.spark.spark_cluster import SparkCluster
from tests import topics
from tests.connect.support.lines import SEMEL, STRING
from tests.connect.support.rest import Rest
from tests.waiting import wait_for

ROWS = 1_500
LOCAL = SparkCluster("local[8,4]")
SAMPLE = HerderStep.PREDECESSORS_FENCED


@pytest.mark.parametrize(
    "step", [step if step is SAMPLE else pytest.param(step, marks=pytest.mark.exhaustive) for step in HerderStep]
)
def test_the_worker_is_killed_in_a_reconfiguration(kafka: Sandbox, tmp_path: Path, step: HerderStep) -> None:
    name, ports = f"killed-{step.value}", Ports(1)
    topic = topics.create(kafka.bootstrap_servers, name, 2)
    worker = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": name,
        **{f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")},
        "offset.storage.partitions": "3",
        "key.converter": STRING,
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "exactly.once.source.support": "enabled",
        "listeners": f"http://127.0.0.1:{ports.numbers[0]}",
    }
    ports.release()
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in worker.items()))
    argv = [*SEMEL, "connect", str(file)]
    rest = Rest("killed", worker["listeners"], kafka.bootstrap_servers, worker, tmp_path)
    config = {"connector.class": "DatagenSource", "topic": topic, "iterations": str(ROWS), "rate": "300"}
    plan = CrashPlan(tmp_path / "plan", CrashPoint(step, 2))
    with LOCAL.driver(argv, plan) as driver:
        _put(rest, name, {**config, "tasks.max": "3"}, driver)
        wait_for(lambda: arrived(rest.servers, topic) > 300, driver.tail, 90)
        with suppress(OSError):  # it may die before it has answered
            rest.ask("PUT", f"/connectors/{name}/config", {**config, "tasks.max": "2"})
        wait_for(lambda: plan.struck(plan.points[0]), driver.tail, 60)
        driver.wait(60)
    with LOCAL.driver(argv, CrashPlan(tmp_path / "none")) as driver:
        wait_for(lambda: _configured(rest, name), driver.tail, 90)
        _put(rest, name, {**config, "tasks.max": "3"}, driver)
        wait_for(lambda: arrived(rest.servers, topic) >= 3 * ROWS, driver.tail, 90)
    rows = [json.loads(value) for value in read(rest.servers, [topic], {"value": "value"})["value"].to_pylist()]
    assert sorted((row["task"], row["id"]) for row in rows) == [(task, i) for task in range(3) for i in range(ROWS)]


def _put(rest: Rest, name: str, config: dict[str, str], driver: Program) -> None:
    def done() -> bool:
        assert driver.process.poll() is None, driver.tail()
        return _answers(rest)

    if driver.process.poll() is None:
        wait_for(done, driver.tail, 90)
    assert rest.ask("PUT", f"/connectors/{name}/config", config)[0] in (200, 201)


def _answers(rest: Rest) -> bool:
    try:
        return rest.ask("GET", "/health")[0] == 200
    except OSError:
        return False


def _configured(rest: Rest, name: str) -> bool:
    return _answers(rest) and rest.ask("GET", f"/connectors/{name}")[0] == 200
