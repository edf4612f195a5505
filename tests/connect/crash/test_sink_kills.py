"""Tasks and drivers of a sink killed at each step, and tasks that are held.

Each record is one row of PostgreSQL, or one line of a file. No key hides a second one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from semel.connect import SinkBatch, SinkContext, SinkTask
from semel.connect.connectors.sinks.sql import SqlSink, SqlSinkTask
from semel.sandbox import Sandbox
from semel.sandbox.ports import Ports
from semel.sandbox.processes import alive
from semel.steps import SinkTaskStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.postgres import Postgres
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import SparkCluster
from tests.connect.support.lines import SEMEL, STRING
from tests.connect.support.rest import Rest
from tests.connect.support.sink_targets import Lines, Objects, Records, Rows, Snapshots, Tables
from tests.support.s3 import object_store
from tests.support.waiting import wait_for

LOCAL = SparkCluster("local[4,4]")
#: A driver is killed while one task has sent rows, and another has committed them.
HELD = [CrashPoint(SinkTaskStep.ROWS_SENT, 3, Action.HANG), CrashPoint(SinkTaskStep.TARGET_COMMITTED, 4, Action.HANG)]
SAMPLE = [CrashPoint(SinkTaskStep.TARGET_COMMITTED, 8), CrashPoint(SinkTaskStep.ROWS_SENT, 16)]
#: Few times at a start, and once more for each rebalance.
RARE = [
    SinkTaskStep.SINK_ASSIGNED,
    SinkTaskStep.SINK_STARTED,
    SinkTaskStep.PARTITIONS_OPENED,
    SinkTaskStep.PARTITIONS_CLOSED,
]
EACH = [
    *(CrashPoint(step, 2 + number) for number, step in enumerate(RARE[:3])),
    *(CrashPoint(step, 10 + 4 * number) for number, step in enumerate(SinkTaskStep) if step not in RARE),
    CrashPoint(SinkTaskStep.PARTITIONS_CLOSED),
]
HELD_BEFORE_PUT = CrashPoint(SinkTaskStep.RECORDS_READ, 30, Action.HANG)


class Careless(SqlSink):
    """The control: a sink that forgets the target's offsets, so that only its group's count. It is killed once."""

    def task(self) -> SinkTask:
        return CarelessTask()


class CarelessTask(SqlSinkTask):
    def start(self, config: Mapping[str, Any], context: SinkContext) -> None:
        os.environ.pop("SEMEL_CRASH", None)  # the points are for the other sink's tasks
        self._puts = 0
        super().start(config, context)

    def open(self, partitions: Collection[tuple[str, int]]) -> None:
        self._kept.change(dict.fromkeys(partitions))
        super().open(partitions)

    def put(self, batch: SinkBatch) -> None:
        super().put(batch)
        self._puts += 1
        once = Path(os.environ["SEMEL_CRASH_DIR"]) / "careless"
        if self._puts == 3 and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def ports() -> Iterator[Ports]:
    one = Ports(1)
    yield one
    one.release()


@contextmanager
def running(
    servers: str, plan: CrashPlan, *sinks: Records, listeners: str = "", flush_ms: int = 200
) -> Iterator[Program]:
    """Run a worker under a plan, and have it end as Ctrl-C does, unless it was killed."""
    name, folder = sinks[0].name, plan.directory
    worker = {
        "bootstrap.servers": servers,
        "group.id": f"group-of-{name}",
        "offset.storage.topic": f"offsets-of-{name}",
        "config.storage.topic": f"configs-of-{name}",
        "status.storage.topic": f"states-of-{name}",
        "listeners": listeners,
        "offset.flush.interval.ms": str(flush_ms),
        "key.converter": STRING,
        "value.converter": STRING,
    }
    files = {"worker.properties": worker, **{f"{one.name}.properties": one.properties for one in sinks}}
    for file, properties in files.items():
        (folder / file).write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    with LOCAL.driver([*SEMEL, "connect", *(str(folder / file) for file in files)], plan) as driver:
        yield driver
        if driver.process.poll() is None:
            driver.process.send_signal(signal.SIGINT)
            assert driver.wait(120) == 0, driver.tail()


def wait_struck(plan: CrashPlan, driver: Program, rows: Records) -> None:
    """Wait for all points, with records that keep coming.

    Partitions are closed only if a task lives while another one comes: that point strikes or not.
    """

    def struck(point: CrashPoint) -> bool:
        rows.keep_coming()
        return plan.struck(point) or driver.process.poll() is not None

    for point in (one for one in plan.points if one.step is not SinkTaskStep.PARTITIONS_CLOSED):
        wait_for(partial(struck, point), driver.tail)
        assert plan.struck(point), driver.tail()


def test_every_step_is_struck() -> None:
    assert {point.step for point in EACH} == set(SinkTaskStep)


def test_tasks_that_die_and_one_that_is_late(kafka: Sandbox, postgres: Postgres, tmp_path: Path) -> None:
    """Two tasks are killed, and a third one is held until its partitions are another's. Beside them runs the control:
    its task dies as well, and only its group has its offsets.
    """
    servers = kafka.bootstrap_servers
    rows = Rows(servers, postgres)
    control = Rows(servers, postgres, **{"connector.class": f"{__name__}.Careless", "tasks.max": "1"})
    plan = CrashPlan(tmp_path, *SAMPLE, HELD_BEFORE_PUT)
    with running(servers, plan, rows, control) as driver:
        wait_struck(plan, driver, rows)
        rows.wait_all(driver.tail)  # by the other task
        plan.release(HELD_BEFORE_PUT)
        wait_for(lambda: "newer claim" in driver.tail(), driver.tail)
        rows.produce(30)
        rows.wait_all(driver.tail)
        wait_for(lambda: max(control.written().values(), default=0) > 1, driver.tail)
    rows.check_exact()


@pytest.mark.exhaustive
def test_drivers_and_each_step(kafka: Sandbox, postgres: Postgres, tmp_path: Path) -> None:
    servers = kafka.bootstrap_servers
    rows = Rows(servers, postgres)
    plan = CrashPlan(tmp_path / "held", *HELD)
    with running(servers, plan, rows) as driver:
        wait_struck(plan, driver, rows)
        driver.process.send_signal(signal.SIGKILL)
        pids = [plan.victims(point)[-1] for point in HELD]
        wait_for(lambda: not any(map(alive, pids)), "the end of the tasks without their driver")
    plan = CrashPlan(tmp_path / "each", *EACH)
    with running(servers, plan, rows) as driver:
        wait_struck(plan, driver, rows)
        rows.wait_all(driver.tail)
    rows.check_exact()


def kill_at_each_step(servers: str, lines: Records, folder: Path) -> None:
    """Before the kills, one task is held before its file appears, until another has written its records."""
    held = CrashPoint(SinkTaskStep.ROWS_SENT, 7, Action.HANG)
    plan = CrashPlan(folder, held, *EACH)
    with running(servers, plan, lines) as driver:
        wait_for(lambda: plan.struck(held), driver.tail)
        wait_for(lambda: len(lines.written()) == 300, driver.tail)
        plan.release(held)
        wait_struck(plan, driver, lines)
        lines.wait_all(driver.tail)
    lines.check_exact()


@pytest.mark.exhaustive
@pytest.mark.parametrize("ends", [{}, {"flush.size": "100000", "rotate.schedule.interval.ms": "50"}])
def test_files_at_each_step(kafka: Sandbox, tmp_path: Path, ends: dict[str, str]) -> None:
    lines = Lines(kafka.bootstrap_servers, tmp_path / "files", **ends)
    kill_at_each_step(kafka.bootstrap_servers, lines, tmp_path)


@pytest.mark.exhaustive
def test_delta_at_each_step(kafka: Sandbox, tmp_path: Path) -> None:
    tables = Tables(kafka.bootstrap_servers, tmp_path / "tables")
    kill_at_each_step(kafka.bootstrap_servers, tables, tmp_path)


@pytest.mark.exhaustive  # in the ordinary run a catalog is killed: test_iceberg_postgres.py
def test_an_iceberg_task_that_dies(kafka: Sandbox, tmp_path: Path) -> None:
    """It is killed after a commit, before its group's offset is committed."""
    few = {"flush.size": "100", "consumer.override.max.poll.records": "100", "tasks.max": "1"}
    snapshots = Snapshots(kafka.bootstrap_servers, tmp_path / "tables", **few)
    plan = CrashPlan(tmp_path, CrashPoint(SinkTaskStep.TARGET_COMMITTED, 2))
    with running(kafka.bootstrap_servers, plan, snapshots) as driver:
        wait_struck(plan, driver, snapshots)
        snapshots.wait_all(driver.tail)
    snapshots.check_exact()


