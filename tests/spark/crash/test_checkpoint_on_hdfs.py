"""A checkpoint on HDFS: drivers are killed, and the query goes on from what Spark has written there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.steps import OwnerStep, SinkStep
from semel.testing.crash import CrashPlan
from tests.spark.support.remote_checkpoints import kill_and_resume
from tests.spark.support.topics_and_drivers import LOCAL_DRIVER, new_copy, program, values
from tests.support.hadoop import hdfs

pytestmark = pytest.mark.exhaustive  # a name node and a data node, for what Spark's own file system does


@pytest.fixture(scope="module")
def file_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs(tmp_path_factory.mktemp("hadoop")) as uri:
        yield uri


def test_drivers_are_killed(kafka: Sandbox, tmp_path: Path, file_system: str) -> None:
    """After a commit that Spark's log lacks, before it, and in between."""
    steps = [SinkStep.RETURNING, OwnerStep.COMMIT_SENT, SinkStep.DECIDED]
    kill_and_resume(kafka, tmp_path, f"{file_system}/checkpoints", steps, LOCAL_DRIVER)


def test_the_sink_that_reads_it_by_itself_refuses_without_the_native_client(
    kafka: Sandbox, tmp_path: Path, file_system: str
) -> None:
    copy = replace(new_copy(kafka, tmp_path, "hdfs-format", rows=100, per_batch=100), task_scope=True)
    copy = replace(copy, checkpoint=f"{file_system}/checkpoints/{copy.target}")
    with LOCAL_DRIVER.driver(program("copy", copy), CrashPlan(tmp_path / "plan")) as driver:
        assert driver.wait(300) != 0
        assert "libhdfs" in driver.log.read_text()
    assert values(kafka.bootstrap_servers, copy.target) == []
