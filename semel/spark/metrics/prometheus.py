"""The numbers of this process's sinks for Prometheus: read when they are scraped, with no writer in the background.

::

    server = serve_metrics(9464)                        # or, in a program that serves metrics already:
    prometheus_client.REGISTRY.register(MetricsCollector())

``docs/metrics.md`` says what each of :data:`METRICS` means, and what to do when it moves; ``grafana.json`` beside this
module is a dashboard of them. Needs the package ``prometheus-client``, which only the extra ``metrics`` brings: it is
imported when it is used.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError
from semel.extras import needs_extras
from semel.spark.metrics.cluster_poll import ClusterPoller
from semel.spark.metrics.meter import BatchOutcome, Meter, TopicTotals, meters

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family

__all__ = ["METRICS", "Metric", "MetricKind", "MetricsCollector", "MetricsServer", "serve_metrics"]


class MetricKind(Enum):
    """Prometheus's kinds. A summary has the names ``_count`` and ``_sum``, and no quantiles."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its whole name, and what its samples are labelled with."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    help: str

    @property
    def exported(self) -> tuple[str, ...]:
        """The names of its series."""
        return (f"{self.name}_count", f"{self.name}_sum") if self.kind is MetricKind.SUMMARY else (self.name,)


COMMITS = Metric("semel_commits_total", MetricKind.COUNTER, ("prefix",), "Transactions that were committed.")
ABORTS = Metric(
    "semel_aborts_total", MetricKind.COUNTER, ("prefix",), "Transactions that were aborted: nothing of them is visible."
)
RERUNS = Metric(
    "semel_reruns_total",
    MetricKind.COUNTER,
    ("prefix",),
    "Batches that were run again within one call of the sink, each time counted.",
)
BATCHES = Metric(
    "semel_batches_total", MetricKind.COUNTER, ("prefix", "outcome"), "Calls of the sink, by how they ended."
)
ROWS = Metric("semel_rows_total", MetricKind.COUNTER, ("prefix", "topic"), "Rows that are visible to readers.")
BYTES = Metric(
    "semel_bytes_total",
    MetricKind.COUNTER,
    ("prefix", "topic"),
    "Bytes of the record batches of these rows, compressed as they were sent.",
)
BATCH_SECONDS = Metric("semel_batch_seconds", MetricKind.SUMMARY, ("prefix",), "Seconds in calls of the sink.")
STEP_SECONDS = Metric(
    "semel_step_seconds", MetricKind.SUMMARY, ("prefix", "step"), "Seconds from the step before to this one."
)
AGE = Metric(
    "semel_transaction_age_seconds",
    MetricKind.GAUGE,
    ("prefix",),
    "How long the transaction has been open; 0 while none is.",
)
COMMITTED_AT = Metric(
    "semel_last_commit_timestamp_seconds",
    MetricKind.GAUGE,
    ("prefix",),
    "When a transaction was committed last, in seconds since 1970.",
)
LAG = Metric(
    "semel_lag_records",
    MetricKind.GAUGE,
    ("prefix", "topic"),
    "Offsets of a source topic that are readable and not committed as read yet.",
)
HELD_BACK = Metric(
    "semel_last_stable_offset_held_back_records",
    MetricKind.GAUGE,
    ("prefix", "topic"),
    "Offsets of an output topic that read_committed readers cannot reach, since a transaction is open before them.",
)
UNANSWERED = Metric(
    "semel_cluster_unanswered_total",
    MetricKind.COUNTER,
    (),
    "How often the cluster could not be asked for lag or what is held back.",
)

#: All that is exported.
METRICS = (
    COMMITS,
    ABORTS,
    RERUNS,
    BATCHES,
    ROWS,
    BYTES,
    BATCH_SECONDS,
    STEP_SECONDS,
    AGE,
    COMMITTED_AT,
    LAG,
    HELD_BACK,
    UNANSWERED,
)


class MetricsCollector:
    """A collector for a registry of ``prometheus_client``. Registering it sends no request. Each scrape asks the
    cluster, within seconds.

    The cluster is asked at most every ``every_seconds``, and given up after about ``within_ms``. Raises
    :class:`~semel.errors.ConfigError` where the package ``prometheus-client`` is missing.
    """

    def __init__(self, *, every_seconds: float = 5.0, within_ms: int = 2_000) -> None:
        self._families = _families()
        self._lookout = ClusterPoller(every_seconds=every_seconds, within_ms=within_ms)

    def describe(self) -> Iterator[Family]:
        """Yield the metrics without their values, for a registry."""
        return (self._families[metric.kind](metric) for metric in METRICS)

    def collect(self) -> Iterator[Family]:
        """Yield the metrics with their values, for a scrape."""
        samples = _Samples()
        for one in meters():
            _count(samples, one)
        for seen in self._lookout.poll():
            for topic, offsets in seen.lag.items():
                samples.most(LAG, offsets, seen.prefix, topic)
            for topic, offsets in seen.held_back.items():
                samples.most(HELD_BACK, offsets, seen.prefix, topic)
        samples.add(UNANSWERED, self._lookout.failures)
        for metric in METRICS:
            family = self._families[metric.kind](metric)
            for labels, (count, value) in sorted(samples.of[metric].items()):
                family.add_metric(labels, *((count, value) if metric.kind is MetricKind.SUMMARY else (value,)))
            yield family

    def close(self) -> None:
        """Close its connections to the clusters."""
        self._lookout.close()