@pytest.mark.exhaustive
def test_iceberg_at_each_step(kafka: Sandbox, tmp_path: Path) -> None:
    snapshots = Snapshots(kafka.bootstrap_servers, tmp_path / "tables")
    kill_at_each_step(kafka.bootstrap_servers, snapshots, tmp_path)


@pytest.mark.exhaustive
def test_objects_at_each_step(kafka: Sandbox, tmp_path: Path) -> None:
    with object_store(tmp_path) as store:
        lines = Objects(kafka.bootstrap_servers, store)
        kill_at_each_step(kafka.bootstrap_servers, lines, tmp_path)


@pytest.mark.exhaustive
def test_files_that_are_moved_are_not_written_again(kafka: Sandbox, ports: Ports, tmp_path: Path) -> None:
    """The driver is killed long before it flushes offsets. The files have committed them."""
    servers, folder = kafka.bootstrap_servers, tmp_path / "files"
    lines, plan, (port,) = Lines(servers, folder), CrashPlan(tmp_path), ports.numbers
    address = f"http://127.0.0.1:{port}"
    with running(servers, plan, lines, listeners=address, flush_ms=3_600_000) as driver:
        rest = Rest("semel", address, servers, {}, tmp_path)
        wait_for(rest.answers, driver.tail)

        def offsets() -> list[int]:
            _, answer = rest.ask("GET", f"/connectors/{lines.name}/offsets")
            return [one["offset"]["kafka_offset"] for one in answer["offsets"]]

        wait_for(lambda: offsets() == [100] * 3, driver.tail)
        (folder / "topics").rename(folder / "moved")
        driver.process.send_signal(signal.SIGKILL)
        driver.wait(120)
    lines.produce(30)
    with running(servers, CrashPlan(tmp_path), lines) as driver:
        lines.wait_all(driver.tail)
    lines.check_exact()
    assert len(list(folder.glob("topics/*/*/*.json"))) == 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", [SinkTaskStep.RECORDS_READ, SinkTaskStep.ROWS_SENT])
