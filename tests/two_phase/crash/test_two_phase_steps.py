"""A process that decides by a file is killed at each step of prepare, decide and end: what is in the topic is what was
decided, once (DESIGN rule 13, FLIP-319).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.steps import TwoPhaseStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.program import run_until_done
from semel.testing.records import read
from semel.wire.api.describe_transactions import list_transactions
from semel.wire.client import Client
from tests.support.topics import create
from tests.two_phase.support.two_phase_program import rows

UNITS = 24
STEPS = [
    TwoPhaseStep.INITIALISED,
    TwoPhaseStep.SENT,
    TwoPhaseStep.PREPARED,
    TwoPhaseStep.COMMIT_SENT,
    TwoPhaseStep.COMMIT_ANSWERED,
]


@pytest.fixture(scope="module")
def brokers() -> Iterator[Sandbox]:
    with Sandbox.start(settings=TWO_PHASE_COMMIT) as sandbox:
        yield sandbox


def argv(brokers: Sandbox, topic: str, directory: Path, mode: str, order: str) -> list[str]:
    program = [sys.executable, "-m", "tests.two_phase.support.two_phase_program"]
    return [*program, brokers.bootstrap_servers, topic, str(directory / "decisions"), str(UNITS), mode, order]


def found(brokers: Sandbox, topic: str) -> list[str]:
    values = read(brokers.bootstrap_servers, [topic], {"value": "value"})["value"].to_pylist()
    return sorted(str(value) for value in values)


def still_open(brokers: Sandbox) -> list[str]:
    with Client(ClientConfig.parse({"bootstrap.servers": brokers.bootstrap_servers})) as client:
        return sorted(list_transactions(client, ["Ongoing"]))


@pytest.mark.parametrize("mode", ["two-phase", pytest.param("bounded", marks=pytest.mark.exhaustive)])
def test_killed_at_every_step_what_was_decided_is_there_once(brokers: Sandbox, tmp_path: Path, mode: str) -> None:
    topic = create(brokers.bootstrap_servers, f"decided-{mode}", 3)
    early = [CrashPoint(step, 3 + index) for index, step in enumerate(STEPS)]
    recovering = [CrashPoint(TwoPhaseStep.LISTED, 4), CrashPoint(TwoPhaseStep.DECIDED, 6)]
    # what the first kill left open is aborted by the next start
    recovering += [CrashPoint(TwoPhaseStep.ABORT_SENT), CrashPoint(TwoPhaseStep.ABORT_ANSWERED, 2)]
    late = [CrashPoint(step, 24 + index) for index, step in enumerate(STEPS[3:])]
    plan = CrashPlan(tmp_path / "plan", *early, *recovering, *late)
    restarts = run_until_done(argv(brokers, topic, tmp_path, mode, "decided"), plan, len(plan.points), timeout=120)
    assert restarts == len(plan.points)
    assert found(brokers, topic) == sorted(value for unit in range(UNITS) for value in rows(unit))
    assert (tmp_path / "decisions").read_text().count("\n") == UNITS
    assert still_open(brokers) == []


def test_control_a_decision_behind_the_commit_doubles(brokers: Sandbox, tmp_path: Path) -> None:
    topic = create(brokers.bootstrap_servers, "naive", 3)
    plan = CrashPlan(tmp_path / "plan", CrashPoint(TwoPhaseStep.COMMIT_ANSWERED, 5))
    run_until_done(argv(brokers, topic, tmp_path, "two-phase", "naive"), plan, 1, timeout=120)
    assert len(found(brokers, topic)) == len(rows(0)) * (UNITS + 1), "the unit at hand is there twice"
