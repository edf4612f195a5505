"""Prometheus metrics of the application that runs in this process, with Kafka Streams' names where it has them.

Counts begin at zero with the process. Rates are left to Prometheus. Lag is asked of the cluster at each scrape.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from semel.config import ClientConfig
from semel.errors import SemelError
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily, Metric

__all__ = ["NAMES", "StreamsCollector", "WorkerMeter", "meter_of"]

log = logging.getLogger("semel.streams")

_TASK, _THREAD = "kafka_streams_stream_task_metrics", "kafka_streams_stream_thread_metrics"
_PROCESSED, _DROPPED = f"{_TASK}_process_total", f"{_TASK}_dropped_records_total"
_COMMITS = f"{_THREAD}_commit_total"
_AVERAGE, _LONGEST = f"{_THREAD}_commit_latency_avg", f"{_THREAD}_commit_latency_max"
_LAG = "kafka_consumer_fetch_manager_metrics_records_lag"
#: All that is exported, with what it says.
NAMES: Mapping[str, str] = {
    _PROCESSED: "Records that a task has worked on. Those of an aborted transaction come again, and count again.",
    _DROPPED: "Late records that a task has dropped since it was opened here.",
    _COMMITS: "Transactions that were committed.",
    _AVERAGE: "Milliseconds that a commit took, on average of the last minute.",
    _LONGEST: "Milliseconds that the longest commit of the last minute took.",
    _LAG: "Offsets of an input partition that are readable and not committed as read yet.",
}
_LABELS = {_PROCESSED: ["task_id"], _DROPPED: ["task_id"], _LAG: ["topic", "partition"]}
#: Kafka Streams' averages and maxima are over two samples of 30 s.
_WINDOW_S = 60.0


class WorkerMeter:
    """The numbers of an application's worker in this process. Any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._processed: Counter[str] = Counter()
        self._dropped: dict[str, int] = {}
        self._commits = 0
        self._latencies: deque[tuple[float, float]] = deque()
        self._positions: dict[TopicPartition, int] = {}
        self.config: ClientConfig | None = None

    def worked(self, task: str, records: int) -> None:
        """Add records that a task has worked on."""
        with self._lock:
            self._processed[task] += records

    def assigned(self, tasks: Collection[str], positions: Mapping[TopicPartition, int]) -> None:
        """Set the tasks of the worker, and where the group stands in what they read."""
        with self._lock:
            self._dropped = dict.fromkeys(tasks, 0)
            self._positions = dict(positions)
            for task in tasks:  # a counter that begins with its first event hides that event
                self._processed[task] += 0

    def committed(self, seconds: float, positions: Mapping[TopicPartition, int], dropped: Mapping[str, int]) -> None:
        """Add a commit, and set where the group stands after it, and the late records of each task."""
        with self._lock:
            self._commits += 1
            self._latencies.append((self._clock(), seconds * 1000))
            self._forget_old()
            self._positions, self._dropped = dict(positions), dict(dropped)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where the group stands in the partitions of this worker."""
        with self._lock:
            return dict(self._positions)

    def samples(self) -> Iterator[tuple[str, list[str], float]]:
        """All but the lag: the name, the labels after the application's, and the value."""
        with self._lock:
            self._forget_old()
            latencies = [took for _, took in self._latencies]
            processed, dropped, commits = dict(self._processed), dict(self._dropped), self._commits
        yield from ((_PROCESSED, [task], count) for task, count in sorted(processed.items()))
        yield from ((_DROPPED, [task], count) for task, count in sorted(dropped.items()))
        yield _COMMITS, [], commits
        if latencies:
            yield _AVERAGE, [], sum(latencies) / len(latencies)
            yield _LONGEST, [], max(latencies)

    def _forget_old(self) -> None:
        while self._latencies and self._latencies[0][0] < self._clock() - _WINDOW_S:
            self._latencies.popleft()


_meters: dict[str, WorkerMeter] = {}


def meter_of(application_id: str, config: ClientConfig) -> WorkerMeter:
    """Return the meter of an application in this process. A worker that starts again counts on."""
    meter = _meters.setdefault(application_id, WorkerMeter())
    meter.config = config
    return meter


class StreamsCollector:
    """A collector for a registry of ``prometheus_client``. A cluster that does not answer leaves a gap in the lag."""

    def __init__(self, *, within_ms: int = 2_000) -> None:
        self._within_ms = within_ms

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without their values."""
        return iter(self._families().values())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics with their values. It opens and closes its own connection."""
        families = self._families()
        for application_id, meter in list(_meters.items()):
            for name, labels, value in meter.samples():
                families[name].add_metric([application_id, *labels], value)
            for (topic, index), lag in sorted(self._lag(application_id, meter).items()):
                families[_LAG].add_metric([application_id, topic, str(index)], lag)
        return iter(families.values())

    def _lag(self, application_id: str, meter: WorkerMeter) -> dict[TopicPartition, int]:
        positions = meter.positions
        if not positions or meter.config is None:
            return {}
        try:
            with Client(meter.config.for_metrics(self._within_ms)) as client:
                ends = list_offsets(client, dict.fromkeys(positions, LATEST), read_committed=True)
        except SemelError as error:
            log.warning("the lag of application %r could not be asked: %s", application_id, error)
            return {}
        return {p: max(row.offset - positions[p], 0) for p, row in ends.items()}

    def _families(self) -> dict[str, GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        return {
            name: GaugeMetricFamily(name, help, labels=["application_id", *_LABELS.get(name, [])])
            for name, help in NAMES.items()
        }
