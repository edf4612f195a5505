"""``format("semel")`` through Spark Connect: a server in a process of its own, and a client that has no Spark."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.testing.crash import CrashPlan
from semel.testing.history import assert_exactly_once
from semel.testing.program import Program
from tests.spark.programs.connect_client import ROWS
from tests.spark.support.connect_server import connect_server
from tests.spark.support.topics_and_drivers import new_copy, program, values
from tests.support.waiting import PATIENCE_S


@pytest.mark.spark_4_2
def test_a_job_and_a_stream_through_spark_connect(kafka: Sandbox, tmp_path: Path) -> None:
    copy = replace(new_copy(kafka, tmp_path, "remote", rows=0, per_batch=200), task_scope=True)
    plan = CrashPlan(tmp_path / "plan")
    environment = {"PATH": str(Path(sys.executable).parent), "HOME": str(tmp_path), "PYTHONPATH": str(Path.cwd())}
    with connect_server(plan) as remote:
        argv = program("connect_client", remote, copy)
        with Program(argv, environment, tmp_path / "client.log") as client:
            assert client.wait(PATIENCE_S) == 0, client.tail()
        assert client.said("pyspark.sql.connect.session") == 1
    assert len(values(kafka.bootstrap_servers, copy.source)) == ROWS, "the second job had the version of the first"
    assert_exactly_once(copy.servers, copy.target, source=copy.source, id="json:$.id", batch="json:$.lot")
