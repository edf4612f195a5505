"""Prometheus metrics of the worker in this process, by the names that dashboards of Kafka Streams know.

Counts begin at zero with the process. What Kafka measures over a window is left to Prometheus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from semel.metrics.families import Collector, Metric, MetricKind, Samples

__all__ = ["METRICS", "StreamsCollector", "WorkerCounts"]

_THREAD = ("application_id",)
_TASK = ("application_id", "task_id")
_COMMITS = Metric(
    "kafka_streams_stream_thread_commit_total",
    MetricKind.COUNTER,
    _THREAD,
    "Transactions that the worker has committed.",
)
_CREATED = Metric(
    "kafka_streams_stream_thread_task_created_total",
    MetricKind.COUNTER,
    _THREAD,
    "Tasks that the worker has opened: at its start, and when the group has given it some.",
)
_CLOSED = Metric(
    "kafka_streams_stream_thread_task_closed_total", MetricKind.COUNTER, _THREAD, "Tasks that the worker has closed."
)
_PROCESSED = Metric(
    "kafka_streams_stream_task_process_total",
    MetricKind.COUNTER,
    _TASK,
    "Records that the task has processed; those of an aborted transaction are counted each time.",
)
_RESTORED = Metric(
    "kafka_streams_stream_thread_restore_total",
    MetricKind.COUNTER,
    _THREAD,
    "Records of changelogs that were read to restore stores.",
)
_UPDATED = Metric(
    "kafka_streams_stream_thread_update_total",
    MetricKind.COUNTER,
    _THREAD,
    "Records of changelogs that were read for standby tasks.",
)
_RESTORING = Metric(
    "kafka_streams_stream_state_updater_active_restoring_tasks",
    MetricKind.GAUGE,
    _THREAD,
    "Tasks that wait for their state.",
)
_STANDBYS = Metric(
    "kafka_streams_stream_state_updater_standby_updating_tasks",
    MetricKind.GAUGE,
    _THREAD,
    "Standby tasks of the worker.",
)
_REMAINING = Metric(
    "kafka_streams_stream_task_restore_remaining_records_total",
    MetricKind.GAUGE,
    _TASK,
    "Offsets of changelogs that a task lacks which restores, or a standby task.",
)
_DROPPED = Metric(
    "kafka_streams_stream_processor_node_dropped_records_total",
    MetricKind.COUNTER,
    ("application_id", "processor_node_id"),
    "Records that the node has dropped: without a key, late, or older than a retention.",
)
#: All that is exported.
METRICS = (
    _COMMITS,
    _CREATED,
    _CLOSED,
    _PROCESSED,
    _RESTORED,
    _UPDATED,
    _RESTORING,
    _STANDBYS,
    _REMAINING,
    _DROPPED,
)

#: Offsets that tasks lack, by their ids: those that restore, and standby tasks.
Remaining = tuple[Mapping[str, int], Mapping[str, int]]


class WorkerCounts:
    """The counts of one application in this process, over all starts of its worker. One thread changes each of them."""

    def __init__(self) -> None:
        self.commits = self.created = self.closed = self.restored = self.updated = 0
        #: Returns what restores now. A worker sets it.
        self.restores: Callable[[], Remaining] = lambda: ({}, {})
        #: Records by the id of their task.
        self.processed: Counter[str] = Counter()


class StreamsCollector(Collector):
    """A collector of one application for a registry of ``prometheus_client``."""

    metrics = METRICS

    def __init__(self, application_id: str, counts: WorkerCounts, dropped: Callable[[], Mapping[str, int]]) -> None:
        super().__init__()
        self._id, self._counts, self._dropped = application_id, counts, dropped

    def fill(self, samples: Samples) -> None:
        """Give the values of this moment."""
        counts = self._counts
        restoring, standbys = counts.restores()
        for metric, value in (
            (_COMMITS, counts.commits),
            (_CREATED, counts.created),
            (_CLOSED, counts.closed),
            (_RESTORED, counts.restored),
            (_UPDATED, counts.updated),
            (_RESTORING, len(restoring)),
            (_STANDBYS, len(standbys)),
        ):
            samples.add(metric, value, self._id)
        for task, left in {**restoring, **standbys}.items():
            samples.add(_REMAINING, left, self._id, task)
        for task, records in counts.processed.copy().items():
            samples.add(_PROCESSED, records, self._id, task)
        for node, records in self._dropped().items():
            samples.add(_DROPPED, records, self._id, node)
