"""PySpark's daemon, which forks a Python worker for each task without one. Here it imports the workers' modules once,
before the forks.

``spark.python.daemon.module=semel.testing.spark.daemon``. The daemons of Spark's planning processes fork once or twice,
and import nothing ahead.
"""

from __future__ import annotations

import importlib
import sys

from pyspark.daemon import manager

if __name__ == "__main__":
    if sys.argv[1:] == ["pyspark.worker"]:
        for name in (
            "pyspark.worker",
            "semel.spark.source.readers",
            "semel.spark.sink.write_stage",
        ):
            importlib.import_module(name)
    manager()
