"""Queries whose checkpoints are in another file system than the driver's: killed where Spark's log lacks a commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from semel.sandbox import Sandbox
from semel.steps import Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.spark.spark_cluster import SparkCluster
from tests.spark.support.topics_and_drivers import assert_exact, kill_when_all_are_met, new_copy, program


def kill_and_resume(
    kafka: Sandbox,
    directory: Path,
    checkpoints: str,
    steps: Sequence[Step],
    spark: SparkCluster,
    *,
    task_scope: bool = False,
) -> None:
    """Hold a query at each step, kill their driver, and let the next one run to the end: all is exact."""
    name = checkpoints.partition(":")[0]
    copies = [
        replace(new_copy(kafka, directory, name, rows=2_000, per_batch=100), task_scope=task_scope) for _ in steps
    ]
    copies = [replace(copy, checkpoint=f"{checkpoints}/{copy.target}") for copy in copies]
    held = [CrashPoint(step, 7, Action.HANG) for step in steps]
    kill_when_all_are_met(program("copy", *copies), CrashPlan(directory / "kill", *held), spark)
    assert spark.run_until_done(program("copy", *copies), CrashPlan(directory / "last"), 0) == 0
    for copy in copies:
        assert_exact(copy)
