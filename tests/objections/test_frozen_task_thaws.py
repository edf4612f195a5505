"""Objection 7: a task is frozen, its batch is run again without it, and it thaws: it is fenced, and the output is
unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from semel.sandbox import Sandbox
from semel.sandbox.processes import alive
from semel.steps import ParticipantStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.history import assert_exactly_once
from semel.testing.spark.spark_cluster import LOCAL, SparkCluster
from tests.spark.support.topics_and_drivers import WITHOUT_DAEMON, create, everything, new_copy, program
from tests.support.waiting import PATIENCE_S, wait_for

ALONE = SparkCluster(LOCAL, WITHOUT_DAEMON)


def test_frozen_task_thaws_after_its_batch_was_run_again(kafka: Sandbox, tmp_path: Path) -> None:
    """It stands between the rows of two topics: those of the second are ready to be sent when it wakes up."""
    second = create(kafka, "thawed-second", 3)
    copy = new_copy(kafka, tmp_path, "thawed", rows=400, per_batch=400)
    copy = replace(copy, topics=[copy.target, second])
    frozen = CrashPoint(ParticipantStep.SENT, 1, Action.STOP)
    plan = CrashPlan(tmp_path / "plan", frozen)
    with ALONE.driver(program("copy", copy), plan):
        (worker,) = plan.wait(frozen, PATIENCE_S)
    with ALONE.driver(program("copy", copy), plan) as driver:
        assert driver.wait(PATIENCE_S) == 0, driver.tail()
    before = [sorted(everything(copy.servers, topic)) for topic in copy.topics]
    plan.release(frozen)
    wait_for(lambda: not alive(worker), "the end of the thawed worker")
    assert [sorted(everything(copy.servers, topic)) for topic in copy.topics] == before
    assert "ParticipantStep.RECEIPT" not in [passed.step for passed in plan.passed() if passed.pid == worker]
    assert_exactly_once(copy.servers, copy.topics, source=copy.source, id="json:$.id")
