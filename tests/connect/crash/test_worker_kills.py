"""The worker killed with SIGKILL at each step of a new generation of tasks, under load: each record once."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.sandbox.ports import Ports
from semel.steps import HerderStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.program import Program
from semel.testing.records import arrived, read
from semel.testing.spark.spark_cluster import SparkCluster
from tests.connect.support.lines import SEMEL, STRING
from tests.connect.support.rest import Rest
from tests.support import topics
from tests.support.waiting import wait_for

ROWS = 1_500
LOCAL = SparkCluster("local[8,4]")


@dataclass(frozen=True)
class Setting:
    """A topic, a worker's command line, its REST, and the connector that it is to run."""

    name: str
    argv: list[str]
    rest: Rest
    config: dict[str, str]

    def put(self, tasks: int, driver: Program) -> None:
        """Configure it, once the worker answers."""
        wait_for(lambda: driver.process.poll() is not None or self.rest.answers(), driver.tail, 90)
        path = f"/connectors/{self.name}/config"
        assert self.rest.ask("PUT", path, {**self.config, "tasks.max": str(tasks)})[0] in (200, 201), driver.tail()

    def wait_arrived(self, rows: int, driver: Program) -> None:
        wait_for(lambda: arrived(self.rest.servers, self.name) >= rows, driver.tail, 120)

    def check_exact(self, tasks: int) -> None:
        """Each record of each task once."""
        values = read(self.rest.servers, [self.name], {"value": "value"})["value"].to_pylist()
        rows = sorted((row["task"], row["id"]) for row in map(json.loads, values))
        assert rows == [(task, number) for task in range(tasks) for number in range(ROWS)]


def _setting(kafka: Sandbox, folder: Path, name: str) -> Setting:
    topics.create(kafka.bootstrap_servers, name, 2)
    ports = Ports(1)
    worker = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": name,
        **{f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")},
        "offset.storage.partitions": "3",
        "key.converter": STRING,
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "exactly.once.source.support": "enabled",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1500",
        "listeners": f"http://127.0.0.1:{ports.numbers[0]}",
    }
    ports.release()
    file = folder / f"worker-{ports.numbers[0]}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in worker.items()))
    config = {"connector.class": "DatagenSource", "topic": name, "iterations": str(ROWS), "rate": "300"}
    rest = Rest("killed", worker["listeners"], kafka.bootstrap_servers, worker, folder)
    return Setting(name, [*SEMEL, "connect", str(file)], rest, config)


@pytest.mark.exhaustive  # its sample is test_kills.py: a worker is killed there, and goes on with what is stored
@pytest.mark.parametrize("step", HerderStep)
def test_the_worker_is_killed_in_a_reconfiguration(kafka: Sandbox, tmp_path: Path, step: HerderStep) -> None:
    setting = _setting(kafka, tmp_path, f"killed-{step.value}")
    plan = CrashPlan(tmp_path / "plan", CrashPoint(step, 2))
    with LOCAL.driver(setting.argv, plan) as driver:
        setting.put(3, driver)
        setting.wait_arrived(300, driver)
        with suppress(OSError):  # it may die before it has answered
            setting.put(2, driver)
        wait_for(lambda: plan.struck(plan.points[0]), driver.tail, 60)
        driver.wait(60)
    with LOCAL.driver(setting.argv, CrashPlan(tmp_path / "none")) as driver:
        setting.put(3, driver)
        setting.wait_arrived(3 * ROWS, driver)
    setting.check_exact(3)


def _other(setting: Setting, folder: Path) -> list[str]:
    """The command line of a second worker of the group."""
    file = folder / "other.properties"
    other = {**setting.rest.worker, "listeners": ""}
    file.write_text("".join(f"{key}={value}\n" for key, value in other.items()))
    return [*SEMEL, "connect", str(file)]


@pytest.mark.exhaustive  # its sample is test_group.py: a leader leaves there, or is fenced
def test_the_leader_is_killed_and_the_other_one_goes_on(kafka: Sandbox, tmp_path: Path) -> None:
    setting = _setting(kafka, tmp_path, "killed-leader")
    none = CrashPlan(tmp_path / "none")
    with LOCAL.driver(setting.argv, none) as leader:
        setting.put(2, leader)
        with LOCAL.driver(_other(setting, tmp_path), none) as other:
            wait_for(lambda: "standing by" in other.tail(), other.tail, 90)
            setting.wait_arrived(300, leader)
            leader.process.kill()
            leader.wait(60)
            wait_for(lambda: "leads group killed-leader now" in other.tail(), other.tail, 60)
            setting.wait_arrived(2 * ROWS, other)
    setting.check_exact(2)


@pytest.mark.exhaustive
def test_a_frozen_leader_that_thaws_ends_its_tasks_and_stands_by(kafka: Sandbox, tmp_path: Path) -> None:
    """While it is frozen the other worker takes over, and a task of its own may still be at work."""
    setting = _setting(kafka, tmp_path, "frozen-leader")
    none = CrashPlan(tmp_path / "none")
    with LOCAL.driver(setting.argv, none) as frozen:
        setting.put(2, frozen)
        with LOCAL.driver(_other(setting, tmp_path), none) as other:
            wait_for(lambda: "standing by" in other.tail(), other.tail, 90)
            setting.wait_arrived(300, frozen)
            frozen.process.send_signal(signal.SIGSTOP)
            wait_for(lambda: "RUNNING" in other.tail(), other.tail, 120)
            frozen.process.send_signal(signal.SIGCONT)
            wait_for(lambda: "another worker leads this group now" in frozen.tail(), frozen.tail, 60)
            setting.wait_arrived(2 * ROWS, other)
            assert frozen.process.poll() is None
            frozen.process.send_signal(signal.SIGINT)
            assert frozen.wait(60) == 0
    setting.check_exact(2)
