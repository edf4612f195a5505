"""A query is run like a service: told to end it leaves nothing open, and what passes is no reason to end."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from semel.admin.txn import list_transactions
from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import SparkCluster
from semel.wire.client import Client
from tests.spark.programs.kept import Way
from tests.spark.support.topics_and_drivers import LOCAL_DRIVER, Copy, assert_exact, new_copy, program, values
from tests.support.waiting import wait_for

#: Within this many seconds whoever has stopped it would kill it.
GRACE_S = 30.0
ROWS = 400
IN_A_BATCH = CrashPoint(ParticipantStep.SENT, 1, Action.HANG)


def open_ones(copy: Copy) -> list[str]:
    """What the query's owner has open."""
    with Client(ClientConfig.parse({"bootstrap.servers": copy.servers})) as client:
        return [one.name.prefix for one in list_transactions(client) if one.name.prefix == copy.prefix]


def all_there(copy: Copy) -> bool:
    return len(values(copy.servers, copy.target)) >= ROWS


def in_a_batch(driver: Program, plan: CrashPlan, copy: Copy) -> None:
    """Wait until it stands in the middle of a batch."""
    wait_for(lambda: plan.struck(IN_A_BATCH) or driver.process.poll() is not None, "a task to write")
    assert driver.process.poll() is None, driver.tail()
    assert open_ones(copy) == [copy.prefix]


def run_to_the_end(copy: Copy, directory: Path) -> None:
    """A next run, which is told to end when all is there."""
    with LOCAL_DRIVER.driver(program("kept", copy, Way.KEPT), CrashPlan(directory)) as driver:
        wait_for(lambda: all_there(copy) or driver.process.poll() is not None, "all rows")
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait(GRACE_S) == 0, driver.tail()
    assert_exact(copy)


@pytest.mark.parametrize("told", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive)])
def test_told_to_end_it_leaves_nothing_open(kafka: Sandbox, tmp_path: Path, told: signal.Signals) -> None:
    copy = new_copy(kafka, tmp_path, "told", rows=ROWS, per_batch=100)
    plan = CrashPlan(tmp_path / "first", IN_A_BATCH)
    with LOCAL_DRIVER.driver(program("kept", copy, Way.KEPT), plan) as driver:
        in_a_batch(driver, plan, copy)
        driver.process.send_signal(told)
        assert driver.wait(GRACE_S) == 0, driver.tail()
        assert open_ones(copy) == []
        assert driver.said(f"{told.name}: stopping the query") == 1
        assert driver.said("KeyboardInterrupt") == 0, driver.tail()
    run_to_the_end(copy, tmp_path / "second")


@pytest.mark.exhaustive
def test_a_program_that_ends_leaves_nothing_open(kafka: Sandbox, tmp_path: Path) -> None:
    """Without keep_running; and by SIGKILL, the control, it does."""
    copy = new_copy(kafka, tmp_path, "ends", rows=ROWS, per_batch=100)
    plan = CrashPlan(tmp_path / "first", IN_A_BATCH)
    with LOCAL_DRIVER.driver(program("kept", copy, Way.ALONE), plan) as driver:
        in_a_batch(driver, plan, copy)
        Path(f"{copy.checkpoint}-end").touch()
        assert driver.wait(GRACE_S) == 3, driver.tail()
    assert open_ones(copy) == []
    plan = CrashPlan(tmp_path / "second", IN_A_BATCH)
    with LOCAL_DRIVER.driver(program("kept", copy, Way.KEPT), plan) as driver:
        in_a_batch(driver, plan, copy)
    assert open_ones(copy) == [copy.prefix]


@pytest.mark.exhaustive
def test_a_python_worker_that_is_killed_is_no_end(kafka: Sandbox, tmp_path: Path) -> None:
    """On local[2] Spark allows a task one failure."""
    copy = new_copy(kafka, tmp_path, "worker", rows=ROWS, per_batch=100)
    local = SparkCluster("local[2]")
    with local.driver(program("kept", copy, Way.WORKER_DIES), CrashPlan(tmp_path / "plan")) as driver:
        wait_for(lambda: all_there(copy) or driver.process.poll() is not None, "all rows")
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait(GRACE_S) == 0, driver.tail()
        assert Path(f"{copy.checkpoint}-died").exists()
    assert_exact(copy)


@pytest.mark.exhaustive
def test_a_rolling_deployment_goes_on_with_the_new_driver(kafka: Sandbox, tmp_path: Path) -> None:
    """The old one is fenced and ends; the new one may find that the old one has written to their checkpoint."""
    copy = new_copy(kafka, tmp_path, "rolling", rows=ROWS, per_batch=2)
    held = CrashPoint(OwnerStep.COMMIT_SENT, 3, Action.HANG)
    plan = CrashPlan(tmp_path / "old", held)
    with LOCAL_DRIVER.driver(program("kept", copy, Way.KEPT), plan) as old:
        wait_for(lambda: plan.struck(held) or old.process.poll() is not None, "the old driver to commit")
        second = replace(copy, per_batch=50)
        with LOCAL_DRIVER.driver(program("kept", second, Way.KEPT), CrashPlan(tmp_path / "new")) as new:
            wait_for(lambda: new.said("rows, ") > 0 or new.process.poll() is not None, "the new driver to commit")
            plan.release(held)
            wait_for(lambda: all_there(copy) or new.process.poll() is not None, "all rows")
            assert old.wait(GRACE_S) != 0
            assert old.said("Fenced") + old.said("CONCURRENT_STREAM_LOG_UPDATE") > 0, old.tail()
            new.process.send_signal(signal.SIGTERM)
            assert new.wait(GRACE_S) == 0, new.tail()
    assert_exact(copy)
