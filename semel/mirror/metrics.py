"""Prometheus metrics of the flows in this process, with the names that dashboards of MirrorMaker 2 know.

Counts begin at zero with the process. Rates and averages that Java's metrics keep over a window are left to Prometheus.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from semel.metrics.families import Collector, Metric, MetricKind, Samples
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.copy import Times
from semel.mirror.stops import WHOLE_TOPIC, Stop
from semel.wire.metadata import TopicPartition

__all__ = ["METRICS", "Doing", "FlowMeter", "MirrorCollector", "meters"]

_MM2 = "kafka_connect_mirror_mirrorsourceconnector"
#: So many seconds the latencies are of, as in MirrorMaker 2.
_WINDOW_S = 60.0
_FLOW, _PARTITION = ("source", "target"), ("source", "target", "topic", "partition")
_COPIED_AT = "time from a record's timestamp to the commit of its copy, in the last 60 seconds."


def _gauge(name: str, labels: tuple[str, ...], help: str) -> Metric:
    return Metric(name, MetricKind.GAUGE, labels, help)


_RECORDS = _gauge(f"{_MM2}_record_count", _PARTITION, "Records that were copied, by target topic and partition.")
_BYTES = _gauge(f"{_MM2}_byte_count", _PARTITION, "Bytes of the record batches that were copied, as they were written.")
_LATENCY_MIN, _LATENCY_MAX, _LATENCY_AVG = (
    _gauge(f"{_MM2}_replication_latency_ms_{of}", _PARTITION, f"The {which} {_COPIED_AT}")
    for of, which in (("min", "shortest"), ("max", "longest"), ("avg", "mean"))
)
_LAG = _gauge(
    "semel_mirror_lag_records", _PARTITION, "Offsets of a source partition that are readable and not copied yet."
)
_RUNNING = _gauge("semel_mirror_running", _FLOW, "1 while a flow runs, 0 when it has stopped.")
_STOPPED = _gauge(
    "semel_mirror_stopped",
    (*_PARTITION, "reason"),
    "1 for each partition that is stopped, and for each topic (without a partition), with the error's tag.",
)
_SKIPPED = _gauge("semel_mirror_skipped_records", _FLOW, "Offsets that were passed over because of on.data.loss=skip.")
#: All that is exported. The first five have the labels that MirrorMaker 2's have.
METRICS = (
    _RECORDS,
    _BYTES,
    _LATENCY_MIN,
    _LATENCY_MAX,
    _LATENCY_AVG,
    _LAG,
    _RUNNING,
    _STOPPED,
    _SKIPPED,
)


class Doing(Enum):
    """What a flow does. ``PAUSED`` and ``STOPPED`` are as an operator wants; one that has ``ENDED`` has failed, or its
    program ends.
    """

    STARTING = "starting"
    COPYING = "copying"
    PAUSED = "paused"
    STOPPED = "stopped"
    STANDING_BY = "standing by"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Latency:
    """The milliseconds from the timestamps of records to the commit of their copies."""

    least: float
    most: float
    mean: float


_meters: dict[str, FlowMeter] = {}


def meters() -> list[FlowMeter]:
    """Return the numbers of each flow that this process has started."""
    return list(_meters.values())


class FlowMeter:
    """The numbers of one flow, made when it starts. Any thread may ask."""

    def __init__(self, config: FlowConfig) -> None:
        self.source, self.target = config.policy.source, config.policy.target
        self.title = config.title
        self.doing = Doing.STARTING
        self.tries_again = False
        self.paused_topics: frozenset[str] = frozenset()
        #: By the monotonic clock.
        self.committed_at: float | None = None
        self.skipped = 0
        self._copied: dict[TopicPartition, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self._lag: dict[TopicPartition, int] = {}
        self._stopped: dict[TopicPartition, Stop] = {}
        #: The time of each commit, by the monotonic clock and in milliseconds of the other one.
        self._times: dict[TopicPartition, deque[tuple[float, int, Times]]] = defaultdict(deque)
        self._lock = threading.Lock()
        _meters[config.title] = self

    @property
    def running(self) -> bool:
        """False once the flow has ended."""
        return self.doing is not Doing.ENDED

    def add(
        self, copied: Mapping[TopicPartition, tuple[int, int]], times: Mapping[TopicPartition, Times] | None = None
    ) -> None:
        """Add the records, bytes and times of a round that was just committed, by target partition."""
        now, clock = time.monotonic(), time.time_ns() // 1_000_000  # whole: a mean is between the others then
        with self._lock:
            for partition, one in (times or {}).items():
                self._times[partition].append((now, clock, one))
            for partition, (records, size) in copied.items():
                before = self._copied[partition]
                self._copied[partition] = before[0] + records, before[1] + size
            self.committed_at = now

    def set_lag(self, lag: Mapping[TopicPartition, int]) -> None:
        """Set the records that are readable and not copied, by source partition."""
        with self._lock:
            self._lag = dict(lag)

    def set_stopped(self, stopped: Mapping[TopicPartition, Stop]) -> None:
        """Set what is stopped, by source partition or topic."""
        with self._lock:
            self._stopped = dict(stopped)

    @property
    def stopped(self) -> dict[TopicPartition, Stop]:
        """The stopped partitions and topics as they were set."""
        with self._lock:
            return dict(self._stopped)

    @property
    def copied(self) -> dict[TopicPartition, tuple[int, int]]:
        """All records and bytes, by target partition."""
        with self._lock:
            return dict(self._copied)

    @property
    def latencies(self) -> dict[TopicPartition, Latency]:
        """The latency of the target partitions that got records in the last 60 seconds."""
        since = time.monotonic() - _WINDOW_S
        with self._lock:
            for seen in self._times.values():
                while seen and seen[0][0] < since:
                    seen.popleft()
            return {partition: _latency(seen) for partition, seen in self._times.items() if seen}

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """The lag as it was set."""
        with self._lock:
            return dict(self._lag)


def _latency(seen: Iterable[tuple[float, int, Times]]) -> Latency:
    """Return the latency of some rounds. A clock that is behind that of the producers makes it 0, not less."""
    rows = [(at - one.newest, at - one.oldest, at * one.count - one.total, one.count) for _, at, one in seen]
    least, most, total, count = zip(*rows, strict=True)
    return Latency(max(min(least), 0), max(*most, 0), max(sum(total) / sum(count), 0))


class MirrorCollector(Collector):
    """A collector of the flows in this process for a registry of ``prometheus_client``."""

    metrics = METRICS

    def fill(self, samples: Samples) -> None:
        """Give the values of this moment."""
        for meter in meters():
            flow = (meter.source, meter.target)
            for (topic, index), (records, size) in meter.copied.items():
                samples.add(_RECORDS, records, *flow, topic, str(index))
                samples.add(_BYTES, size, *flow, topic, str(index))
            for (topic, index), latency in meter.latencies.items():
                samples.add(_LATENCY_MIN, latency.least, *flow, topic, str(index))
                samples.add(_LATENCY_MAX, latency.most, *flow, topic, str(index))
                samples.add(_LATENCY_AVG, latency.mean, *flow, topic, str(index))
            for (topic, index), lag in meter.lag.items():
                samples.add(_LAG, lag, *flow, topic, str(index))
            for (topic, index), stop in meter.stopped.items():
                samples.add(_STOPPED, 1, *flow, topic, "" if index == WHOLE_TOPIC else str(index), stop.tag)
            samples.add(_RUNNING, int(meter.running), *flow)
            samples.add(_SKIPPED, meter.skipped, *flow)
