"""Prometheus metrics of the flows in this process, with the names that dashboards of MirrorMaker 2 know.

``grafana.json`` beside this module is a dashboard of them.
"""

from __future__ import annotations

from typing import Final

from semel.metrics.families import Collector, Metric, MetricKind, Samples
from semel.mirror.meter import Doing, Latency, meters
from semel.mirror.stops import WHOLE_TOPIC

__all__ = ["METRICS", "MirrorCollector"]

_SOURCE, _CHECKPOINT = ("kafka_connect_mirror_mirror" + kind for kind in ("sourceconnector", "checkpointconnector"))
_FLOW, _PARTITION = ("source", "target"), ("source", "target", "topic", "partition")
_GROUP = ("source", "target", "group", "topic", "partition")
#: The ends of the names of a time, and what they say of it.
_OF: Final = {
    "": "of the newest record",
    "_min": "at least",
    "_max": "at most",
    "_avg": "on average",
}


def _gauge(name: str, labels: tuple[str, ...], help: str) -> Metric:
    return Metric(name, MetricKind.GAUGE, labels, help)


def _times(name: str, labels: tuple[str, ...], what: str) -> list[Metric]:
    return [_gauge(f"{name}{end}", labels, f"{what}, {says}, in the last 60 seconds.") for end, says in _OF.items()]


_RECORDS = _gauge(f"{_SOURCE}_record_count", _PARTITION, "Records that were copied, by target topic and partition.")
_RECORD_RATE = _gauge(f"{_SOURCE}_record_rate", _PARTITION, "Records per second, in the last 60 seconds.")
_BYTES = _gauge(
    f"{_SOURCE}_byte_count", _PARTITION, "Bytes of the record batches that were copied, as they were written."
)
_BYTE_RATE = _gauge(f"{_SOURCE}_byte_rate", _PARTITION, "Bytes per second, in the last 60 seconds.")
_AGES = _times(f"{_SOURCE}_record_age_ms", _PARTITION, "Age of records by their timestamps when they were read")
_LATENCIES = _times(
    f"{_SOURCE}_replication_latency_ms", _PARTITION, "Time from a record's timestamp to the commit of its copy"
)
_CHECKPOINTS = _times(
    f"{_CHECKPOINT}_checkpoint_latency_ms", _GROUP, "Time from reading a group's offset to its checkpoint"
)
_LAG = _gauge(
    "semel_mirror_lag_records", _PARTITION, "Offsets of a source partition that are readable and not copied yet."
)
_RUNNING = _gauge("semel_mirror_running", _FLOW, "1 while a flow runs, 0 when it has stopped.")
_STATE = _gauge(
    "semel_mirror_state",
    (*_FLOW, "state"),
    "1 for what a flow does: starting, copying, paused, stopped, standing_by or ended.",
)
_STOPPED = _gauge(
    "semel_mirror_stopped",
    (*_PARTITION, "reason"),
    "1 for each partition that is stopped, and for each topic (without a partition), with the error's tag.",
)
_SKIPPED = _gauge("semel_mirror_skipped_records", _FLOW, "Offsets that were passed over because of on.data.loss=skip.")
#: All that is exported. MirrorMaker 2's have its labels.
METRICS = (
    _RECORDS,
    _RECORD_RATE,
    _BYTES,
    _BYTE_RATE,
    *_AGES,
    *_LATENCIES,
    *_CHECKPOINTS,
    _LAG,
    _RUNNING,
    _STATE,
    _STOPPED,
    _SKIPPED,
)


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
            for (topic, index), rate in meter.rates.items():
                samples.add(_RECORD_RATE, rate.records, *flow, topic, str(index))
                samples.add(_BYTE_RATE, rate.size, *flow, topic, str(index))
            for metrics, late in ((_LATENCIES, meter.latencies), (_AGES, meter.ages)):
                for (topic, index), latency in late.items():
                    _add(samples, metrics, latency, *flow, topic, str(index))
            for (group, topic, index), latency in meter.checkpoint_latencies.items():
                _add(samples, _CHECKPOINTS, latency, *flow, group, topic, str(index))
            for (topic, index), lag in meter.lag.items():
                samples.add(_LAG, lag, *flow, topic, str(index))
            for (topic, index), stop in meter.stopped.items():
                samples.add(_STOPPED, 1, *flow, topic, "" if index == WHOLE_TOPIC else str(index), stop.tag)
            for doing in Doing:
                samples.add(_STATE, int(meter.doing is doing), *flow, doing.value.replace(" ", "_"))
            samples.add(_RUNNING, int(meter.running), *flow)
            samples.add(_SKIPPED, meter.skipped, *flow)


def _add(samples: Samples, metrics: list[Metric], latency: Latency, *labels: str) -> None:
    for metric, value in zip(metrics, (latency.newest, latency.least, latency.most, latency.mean), strict=True):
        samples.add(metric, value, *labels)
