"""Exactly-once Kafka for Spark.

Public: :class:`KafkaSink`, :func:`keep_running`, :func:`error`; for metrics :class:`MetricsListener`,
:func:`serve_metrics`, :class:`MetricsCollector`. ``format("semel")`` reads and writes.

=================  ===================================================================================================
``data_source``    ``format("semel")``: what Spark asks first
``source``         ``format("semel")``: plans a range of offsets for each batch, reads it in tasks
``sink``           ``KafkaSink``: writes each batch in one transaction
``writer``         ``format("semel")`` as a sink: each task in a transaction of its own, one decision for all
``job``            a Spark job of tickets: tasks that write into one transaction, and the proof that each wrote once
``database``       ``sink(outbox, …)``: each batch in a database and in Kafka, both or neither
``jvm``            every use of what Spark does not promise, pinned by one test
``metrics``        what happened to the batches, in numbers
``options``        options that source and sink share
``source_offset``  the JSON in Spark's offset log
``errors``         semel's errors, given back from Spark's text
``interpreter``    the Python that Spark starts its workers with
``restarts``       run a query, and start it again after errors that ask for it
``task_result``    what a task hands back to the driver
``version_guard``  pickles that only the same version of semel opens
``worker_client``  the client that a Python worker keeps from one task to the next
=================  ===================================================================================================
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from semel.spark import interpreter

if TYPE_CHECKING:
    from semel.spark.errors import error
    from semel.spark.metrics.collector import MetricsCollector, serve_metrics
    from semel.spark.metrics.listener import MetricsListener
    from semel.spark.restarts import keep_running
    from semel.spark.sink.kafka_sink import KafkaSink

__all__ = ["KafkaSink", "MetricsCollector", "MetricsListener", "error", "keep_running", "serve_metrics"]

_HOME = {
    "KafkaSink": "semel.spark.sink.kafka_sink",
    "MetricsCollector": "semel.spark.metrics.collector",
    "MetricsListener": "semel.spark.metrics.listener",
    "error": "semel.spark.errors",
    "keep_running": "semel.spark.restarts",
    "serve_metrics": "semel.spark.metrics.collector",
}


def __getattr__(name: str) -> object:
    # what a task needs must not cost it the driver's imports: executors load one module of this package, not all
    if name not in _HOME:
        raise AttributeError(f"module 'semel.spark' has no attribute {name!r}")
    interpreter.settle()
    return getattr(importlib.import_module(_HOME[name]), name)
