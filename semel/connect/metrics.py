"""Prometheus metrics of a worker of Connect and its tasks, by the names that dashboards of Kafka Connect know.

Tasks report their counts each second, and the worker that leads shows them. Counts begin at zero with the process of a
task. What Kafka measures over a window is left to Prometheus.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from semel.connect.herder.throughput import TaskCounts
from semel.metrics.families import Collector, Metric, MetricKind, Samples

__all__ = ["METRICS", "ConnectCollector", "Measured"]

_TASK = ("connector", "task")
_LEADS = Metric("semel_connect_leader", MetricKind.GAUGE, (), "1 while this worker leads and runs the tasks, else 0.")
_CONNECTORS = Metric(
    "kafka_connect_worker_connector_count", MetricKind.GAUGE, (), "Connectors that this worker runs: all if it leads."
)
_TASKS = Metric(
    "kafka_connect_worker_task_count", MetricKind.GAUGE, (), "Tasks that this worker runs: all if it leads."
)
_STATUS = Metric(
    "kafka_connect_connector_task_status",
    MetricKind.GAUGE,
    (*_TASK, "status"),
    "1 for the state of each task: unassigned, running, paused, failed, restarting or stopped.",
)
_POLLED = Metric(
    "kafka_connect_source_task_source_record_poll_total",
    MetricKind.COUNTER,
    _TASK,
    "Records that the task has polled, before its transformations.",
)
_WRITTEN = Metric(
    "kafka_connect_source_task_source_record_write_total",
    MetricKind.COUNTER,
    _TASK,
    "Records that the task has written, after its transformations.",
)
_SIZE = Metric(
    "kafka_connect_source_task_transaction_size_avg",
    MetricKind.GAUGE,
    _TASK,
    "Records in a transaction on average, over the transactions that the task has ended so far.",
)
_AGE = Metric(
    "semel_connect_transaction_age_seconds",
    MetricKind.GAUGE,
    _TASK,
    "How long the task's transaction has been open; 0 while none is.",
)
#: All that is exported.
METRICS = (_LEADS, _CONNECTORS, _TASKS, _STATUS, _POLLED, _WRITTEN, _SIZE, _AGE)


class Measured(Protocol):
    """A worker, as far as it is measured."""

    @property
    def states(self) -> Mapping[str, Mapping[int, str]]:
        """The state of each task by connector; nothing unless it leads."""

    @property
    def counts(self) -> Mapping[str, Mapping[int, TaskCounts]]:
        """The newest report of each task by connector; nothing unless it leads."""

    @property
    def ready(self) -> bool:
        """True if it leads, and runs the tasks."""


class ConnectCollector(Collector):
    """A collector of one worker for a registry of ``prometheus_client``."""

    metrics = METRICS

    def __init__(self, worker: Measured) -> None:
        super().__init__()
        self._worker = worker

    def fill(self, samples: Samples) -> None:
        """Give the values of this moment."""
        states, counts = self._worker.states, self._worker.counts
        samples.add(_LEADS, int(self._worker.ready))
        samples.add(_CONNECTORS, len(states))
        samples.add(_TASKS, sum(len(tasks) for tasks in states.values()))
        for name, tasks in states.items():
            for task, state in tasks.items():
                samples.add(_STATUS, 1, name, str(task), state.lower())
        for name, reports in counts.items():
            for task, one in reports.items():
                labels = (name, str(task))
                samples.add(_POLLED, one.polled, *labels)
                samples.add(_WRITTEN, one.records, *labels)
                samples.add(_AGE, one.open_seconds, *labels)
                if one.commits:
                    samples.add(_SIZE, one.records / one.commits, *labels)
