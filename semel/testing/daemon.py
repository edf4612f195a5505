"""PySpark's daemon, which forks a Python worker for each task that finds none: here with what all workers import imported once, before the forks.

``spark.python.daemon.module=semel.testing.daemon``. The daemons of Spark's planning processes fork once or twice, and import nothing ahead.
"""

from __future__ import annotations

import importlib
import sys

from pyspark.daemon import manager

if __name__ == "__main__":
    if sys.argv[1:] == ["pyspark.worker"]:
        for name in ("pyspark.worker", "semel.spark.placement", "semel.spark.source", "semel.spark.tasks"):
            importlib.import_module(name)
    manager()
