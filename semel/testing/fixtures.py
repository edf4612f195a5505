"""pytest fixtures: a real Kafka, of one node or of three, and a Spark of separate processes.

Use them with ``pytest_plugins = ["semel.testing.fixtures"]`` in the root conftest. The first test that uses a Kafka
starts it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.sandbox import Sandbox
from semel.testing.spark.spark_cluster import SparkCluster

__all__ = ["kafka", "kafka3", "spark_cluster"]


@pytest.fixture(scope="session")
def kafka() -> Iterator[Sandbox]:
    """Start one node for the whole session.

    Tests share it: each uses its own topic names and ids, and leaves the node running.
    """
    with Sandbox.start() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def kafka3() -> Iterator[Sandbox]:
    """Start three nodes for one module. A test that kills or freezes a node brings it back."""
    with Sandbox.start(nodes=3) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def spark_cluster() -> SparkCluster:
    """Return a runner of driver programs on ``local-cluster``, with executors in processes of their own, under a crash
    plan.

    It holds no running process.
    """
    return SparkCluster()
