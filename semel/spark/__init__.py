"""Exactly-once Kafka for Spark. Public: :class:`KafkaSink`, :func:`keep_running`, :func:`error`; for those who watch it
:class:`MetricsListener`, :func:`serve_metrics`, :class:`MetricsCollector`. The source is ``format("semel")``.

A micro-batch goes through these, in this order:

====================  =====================================================================================
``source``            ``format("semel")``: plans a range of offsets for each batch, reads it in tasks
``source_stream``     where the batches of a streaming query start and end
``source_topics``     what the cluster has of the topics that are read
``source_plan``       the arithmetic of micro-batches
``left_out``          what was read and the options ask for no more: refused, or paused
``sink``              what ``foreachBatch`` calls
``query``             what the sink knows of its query and of the batch that calls it
``precedence``        checkpoint against progress: run, skip, rebuild or refuse (PROTOCOL 6)
``writing``           one DataFrame in one transaction
``columns``           which columns are written
``placement``         which task writes which output partition
``encoding``          rows to record batches, before the shuffle
``tasks``             tickets over a job, and receipts back
``proof``             that each row was computed once and written once
``answers``           what a task hands back
``sealed``            what executors are given, which those with another semel refuse
``bounds``            a job that outlives its transaction is cancelled
====================  =====================================================================================

Beside them: ``options`` and ``source_options``; ``offsets``, the JSON in Spark's offset log; ``refusal``, what a refusal says; ``claims``, which
prefixes live queries of this application have; ``errors``, ours given back from Spark's text; ``running``, which starts a query again;
``internals`` and ``books`` (Spark's jobs and stages), every use of what Spark does not promise, in two places, pinned by one test; ``facts``, what
both answer; ``worker``, what a Python worker keeps from one task to the next; ``kafka_checkpoint``, where a query with Spark's own source stands that
moves to this one.

For those who watch: ``metrics``, what happened to the batches in numbers; ``listener``, that beside Spark's progress; ``exporter``, that for
Prometheus, with ``lookout``, which asks the cluster what it alone knows.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.spark.errors import error
    from semel.spark.metrics.listener import MetricsListener
    from semel.spark.metrics.prometheus import MetricsCollector, serve_metrics
    from semel.spark.restarts import keep_running
    from semel.spark.sink.kafka_sink import KafkaSink

__all__ = ["KafkaSink", "MetricsCollector", "MetricsListener", "error", "keep_running", "serve_metrics"]

_HOME = {
    "KafkaSink": "semel.spark.sink.kafka_sink",
    "MetricsCollector": "semel.spark.metrics.prometheus",
    "MetricsListener": "semel.spark.metrics.listener",
    "error": "semel.spark.errors",
    "keep_running": "semel.spark.restarts",
    "serve_metrics": "semel.spark.metrics.prometheus",
}


def __getattr__(name: str) -> object:
    # what a task needs must not cost it the driver's imports: executors load one module of this package, not all
    if name not in _HOME:
        raise AttributeError(f"module 'semel.spark' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
