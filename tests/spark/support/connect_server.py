"""A server of Spark Connect in a process of its own."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from semel.testing.crash import CrashPlan
from semel.testing.program import Program
from semel.testing.spark import fork_server
from semel.testing.spark.spark_cluster import LOCAL, conf
from semel.testing.spark.spark_home import spark_home
from tests.support.waiting import wait_for

__all__ = ["connect_server"]

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(plan: CrashPlan) -> Iterator[str]:
    """Start a server, and yield its address."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        **conf(),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    arguments = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    argv = [f"{spark_home()}/bin/spark-submit", "--master", LOCAL, *arguments, "--class", _CLASS, "spark-internal"]
    own = {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": fork_server.python(),
        "PYSPARK_DRIVER_PYTHON": fork_server.python(),
        "PYTHONPATH": str(Path.cwd()),
    }
    with Program(argv, {**os.environ, **own, **plan.environment()}, plan.directory / "server.log") as server:

        def serves() -> bool:
            assert server.process.poll() is None, server.tail()
            with closing(socket.socket()) as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        wait_for(serves, "the server to listen")
        yield f"sc://127.0.0.1:{port}"