class _Samples:
    """Values by labels.

    Two clusters may have one prefix: what is counted is added up, and of what is not the worst is shown.
    """

    def __init__(self) -> None:
        self.of: dict[Metric, dict[tuple[str, ...], tuple[int, float]]] = defaultdict(dict)

    def add(self, metric: Metric, value: float, *labels: str, count: int = 0) -> None:
        counted, sum_ = self.of[metric].get(labels, (0, 0))
        self.of[metric][labels] = counted + count, sum_ + value

    def most(self, metric: Metric, value: float, *labels: str) -> None:
        self.of[metric][labels] = 0, max(value, self.of[metric].get(labels, (0, value))[1])


def _count(samples: _Samples, meter: Meter) -> None:
    """Show existing counters from zero on: a counter that begins with its first event hides that event from
    ``increase()``.
    """
    totals, prefix = meter.totals, meter.prefix
    samples.add(COMMITS, totals.commits, prefix)
    samples.add(ABORTS, totals.aborts, prefix)
    samples.add(RERUNS, totals.reruns, prefix)
    for outcome in BatchOutcome:
        samples.add(BATCHES, totals.batches[outcome.value], prefix, outcome.value)
    for topic in {*meter.outputs, *totals.wrote}:
        wrote = totals.wrote.get(topic, TopicTotals())
        samples.add(ROWS, wrote.rows, prefix, topic)
        samples.add(BYTES, wrote.size, prefix, topic)
    samples.add(BATCH_SECONDS, totals.seconds, prefix, count=totals.batches.total())
    for step, (count, seconds) in totals.steps.items():
        samples.add(STEP_SECONDS, seconds, prefix, step, count=count)
    samples.most(AGE, meter.age_seconds, prefix)
    if totals.committed_at is not None:
        samples.most(COMMITTED_AT, totals.committed_at, prefix)


class MetricsServer:
    """An HTTP endpoint that serves metrics until it is closed, or the process ends."""

    def __init__(
        self, server: WSGIServer, thread: threading.Thread, registry: CollectorRegistry, collector: MetricsCollector
    ) -> None:
        self._server, self._thread = server, thread
        self._registry, self._collector = registry, collector
        #: Where it listens.
        self.port: int = server.server_port

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and take semel's metrics out of the registry."""
        self._registry.unregister(self._collector)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._collector.close()


def serve_metrics(
    port: int, address: str = "127.0.0.1", *, registry: CollectorRegistry | None = None, every_seconds: float = 5.0
) -> MetricsServer:
    """Serve the metrics of this process's sinks over HTTP, in a thread that ends with the process.

    It listens on this machine alone, unless another ``address`` is given (``0.0.0.0`` for all). Everyone who can reach
    it sees names of topics and prefixes. ``port`` 0 takes any that is free. With a ``registry``, everything else in
    that is served too. The cluster is asked at most every ``every_seconds``. Raises :class:`ConfigError` where the
    package ``prometheus-client`` is missing or the port is not to be had, and what the registry raises if it has
    semel's metrics already.
    """
    collector = MetricsCollector(every_seconds=every_seconds)
    from prometheus_client import CollectorRegistry, start_http_server

    served = registry if registry is not None else CollectorRegistry()
    served.register(collector)
    try:
        server, thread = start_http_server(port, address, served)
    except OSError as error:
        served.unregister(collector)
        raise ConfigError(
            f"metrics cannot be served at {address}:{port}: {error.strerror or error}. Queries are not touched by it."
            " Give another port.",
            tag="METRICS_PORT",
        ) from None
    return MetricsServer(server, thread, served, collector)


def _families() -> dict[MetricKind, Callable[[Metric], Any]]:
    """Return how a family of each kind is made. The package may be missing."""
    with needs_extras("a server of metrics", "metrics", "Nothing is served. Queries are not affected."):
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
    made = {
        MetricKind.COUNTER: CounterMetricFamily,
        MetricKind.GAUGE: GaugeMetricFamily,
        MetricKind.SUMMARY: SummaryMetricFamily,
    }

    def maker(make: Callable[..., Any]) -> Callable[[Metric], Any]:
        return lambda metric: make(metric.name, metric.help, labels=metric.labels)

    return {kind: maker(make) for kind, make in made.items()}
