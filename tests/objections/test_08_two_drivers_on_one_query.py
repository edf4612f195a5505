"""Objection 8: a second driver runs the query while the first one is alive: the first is fenced, with its executors, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep, Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.history import assert_exactly_once
from semel.testing.spark import LOCAL, SparkCluster
from tests.spark.harness import everything, new_copy, program
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize("held_at", [ParticipantStep.SENT, OwnerStep.PROGRESS_WRITTEN], ids=["in an executor", "in the driver"])
def test_the_first_one_is_fenced(kafka: Sandbox, tmp_path: Path, held_at: Step) -> None:
    """On one checkpoint, as when a scheduler starts a query again that it takes for dead."""
    copy = new_copy(kafka, tmp_path, f"two-drivers-{held_at.value}", rows=600, per_batch=200)
    held = CrashPoint(held_at, 2, Action.HANG)
    plan = CrashPlan(tmp_path / "plan", held)
    cluster = SparkCluster(LOCAL)
    with cluster.driver(program("copy", copy), plan) as first:
        plan.wait(held, PATIENCE_S)
        with cluster.driver(program("copy", copy), plan) as second:
            assert second.wait(PATIENCE_S) == 0, second.tail()
        before = sorted(everything(copy.servers, copy.target))
        plan.release(held)
        assert first.wait(PATIENCE_S) != 0, "it ended as if nothing had happened"
        assert "SEMEL_FENCED" in first.tail(), first.tail()
    assert sorted(everything(copy.servers, copy.target)) == before
    assert_exactly_once(copy.servers, copy.target, source=copy.source, id="json:$.id")
