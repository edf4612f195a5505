"""A command that pauses a flow is killed at its steps: run again, it ends well. Two at once lose nothing."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from semel.config import ClientConfig
from semel.mirror.config.properties import read_properties
from semel.mirror.operation.wanted import FlowState, pause_topic, read_wanted, set_state
from semel.sandbox import Sandbox
from semel.steps import OwnerStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.program import run_until_done
from semel.wire.client import Client
from tests.mirror.support.harness import alias_of, mm2

STEPS = [
    OwnerStep.INITIALISED,
    OwnerStep.CLAIMED,
    OwnerStep.PROGRESS_READ,
    OwnerStep.PROGRESS_WRITTEN,
    OwnerStep.COMMIT_SENT,
]


@pytest.mark.exhaustive
def test_a_command_is_killed_at_each_step(a: Sandbox, b: Sandbox, tmp_path: Path) -> None:
    file = mm2(tmp_path, a, b, "any")
    (config,) = read_properties(file).flows
    program = [sys.executable, "-c", "from semel.cli import main; main()", "mirror", "stop", str(file)]
    points = [CrashPoint(step, 1, Action.KILL) for step in STEPS]
    command = [*program, "--source", alias_of(file), "--target", "B"]
    with Client(ClientConfig.parse(config.target)) as target:
        pause_topic(target, config, "any")  # not undone by what is killed
        # after its commit was sent, the next run may find it done
        assert run_until_done(command, CrashPlan(tmp_path / "plan", *points), len(points)) == len(points)
        wanted = read_wanted(target, config)
    assert (wanted.state, wanted.paused_topics) == (FlowState.STOPPED, frozenset({"any"}))


def test_changes_at_one_moment_lose_nothing(a: Sandbox, b: Sandbox, tmp_path: Path) -> None:
    (config,) = read_properties(mm2(tmp_path, a, b, "topic-.*")).flows

    def change(number: int) -> None:
        with Client(ClientConfig.parse(config.target)) as target:
            pause_topic(target, config, f"topic-{number}")

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(change, range(3)))
    with Client(ClientConfig.parse(config.target)) as target:
        wanted = set_state(target, config, FlowState.PAUSED)
        assert read_wanted(target, config) == wanted
    assert wanted.paused_topics == {f"topic-{number}" for number in range(3)}
