"""pytest fixtures: a real Kafka, of one node or of three, and a Spark of separate processes.

Use them with ``pytest_plugins = ["semel.testing.fixtures"]`` in the root conftest. A Kafka is started by the first test
that asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.sandbox import Sandbox
from semel.testing.spark.spark_cluster import SparkCluster

__all__ = ["kafka", "kafka3", "spark_cluster"]


@pytest.fixture(scope="session")
def kafka() -> Iterator[Sandbox]:
    """One node, for the whole session.

    Tests share it: each takes topic names and ids of its own, and leaves the node running.
    """
    with Sandbox.start() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def kafka3() -> Iterator[Sandbox]:
    """Three nodes, for one module. A test that kills or freezes a node brings it back."""
    with Sandbox.start(nodes=3) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def spark_cluster() -> SparkCluster:
    """Runs driver programs on ``local-cluster``, with executors in processes of their own, under a crash plan.

    It holds nothing that runs.
    """
    return SparkCluster()
