"""Spark for tests and the demo: quick to start, on separate executor processes, and killed for real.

A :class:`SparkCluster` runs any program that calls ``SparkSession.builder.getOrCreate()`` in a process of its own under
a crash plan, by default on ``local-cluster``: a driver, and executors in processes of their own. The pytest fixture
``spark_cluster`` is one. Never measure with it: the compiler is limited so that Spark starts in half the time.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from semel.testing.crash import CrashPlan
from semel.testing.program import Program, run_until, run_until_done
from semel.testing.spark import fork_server
from semel.testing.spark.spark_home import java_options, spark_home

__all__ = ["LOCAL", "LOCAL_CLUSTER", "SparkCluster", "conf"]

#: Two executor processes of one core each.
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
#: Everything but the Python workers in the driver's process. Four attempts of a task, as on a cluster; local mode has
#: one by default.
LOCAL = "local[2,4]"

_numbers = count(1)


def conf() -> dict[str, str]:
    """Return Spark settings for a quick start, with ``SPARK_HOME`` at
    :func:`semel.testing.spark.spark_home.spark_home`.
    """
    from semel.spark.jvm import versions  # with PySpark, which takes most of a second

    return {
        **dict.fromkeys(("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"), java_options()),
        "spark.driver.memory": "1g",
        "spark.executor.memory": "768m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # the default one runs a system program several times a batch, to check whether a local file is a link
        "spark.sql.streaming.checkpointFileManagerClass": versions.current().local_checkpoints,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.python.daemon.module": "semel.testing.spark.daemon",
    }


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A runner of driver programs: a master, and settings in addition to :func:`conf`.

    ``workers`` is the Python of the executors. The default is one that starts quickly, but its processes are not below
    Spark's in the tree of processes. Give ``sys.executable`` to find Python workers there.
    """

    master: str = LOCAL_CLUSTER
    settings: Mapping[str, str] = field(default_factory=dict)
    workers: str = ""

    def driver(self, argv: Sequence[str], plan: CrashPlan) -> Program:
        """Start a driver program under a plan. Use it as a context manager: its end kills Spark's Java too."""
        log = plan.directory / f"driver-{next(_numbers)}.log"
        return Program(argv, {**os.environ, **self._environment(plan), **plan.environment()}, log)

    def run_until_done(self, argv: Sequence[str], plan: CrashPlan, most: int, *, timeout: float = 600) -> int:
        """Run a driver program, and restart it each time the plan has killed it, as ``program.run_until_done``. Return
        the number of restarts.
        """
        return run_until_done(argv, plan, most, environment=self._environment(plan), timeout=timeout)

    def run_until(
        self, argv: Sequence[str], plan: CrashPlan, condition: Callable[[], bool], most: int, *, timeout: float = 600
    ) -> int:
        """Run a driver program that does not end by itself, as ``program.run_until``. Return the number of restarts."""
        return run_until(argv, plan, condition, most, environment=self._environment(plan), timeout=timeout)

    def _environment(self, plan: CrashPlan) -> dict[str, str]:
        settings = {**conf(), **plan.spark_conf(), **self.settings}
        arguments = ["--master", self.master]
        for name, value in settings.items():
            arguments += ["--conf", f"{name}={value}"]
        return {
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": self.workers or fork_server.python(),
            "PYSPARK_DRIVER_PYTHON": fork_server.python(),  # Spark plans with this one
            "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments, "pyspark-shell"]),
        }
