"""An adoption that is killed at each of its steps: run again, it ends well, and the flow is exact after it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from semel.steps import AdoptionStep, OwnerStep, Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.program import run_until_done
from tests.mirror.support.groups import commit
from tests.mirror.support.harness import alias_of, copy_once, mm2, produce, records, unique
from tests.support import topics

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
    topic, group = topics.create(a.bootstrap_servers, unique("killed"), 1), unique("copier")
    file = mm2(tmp_path, a, b, topic)
    target = topics.create(b.bootstrap_servers, f"{alias_of(file)}.{topic}", 1)
    rows = [{"value": f"row {i}", "timestamp": 1_764_000_000_000 + i} for i in range(100)]
    produce(a, topic, rows)
    produce(b, target, rows[:60])
    commit(a, group, TopicPartition(topic, 0, 40))
    command = [sys.executable, "-c", "from semel.cli import main; main()", "mirror", "adopt", str(file), "--yes"]
    command += ["--source", alias_of(file), "--target", "B", "--from", f"group:{group}"]
    points = [CrashPoint(step, 1, Action.KILL) for step in steps]
    assert run_until_done(command, CrashPlan(tmp_path / "plan", *points), len(points)) == len(points)
    if AdoptionStep.COMMITTED in steps:
        assert "adopted already" in (tmp_path / "plan" / f"run-{len(points)}.log").read_text()
    copy_once(spark, file)
    assert records(b, target) == records(a, topic)
