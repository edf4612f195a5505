"""Tools for tests of semel, and of programs that use it. Public; ``docs/testing.md`` shows them at work.

- ``fixtures``: pytest fixtures ``kafka`` and ``kafka3``, a real Kafka of one or three nodes, and ``spark_cluster``.
- ``connector``: a test of a Connect connector whose tasks are killed.
- ``step_log``: a log of all steps, which survives a kill. ``crash``: strikes a process at a named step, and writes
  that log. ``program``: runs programs under such a plan, and starts them again.
- ``spark``: a Spark that starts quickly, with executors in processes of their own.
- ``postgres``: a real PostgreSQL, to be killed and frozen.
- ``proxy``: a TCP proxy between clients and a broker. It understands frame headers, and delays, repeats, drops or cuts.
- ``history``: reports lost, duplicated, reordered, torn. ``records``: reads the topics for it, with an independent
  client.

The names below are loaded when they are first used: each of them needs other packages (pip install '.[testing]' in the
checkout, and PySpark for :class:`SparkCluster`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.testing.crash import Action, CrashPlan, CrashPoint, Passed
    from semel.testing.history import History, assert_exactly_once, check, expect
    from semel.testing.program import Program, run_until, run_until_done
    from semel.testing.proxy.fault_proxy import FaultProxy
    from semel.testing.records import arrived, read
    from semel.testing.spark.spark_cluster import LOCAL, LOCAL_CLUSTER, SparkCluster

__all__ = [
    "LOCAL",
    "LOCAL_CLUSTER",
    "Action",
    "CrashPlan",
    "CrashPoint",
    "FaultProxy",
    "History",
    "Passed",
    "Program",
    "SparkCluster",
    "arrived",
    "assert_exactly_once",
    "check",
    "expect",
    "read",
    "run_until",
    "run_until_done",
]

_HOME = {
    "crash": ("Action", "CrashPlan", "CrashPoint", "Passed"),
    "history": ("History", "assert_exactly_once", "check", "expect"),
    "program": ("Program", "run_until", "run_until_done"),
    "proxy.fault_proxy": ("FaultProxy",),
    "records": ("arrived", "read"),
    "spark.spark_cluster": ("LOCAL", "LOCAL_CLUSTER", "SparkCluster"),
}


def __getattr__(name: str) -> object:
    for module, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(f"semel.testing.{module}"), name)
    raise AttributeError(f"module 'semel.testing' has no attribute {name!r}")
