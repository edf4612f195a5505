"""Objection 8: a second driver runs the query while the first one is alive: the first is fenced, with its executors,
and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep, Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.history import assert_exactly_once
from semel.testing.spark.spark_cluster import LOCAL, SparkCluster
from tests.spark.programs.identity import FunctionStep, Identity
from tests.spark.support.stateful_plans import FORMAT, HDFS, PROVIDER, ROCKSDB
from tests.spark.support.topics_and_drivers import create, everything, new_copy, produce, program, values
from tests.support.waiting import PATIENCE_S

#: As Spark has it without a setting: on a local disk it renames onto what is there, as Hadoop's and those of clouds do.
#: Tests have a quicker one.
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
_KEYS = range(10)


def _run_to_its_end(cluster: SparkCluster, argv: Sequence[str], plan: CrashPlan) -> None:
    with cluster.driver(argv, plan) as driver:
        assert driver.wait(PATIENCE_S) == 0, driver.tail()


@pytest.mark.parametrize(
    "held_at",
    [
        pytest.param(ParticipantStep.SENT, id="in an executor"),
        pytest.param(OwnerStep.PROGRESS_WRITTEN, id="in the driver", marks=pytest.mark.exhaustive),
    ],
)
def test_the_first_one_is_fenced(kafka: Sandbox, tmp_path: Path, held_at: Step) -> None:
    """On one checkpoint, as when a scheduler starts a query again that it takes for dead."""
    copy = new_copy(kafka, tmp_path, f"two-drivers-{held_at.value}", rows=600, per_batch=200)
    held = CrashPoint(held_at, 2, Action.HANG)
    plan = CrashPlan(tmp_path / "plan", held)
    cluster = SparkCluster(LOCAL)
    with cluster.driver(program("copy", copy), plan) as first:
        plan.wait(held, PATIENCE_S)
        _run_to_its_end(cluster, program("copy", copy), plan)
        before = sorted(everything(copy.servers, copy.target))
        plan.release(held)
        assert first.wait(PATIENCE_S) != 0, "it ended as if nothing had happened"
        assert "SEMEL_FENCED" in first.tail(), first.tail()
    assert sorted(everything(copy.servers, copy.target)) == before
    assert_exactly_once(copy.servers, copy.target, source=copy.source, id="json:$.id")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("provider", "version", "stays"),
    [
        pytest.param(ROCKSDB, 2, True, id="format 2"),
        pytest.param(ROCKSDB, 1, False, id="control"),
        pytest.param(HDFS, 1, False, id="control, HDFS"),
    ],
)
def test_state_that_the_first_one_has_made(
    kafka: Sandbox, tmp_path: Path, provider: str, version: int, stays: bool
) -> None:
    """Being fenced keeps it from Kafka, and not from the checkpoint: there only names of its own keep its state apart,
    which format 2 has.

    The control is what guarantees.md names: a function that answers otherwise each time has then put out what its state
    does not hold.
    """
    source, target = create(kafka, "identity-in", 2), create(kafka, "identity-out", 2)
    argv = program("identity", Identity(kafka.bootstrap_servers, source, target, str(tmp_path / "checkpoint")))
    settings = {
        PROVIDER: provider,
        FORMAT: str(version),
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
    }
    held = CrashPoint(FunctionStep.ASKED, 1, Action.HANG)
    cluster, plan = SparkCluster(LOCAL, settings), CrashPlan(tmp_path / "plan", held)
    produce(kafka, source, _KEYS)
    with cluster.driver(argv, plan) as first:
        plan.wait(held, PATIENCE_S)
        _run_to_its_end(cluster, argv, plan)
        plan.release(held)
        assert first.wait(PATIENCE_S) != 0, "it ended as if nothing had happened"
        assert "SEMEL_FENCED" in first.tail(), first.tail()
        assert ("overwritten state of the other one" in first.tail()) is not stays
    produce(kafka, source, _KEYS)
    _run_to_its_end(cluster, argv, plan)
    written = values(kafka.bootstrap_servers, target)
    assert sorted(value.split()[0] for value in written) == sorted(2 * [f"k{key}" for key in _KEYS])
    assert (len(set(written)) == len(_KEYS)) is stays, sorted(written)
