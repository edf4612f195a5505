"""A process that writes to two clusters is killed at each step: both have the same rows, each once (the commit on the
first decides for both).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.steps import OwnerStep, Step, TwoPhaseStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.program import run_until_done
from semel.testing.records import read
from tests.support.topics import create
from tests.two_phase.support.two_phase_program import rows

UNITS = 20
STEPS: list[Step] = [
    TwoPhaseStep.INITIALISED,
    TwoPhaseStep.SENT,
    TwoPhaseStep.PREPARED,
    OwnerStep.PARTITIONS_ADDED,
    OwnerStep.WRITTEN,
    OwnerStep.PROGRESS_WRITTEN,
    OwnerStep.COMMIT_SENT,
    OwnerStep.COMMIT_ANSWERED,
    TwoPhaseStep.COMMIT_SENT,
    TwoPhaseStep.COMMIT_ANSWERED,
    OwnerStep.MARKERS_SEEN,
]
#: Of a start behind a kill that left something to end.
AT_START: list[Step] = [OwnerStep.INITIALISED, OwnerStep.PROGRESS_READ, OwnerStep.MARKERS_CHECKED]


@pytest.fixture(scope="module")
def other() -> Iterator[Sandbox]:
    with Sandbox.start() as sandbox:
        yield sandbox


def argv(a: Sandbox, b: Sandbox, topic: str, order: str) -> list[str]:
    program = [sys.executable, "-m", "tests.two_phase.support.two_clusters_program"]
    return [*program, a.bootstrap_servers, b.bootstrap_servers, topic, str(UNITS), order]


def values(brokers: Sandbox, topic: str) -> list[str]:
    return sorted(map(str, read(brokers.bootstrap_servers, [topic], {"value": "value"})["value"].to_pylist()))


@pytest.mark.parametrize(
    ("steps", "at_start"),
    [
        pytest.param(
            [TwoPhaseStep.PREPARED, OwnerStep.PROGRESS_WRITTEN, OwnerStep.COMMIT_ANSWERED], AT_START[1:2], id="sample"
        ),
        pytest.param(STEPS, AT_START, id="all", marks=pytest.mark.exhaustive),
    ],
)
def test_killed_at_every_step_both_clusters_have_each_row_once(
    kafka: Sandbox, other: Sandbox, tmp_path: Path, steps: list[Step], at_start: list[Step]
) -> None:
    topic = f"two-clusters-{len(steps)}"
    for brokers in (kafka, other):
        create(brokers.bootstrap_servers, topic, 2)
    points = [CrashPoint(step, index + 2) for index, step in enumerate(steps)]
    starts = [CrashPoint(step, 3 + 2 * index) for index, step in enumerate(at_start)]
    plan = CrashPlan(tmp_path / "plan", *points, *starts)
    command = argv(kafka, other, topic, "decided")
    assert run_until_done(command, plan, len(plan.points), timeout=120) == len(plan.points)
    expected = sorted(value for unit in range(UNITS) for value in rows(unit))
    assert values(kafka, topic) == expected
    assert values(other, topic) == expected


def test_control_the_second_cluster_first_doubles_there(kafka: Sandbox, other: Sandbox, tmp_path: Path) -> None:
    topic = "two-clusters-naive"
    for brokers in (kafka, other):
        create(brokers.bootstrap_servers, topic, 2)
    plan = CrashPlan(tmp_path / "plan", CrashPoint(OwnerStep.PROGRESS_WRITTEN, 5))
    run_until_done(argv(kafka, other, topic, "naive"), plan, 1, timeout=120)
    assert len(values(other, topic)) > UNITS * len(rows(0))
