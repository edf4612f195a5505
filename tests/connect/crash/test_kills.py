"""Tasks, executors and drivers killed with SIGKILL at each step, while files grow: each line arrives once, in order.

Several connectors live through all of it. Each is held at another step, and then whoever runs them all is killed: one
start for as many kills. Python processes are killed where they stand.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.sandbox.processes import alive, children
from semel.steps import ConnectStep
from semel.testing.crash import SPARK, Action, CrashPlan, CrashPoint
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import SparkCluster
from tests.connect.support.lines import Appending, Lines
from tests.support.registry import Registry
from tests.support.waiting import wait_for

CONNECTORS, LINES = 5, 4_500
STARTING = [
    ConnectStep.TASK_ASSIGNED,
    ConnectStep.PRODUCER_READY,
    ConnectStep.OFFSETS_CLAIMED,
    ConnectStep.OFFSETS_READ,
    ConnectStep.TASK_STARTED,
]
WRITING = [ConnectStep.POLLED, ConnectStep.RECORDS_WRITTEN, ConnectStep.OFFSETS_SENT, ConnectStep.COMMITTED]
#: Of the first start, and of transactions behind committed ones.
AT_START = [CrashPoint(step, 1, Action.HANG) for step in STARTING]
IN_A_TRANSACTION = [CrashPoint(step, 2 * CONNECTORS, Action.HANG) for step in WRITING]
#: Later ones: a killed process passes the steps of a start again.
PROCESSES = [
    *(CrashPoint(step, 3) for step in STARTING),
    *(CrashPoint(step, 4 * CONNECTORS, Action.KILL) for step in WRITING),
]
LOCAL = SparkCluster("local[8,4]")
EXECUTOR = SparkCluster("local-cluster[1,6,1024]")


def test_every_step_is_struck() -> None:
    assert [*STARTING, *WRITING] == list(ConnectStep)


@pytest.mark.parametrize(
    ("boundary", "own"),
    [
        ("poll", False),
        pytest.param("interval", False, marks=pytest.mark.exhaustive),
        pytest.param("poll", True, marks=pytest.mark.exhaustive),
    ],
)
def test_drivers_and_processes(kafka: Sandbox, registry: Registry, tmp_path: Path, boundary: str, own: bool) -> None:
    """Connectors and states are in topics, so that a worker takes over from the one that was killed. With offsets of
    their ``own``, what is checked are the copies. One connector writes Avro.
    """
    lines = Lines.prepare(
        kafka.bootstrap_servers,
        tmp_path / "files",
        CONNECTORS,
        LINES,
        {
            "transaction.boundary": boundary,
            "transaction.boundary.interval.ms": "300",
            **({"offsets.storage.topic": "kills-own-offsets"} if own else {}),
        },
        exactly_once_source_support="enabled",
        listeners="",
        config_storage_topic=f"kills-{boundary}-{own}-config",
        status_storage_topic=f"kills-{boundary}-{own}-status",
    ).with_avro(registry.url)
    with Appending(lines) as appending:
        plan = CrashPlan(tmp_path / "plan", *AT_START)
        with LOCAL.driver(lines.argv, plan) as driver:
            held = _held(plan, driver)
            driver.process.send_signal(signal.SIGKILL)
            wait_for(partial(_all_dead, held), "the end of the processes without their driver")
        plan = CrashPlan(tmp_path / "plan", *IN_A_TRANSACTION)
        with LOCAL.driver(lines.argv, plan) as driver:
            held = _held(plan, driver)
            os.kill(_java(driver), signal.SIGKILL)
            assert driver.wait(60) == 1, "a worker whose Spark is gone ends"
            wait_for(partial(_all_dead, held), "the end of the processes without Spark")
        plan = CrashPlan(tmp_path / "plan", *PROCESSES)
        with LOCAL.driver(lines.argv, plan) as driver:
            _wait_struck(plan, driver)
            _finish(lines, appending, driver)
    lines.check_exact()


@pytest.mark.exhaustive  # its sample is the one before, where Spark is killed as a whole
def test_executors(kafka: Sandbox, tmp_path: Path) -> None:
    lines = Lines.prepare(
        kafka.bootstrap_servers, tmp_path / "files", CONNECTORS, LINES, exactly_once_source_support="enabled"
    )
    plan = CrashPlan(tmp_path / "plan", *AT_START, *IN_A_TRANSACTION)
    with Appending(lines) as appending, EXECUTOR.driver(lines.argv, plan) as driver:
        for points in (AT_START, IN_A_TRANSACTION):
            held = _held(CrashPlan(tmp_path / "plan", *points), driver)
            os.kill(_executor(driver), signal.SIGKILL)
            wait_for(partial(_all_dead, held), "the end of the processes of the executor")
        _finish(lines, appending, driver)
    lines.check_exact()


@pytest.mark.exhaustive
def test_at_least_once_doubles(kafka: Sandbox, tmp_path: Path) -> None:
    """The control: the same kill, and offsets only now and then."""
    lines = Lines.prepare(kafka.bootstrap_servers, tmp_path / "files", 1, LINES, exactly_once_source_support="disabled")
    plan = CrashPlan(tmp_path / "plan", CrashPoint(ConnectStep.RECORDS_WRITTEN, 5))
    with LOCAL.driver(lines.argv, plan) as driver:
        _wait_struck(plan, driver)
        wait_for(lambda: len(lines.written(lines.names[0])) >= LINES + 800, driver.tail)
    written = lines.written(lines.names[0])
    assert written[:800] == written[1000:1800]
    assert set(written) == set(lines.expected(lines.names[0]))


def _struck_or_ended(plan: CrashPlan, point: CrashPoint, driver: Program) -> bool:
    return plan.struck(point) or driver.process.poll() is not None


def _wait_struck(plan: CrashPlan, driver: Program) -> None:
    for point in plan.points:
        wait_for(partial(_struck_or_ended, plan, point, driver), driver.tail)
        assert plan.struck(point), driver.tail()


def _held(plan: CrashPlan, driver: Program) -> list[int]:
    """The processes that are held, once all points have struck."""
    _wait_struck(plan, driver)
    return [plan.victims(point)[-1] for point in plan.points]


def _executor(driver: Program) -> int:
    """The Java of the one executor: below Spark's own."""
    below = _descendants(_java(driver))
    return next(pid for pid, command in below if "CoarseGrainedExecutorBackend" in command and SPARK in command)


def _java(driver: Program) -> int:
    (java,) = [pid for pid, command in children(driver.process.pid) if SPARK in command]
    return java


def _descendants(pid: int) -> list[tuple[int, str]]:
    below = children(pid)
    return [*below, *(found for child, _ in below for found in _descendants(child))]


def _all_dead(pids: list[int]) -> bool:
    return not any(map(alive, pids))


def _finish(lines: Lines, appending: Appending, driver: Program) -> None:
    """Let all lines arrive, the last appended one too, and have the worker end as Ctrl-C does."""
    appending.stop()
    wait_for(lines.all_arrived, driver.tail)
    driver.process.send_signal(signal.SIGINT)
    assert driver.wait(60) == 0, driver.tail()
