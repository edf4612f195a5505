"""A checkpoint on S3: drivers are killed, and both sinks go on from what Spark has written there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.steps import OwnerStep, SinkStep, Step, TwoPhaseStep, WriterStep
from semel.testing.spark.spark_cluster import LOCAL, SparkCluster
from tests.spark.support.remote_checkpoints import kill_and_resume
from tests.support.s3 import ObjectStore, object_store

pytestmark = pytest.mark.exhaustive  # a server of S3, where each file that Spark renames is copied


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.mark.parametrize(
    ("task_scope", "steps"),
    [
        pytest.param(False, [SinkStep.RETURNING, OwnerStep.COMMIT_SENT, SinkStep.DECIDED], id="KafkaSink"),
        pytest.param(True, [WriterStep.DECIDED, OwnerStep.COMMIT_SENT, TwoPhaseStep.PREPARED], id="format"),
    ],
)
def test_drivers_are_killed(
    kafka: Sandbox,
    tmp_path: Path,
    store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    task_scope: bool,
    steps: list[Step],
) -> None:
    """After a commit that Spark's log lacks, before it, and in between."""
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    spark = SparkCluster(LOCAL, store.spark())
    kill_and_resume(kafka, tmp_path, store.folder, steps, spark, task_scope=task_scope)