def test_a_process_that_freezes(kafka: Sandbox, postgres: Postgres, tmp_path: Path, step: SinkTaskStep) -> None:
    """Its partitions move. Where it froze within its transaction, PostgreSQL ends that first."""
    servers, frozen = kafka.bootstrap_servers, CrashPoint(step, 5, Action.STOP)
    rows, plan = Rows(servers, postgres), CrashPlan(tmp_path, frozen)
    with running(servers, plan, rows) as driver:
        wait_struck(plan, driver, rows)
        (pid,) = plan.victims(frozen)
        rows.wait_all(driver.tail)
        if alive(pid):
            plan.release(frozen)
        wait_for(lambda: not alive(pid), "the end of the process that was frozen")
        rows.produce(30)
        rows.wait_all(driver.tail)
    rows.check_exact()


@pytest.mark.exhaustive
def test_a_database_that_is_killed_is_waited_for(kafka: Sandbox, postgres: Postgres, tmp_path: Path) -> None:
    servers, held = kafka.bootstrap_servers, CrashPoint(SinkTaskStep.ROWS_SENT, 5, Action.HANG)
    rows, plan = Rows(servers, postgres), CrashPlan(tmp_path, held)
    with running(servers, plan, rows) as driver:
        wait_struck(plan, driver, rows)
        postgres.kill()
        plan.release(held)
        postgres.start()
        rows.produce(30)
        rows.wait_all(driver.tail)
    rows.check_exact()


@pytest.mark.exhaustive
def test_tasks_come_and_go_under_load(kafka: Sandbox, postgres: Postgres, ports: Ports, tmp_path: Path) -> None:
    """One task, then three, then two, while records keep coming."""
    servers = kafka.bootstrap_servers
    rows = Rows(servers, postgres, **{"tasks.max": "1"})
    (port,) = ports.numbers
    address = f"http://127.0.0.1:{port}"
    with running(servers, CrashPlan(tmp_path), rows, listeners=address) as driver:
        rest = Rest("semel", address, servers, {}, tmp_path)
        wait_for(rest.answers, driver.tail)
        for tasks in (1, 3, 2):
            rest.ask("PUT", f"/connectors/{rows.name}/config", rows.properties | {"tasks.max": str(tasks)})
            before = len(rows.written())

            def moved(tasks: int = tasks, before: int = before) -> bool:
                rows.keep_coming()
                return rest.states(rows.name) == ["RUNNING"] * (1 + tasks) and len(rows.written()) > before + 300

            wait_for(moved, driver.tail)
        rows.wait_all(driver.tail)
    rows.check_exact()
