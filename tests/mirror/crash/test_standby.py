"""A standby takes over from a driver that is killed, and from one that is frozen; one that thaws writes nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.config import ClientConfig
from semel.mirror.background.presence import driver_group, wait_for_turn
from semel.mirror.config.properties import read_properties
from semel.sandbox import Sandbox
from semel.steps import MirrorStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import LOCAL, SparkCluster
from semel.wire.api.offsets import live_members
from semel.wire.client import Client
from tests.mirror.support.harness import alias_of, copy_once, mm2, produce, program, records, unique
from tests.mirror.support.load import PARTITIONS, assert_the_same, written
from tests.mirror.support.operating import REST, Operated, operated
from tests.support import topics
from tests.support.waiting import PATIENCE_S, wait_for


def new(a: Sandbox, b: Sandbox, directory: Path) -> tuple[Path, str, str]:
    """A file, its source topic and its target topic. Small rounds are those of the driver."""
    topic = topics.create(a.bootstrap_servers, unique("standby"), PARTITIONS)
    file = mm2(directory, a, b, topic, emit__checkpoints__enabled="false", **REST)
    return file, topic, f"{alias_of(file)}.{topic}"


def stands_by(mirror: Operated, first: Program) -> None:
    """Return when the standby has seen the other driver, and has left it alone for longer than it would wait."""
    wait_for(lambda: mirror.state == "UNASSIGNED", "the standby")
    end = time.monotonic() + 5
    wait_for(lambda: time.monotonic() > end, "a while")
    assert (mirror.state, first.process.poll()) == ("UNASSIGNED", None), first.tail()


@pytest.mark.exhaustive
def test_a_standby_takes_over_from_a_driver_that_is_killed(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    file, topic, target = new(a, b, tmp_path)
    with SparkCluster(LOCAL).driver(program(file), CrashPlan(tmp_path / "plan")) as first, written(a, topic) as writer:
        wait_for(lambda: any(records(b, target).values()), first.tail)
        with operated(spark, file, standby=True) as mirror:
            stands_by(mirror, first)
            killed = time.monotonic()
            first.process.send_signal(signal.SIGKILL)
            mirror.wait_state("RUNNING")
            print(f"took over after {time.monotonic() - killed:.1f} s")
            writer.stop()
            wait_for(lambda: sum(map(len, records(b, target).values())) >= writer.rows, "all records")
            assert not mirror.failed
    assert_the_same(a, b, topic, target)


@pytest.mark.exhaustive
def test_a_driver_that_thaws_finds_the_standby_at_work(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    file, topic, target = new(a, b, tmp_path)
    point = CrashPoint(MirrorStep.PROVEN, 5, Action.STOP)
    plan = CrashPlan(tmp_path / "plan", point)
    with SparkCluster(LOCAL).driver(program(file), plan) as first, written(a, topic) as writer:
        plan.wait(point, PATIENCE_S)
        with operated(spark, file, standby=True) as mirror:
            mirror.wait_state("RUNNING")
            before = sum(map(len, records(b, target).values()))
            wait_for(lambda: sum(map(len, records(b, target).values())) > before, "the standby's own records")
            plan.release(point)
            assert first.wait(PATIENCE_S) == 1, first.tail()
            assert first.said("FENCED"), first.tail()
            writer.stop()
            wait_for(lambda: sum(map(len, records(b, target).values())) >= writer.rows, "all records")
            assert not mirror.failed
    assert_the_same(a, b, topic, target)


@pytest.mark.exhaustive
def test_a_standby_at_work_stands_by_again_when_another_start_takes_over(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    file, topic, target = new(a, b, tmp_path)
    with operated(spark, file, standby=True) as mirror:
        mirror.wait_state("RUNNING")
        produce(a, topic, [{"value": "1"}])
        wait_for(lambda: sum(map(len, records(b, target).values())) == 1, "a record")
        copy_once(spark, file)
        produce(a, topic, [{"value": "2"}])
        mirror.wait_state("UNASSIGNED")
        mirror.wait_state("RUNNING")  # the other one has ended
        wait_for(lambda: sum(map(len, records(b, target).values())) == 2, "another record")
        assert not mirror.failed


#: A driver that shows that it lives, and nothing else.
_ALIVE = """
import sys, threading
from pathlib import Path
from semel.mirror.background.presence import Presence
from semel.mirror.config.properties import read_properties
with Presence(read_properties(Path(sys.argv[1])).flows[0]):
    threading.Event().wait()
"""


def test_a_standby_waits_while_a_driver_lives(a: Sandbox, b: Sandbox, tmp_path: Path) -> None:
    file, _, _ = new(a, b, tmp_path)
    (config,) = read_properties(file).flows
    stop, done = threading.Event(), threading.Event()
    waiting = threading.Thread(target=lambda: done.set() if wait_for_turn(config, stop) else None)
    with Client(ClientConfig.parse(config.target)) as client:
        with Program([sys.executable, "-c", _ALIVE, str(file)], dict(os.environ), tmp_path / "log") as driver:
            wait_for(lambda: live_members(client, driver_group(config)), driver.tail)
            waiting.start()
            assert not done.wait(4)  # longer than it waits for a group that is empty
        began = time.monotonic()  # it is killed
        try:
            assert done.wait(PATIENCE_S)
        finally:
            stop.set()
        print(f"its turn after {time.monotonic() - began:.1f} s")
    waiting.join()
