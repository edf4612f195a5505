"""Tasks and drivers of a sink killed at each step, and a task that is frozen: each record is one row of PostgreSQL.

The tables have no key that would hide a second row.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from semel.connect import SinkTask
from semel.connect.connectors.sinks.sql import SqlSink, SqlSinkTask
from semel.sandbox import Sandbox
from semel.sandbox.processes import alive
from semel.steps import SinkTaskStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.postgres import Postgres
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import SparkCluster
from tests.connect.support.lines import SEMEL, STRING
from tests.support import topics
from tests.support.other_client import produce
from tests.support.waiting import wait_for

LOCAL = SparkCluster("local[4,4]")
SCHEMA = {"type": "struct", "optional": False, "fields": [{"field": "n", "type": "int32", "optional": False}]}
#: A driver is killed while one task has sent rows, and another has committed them.
HELD = [CrashPoint(SinkTaskStep.ROWS_SENT, 3, Action.HANG), CrashPoint(SinkTaskStep.TARGET_COMMITTED, 4, Action.HANG)]
SAMPLE = [CrashPoint(SinkTaskStep.TARGET_COMMITTED, 8), CrashPoint(SinkTaskStep.ROWS_SENT, 12)]
STARTING = [SinkTaskStep.SINK_ASSIGNED, SinkTaskStep.SINK_STARTED, SinkTaskStep.PARTITIONS_OPENED]
ALL = [
    *(CrashPoint(step, 2 + number) for number, step in enumerate(STARTING)),
    *(CrashPoint(step, 10 + 4 * number) for number, step in enumerate(SinkTaskStep) if step not in STARTING),
]
_numbers = count(1)


class Careless(SqlSink):
    """The control: a sink that forgets the target's offsets, so that only its group's count."""

    def task(self) -> SinkTask:
        return CarelessTask()


class CarelessTask(SqlSinkTask):
    def open(self, partitions: Any) -> None:
        self._kept.change(dict.fromkeys(partitions))
        super().open(partitions)


class Rows:
    """A sink of two tasks, its topic of three partitions, and its table."""

    def __init__(self, servers: str, postgres: Postgres, folder: Path, more: Mapping[str, str] | None = None) -> None:
        self.name, self.count, self._servers, self._postgres = f"sink-kills-{next(_numbers)}", 0, servers, postgres
        topics.create(servers, self.name, 3)
        worker = {
            "bootstrap.servers": servers,
            "group.id": f"group-of-{self.name}",
            "offset.storage.topic": f"offsets-of-{self.name}",
            "config.storage.topic": f"configs-of-{self.name}",
            "status.storage.topic": f"states-of-{self.name}",
            "listeners": "",
            "offset.flush.interval.ms": "200",
            "key.converter": STRING,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        }
        sink = {
            "name": self.name,
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "connection.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres",
            "connection.user": "postgres",
            "topics": self.name,
            "tasks.max": "2",
            "auto.create": "true",
            "retry.backoff.ms": "200",
            "max.retries": "1000",
            "consumer.override.max.poll.records": "20",
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.max.poll.interval.ms": "6000",  # a task that is held does not hold up the group
            **(more or {}),
        }
        files = {"worker.properties": worker, "sink.properties": sink}
        for file, properties in files.items():
            (folder / file).write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self.argv = [*SEMEL, "connect", *(str(folder / file) for file in files)]

    def produce(self, count: int) -> None:
        """Write more records."""
        numbers = range(self.count, self.count + count)
        self.count += count
        values = ({"value": json.dumps({"schema": SCHEMA, "payload": {"n": n}}), "partition": n % 3} for n in numbers)
        produce(self._servers, self.name, values)

    def written(self) -> Counter[int]:
        """Return how often each record is in the table."""
        try:
            with psycopg.connect(self._postgres.url.replace("+psycopg", "")) as connection:
                return Counter(n for (n,) in connection.execute(f'SELECT n FROM "{self.name}"').fetchall())
        except (psycopg.errors.UndefinedTable, psycopg.OperationalError):
            return Counter()

    def wait_all(self, driver: Program) -> None:
        wait_for(lambda: len(self.written()) == self.count, driver.tail)

    def check_exact(self) -> None:
        assert self.written() == Counter(range(self.count))


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@contextmanager
def running(rows: Rows, plan: CrashPlan) -> Iterator[Program]:
    """Run a worker under a plan, and have it end as Ctrl-C does, unless it was killed."""
    with LOCAL.driver(rows.argv, plan) as driver:
        yield driver
        if driver.process.poll() is None:
            driver.process.send_signal(signal.SIGINT)
            assert driver.wait(120) == 0, driver.tail()


def wait_struck(plan: CrashPlan, driver: Program, rows: Rows) -> None:
    """Wait for all points, with records that keep coming."""

    def struck(point: CrashPoint) -> bool:
        rows.produce(30)
        return plan.struck(point) or driver.process.poll() is not None

    for point in plan.points:
        wait_for(partial(struck, point), driver.tail)
        assert plan.struck(point), driver.tail()


def test_every_step_is_struck() -> None:
    assert {point.step for point in ALL} == set(SinkTaskStep)


@pytest.mark.parametrize(
    "points", [SAMPLE, pytest.param(ALL, marks=pytest.mark.exhaustive)], ids=["sample", "each step"]
)
def test_drivers_and_tasks(kafka: Sandbox, postgres: Postgres, tmp_path: Path, points: list[CrashPoint]) -> None:
    rows = Rows(kafka.bootstrap_servers, postgres, tmp_path)
    rows.produce(300)
    plan = CrashPlan(tmp_path / "held", *HELD)
    with running(rows, plan) as driver:
        wait_struck(plan, driver, rows)
        driver.process.send_signal(signal.SIGKILL)
        pids = [plan.victims(point)[-1] for point in HELD]
        wait_for(lambda: not any(map(alive, pids)), "the end of the tasks without their driver")
    plan = CrashPlan(tmp_path / "plan", *points)
    with running(rows, plan) as driver:
        wait_struck(plan, driver, rows)
        rows.wait_all(driver)
    rows.check_exact()


def test_a_task_that_was_frozen_writes_nothing_when_it_thaws(
    kafka: Sandbox, postgres: Postgres, tmp_path: Path
) -> None:
    rows = Rows(kafka.bootstrap_servers, postgres, tmp_path)
    rows.produce(300)
    frozen = CrashPoint(SinkTaskStep.RECORDS_READ, 5, Action.STOP)
    plan = CrashPlan(tmp_path / "plan", frozen)
    with running(rows, plan) as driver:
        wait_struck(plan, driver, rows)
        rows.wait_all(driver)  # by the other task
        before = sum(one.step == str(SinkTaskStep.ROWS_SENT) for one in plan.passed())
        assert before
        plan.release(frozen)
        wait_for(lambda: "newer claim" in driver.tail(), driver.tail)
        rows.produce(30)
        rows.wait_all(driver)
    rows.check_exact()


@pytest.mark.exhaustive
def test_a_database_that_is_killed_is_waited_for(kafka: Sandbox, postgres: Postgres, tmp_path: Path) -> None:
    rows = Rows(kafka.bootstrap_servers, postgres, tmp_path)
    rows.produce(300)
    held = CrashPoint(SinkTaskStep.ROWS_SENT, 5, Action.HANG)
    plan = CrashPlan(tmp_path / "plan", held)
    with running(rows, plan) as driver:
        wait_struck(plan, driver, rows)
        postgres.kill()
        plan.release(held)
        postgres.start()
        rows.produce(30)
        rows.wait_all(driver)
    rows.check_exact()


def test_offsets_elsewhere_double_rows(kafka: Sandbox, postgres: Postgres, tmp_path: Path) -> None:
    """The control: the same kill, and only the group's offsets."""
    more = {"connector.class": f"{__name__}.Careless", "tasks.max": "1"}
    rows = Rows(kafka.bootstrap_servers, postgres, tmp_path, more)
    rows.produce(300)
    plan = CrashPlan(tmp_path / "plan", CrashPoint(SinkTaskStep.TARGET_COMMITTED, 5))
    with running(rows, plan) as driver:
        wait_struck(plan, driver, rows)
        rows.wait_all(driver)
        wait_for(lambda: max(rows.written().values()) > 1, driver.tail)
