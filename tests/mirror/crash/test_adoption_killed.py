"""An adoption that is killed or frozen at its steps: run again, it ends well, and the flow is exact after it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from semel.steps import AdoptionStep, OwnerStep, Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.program import Program, run_until_done
from tests.mirror.support.groups import commit
from tests.mirror.support.harness import alias_of, copy_once, mm2, produce, records, unique
from tests.support import topics
from tests.support.waiting import PATIENCE_S

ADOPT = [sys.executable, "-c", "from semel.cli import main; main()", "mirror", "adopt"]
#: A run of each: passings are counted over all of them. After the commit the next run has nothing to do.
ALL: list[Step] = [
    AdoptionStep.PREDECESSOR_FENCED,
    OwnerStep.INITIALISED,
    AdoptionStep.PLACED,
    AdoptionStep.SEGMENTS_WRITTEN,
    OwnerStep.PROGRESS_WRITTEN,
    OwnerStep.OFFSETS_ADDED,
    AdoptionStep.COMMITTED,
]
SAMPLE: list[Step] = [AdoptionStep.SEGMENTS_WRITTEN, AdoptionStep.COMMITTED]
#: Whether it is committed is then for the next run to find out.
COMMITTING: list[Step] = [OwnerStep.COMMIT_SENT]


def test_every_step_is_struck() -> None:
    assert {step for step in ALL if isinstance(step, AdoptionStep)} == {*AdoptionStep}


ROWS = [{"value": f"row {i}", "timestamp": 1_764_000_000_000 + i} for i in range(100)]


def left(a: Sandbox, b: Sandbox, directory: Path) -> tuple[Path, str, str, list[str]]:
    """What a copier has left: a file, the topic with a hundred records, its target with sixty of them, and the command
    that adopts its group, which trails them.
    """
    topic, group = topics.create(a.bootstrap_servers, unique("killed"), 1), unique("copier")
    file = mm2(directory, a, b, topic)
    target = topics.create(b.bootstrap_servers, f"{alias_of(file)}.{topic}", 1)
    produce(a, topic, ROWS)
    produce(b, target, ROWS[:60])
    commit(a, group, TopicPartition(topic, 0, 40))
    options = ["--source", alias_of(file), "--target", "B", "--from", f"group:{group}"]
    return file, topic, target, [*ADOPT, str(file), "--yes", *options]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(SAMPLE, id="sample"),
        pytest.param(ALL, id="all", marks=pytest.mark.exhaustive),
        pytest.param(COMMITTING, id="while it commits", marks=pytest.mark.exhaustive),
    ],
)
def test_an_adoption_is_killed_at_each_step(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, steps: list[Step]
) -> None:
    file, topic, target, command = left(a, b, tmp_path)
    points = [CrashPoint(step, 1, Action.KILL) for step in steps]
    assert run_until_done(command, CrashPlan(tmp_path / "plan", *points), len(points)) == len(points)
    if AdoptionStep.COMMITTED in steps:
        assert "adopted already" in (tmp_path / "plan" / f"run-{len(points)}.log").read_text()
    copy_once(spark, file)
    assert records(b, target) == records(a, topic)


@contextmanager
def frozen(command: list[str], directory: Path, step: Step) -> Iterator[Program]:
    """The command, frozen at a step until the block is left. It has ended then."""
    point = CrashPoint(step, 1, Action.STOP)
    plan = CrashPlan(directory / "plan", point)
    with Program(command, {**os.environ, **plan.environment()}, directory / "frozen.log") as program:
        try:
            plan.wait(point, PATIENCE_S)
            yield program
        finally:
            plan.release(point)
            program.wait(PATIENCE_S)


def test_a_copier_that_still_writes_is_seen(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    file, topic, target, command = left(a, b, tmp_path)
    with frozen(command, tmp_path, AdoptionStep.PLACED) as adoption:
        produce(b, target, ROWS[60:65])
    assert adoption.process.returncode == 1
    assert adoption.said(f"{target}-0 is written to: it has grown to offset 65 meanwhile"), adoption.tail()
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    copy_once(spark, file)
    assert records(b, target) == records(a, topic)


@pytest.mark.exhaustive
def test_an_adoption_that_thaws_changes_nothing(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    file, topic, target, command = left(a, b, tmp_path)
    with frozen(command, tmp_path, AdoptionStep.SEGMENTS_WRITTEN) as adoption:
        subprocess.run(command, check=True, timeout=PATIENCE_S)
        copy_once(spark, file)
    assert adoption.process.returncode == 1
    assert adoption.said("FENCED"), adoption.tail()
    produce(a, topic, [{"value": "more"}])
    copy_once(spark, file)
    assert records(b, target) == records(a, topic)
