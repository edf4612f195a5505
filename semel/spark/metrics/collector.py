"""The numbers of this process's sinks for Prometheus: read when they are scraped, with no writer in the background.

::

    server = serve_metrics(9464)                        # or, in a program that serves metrics already:
    prometheus_client.REGISTRY.register(MetricsCollector())

``docs/metrics.md`` says what each of :data:`METRICS` means, and what to do when it moves; ``grafana.json`` beside this
module is a dashboard of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.metrics.families import Collector, Metric, MetricKind, Samples
from semel.metrics.server import MetricsServer, serve
from semel.spark.metrics.cluster_poll import ClusterPoller
from semel.spark.metrics.meter import BatchOutcome, Meter, TopicTotals, meters

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["METRICS", "MetricsCollector", "serve_metrics"]

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


class MetricsCollector(Collector):
    """A collector for a registry of ``prometheus_client``. Registering it sends no request. Each scrape asks the
    cluster, within seconds.

    The cluster is asked at most every ``every_seconds``, and given up after about ``within_ms``. Raises
    :class:`~semel.errors.ConfigError` where the package ``prometheus-client`` is missing.
    """

    metrics = METRICS

    def __init__(self, *, every_seconds: float = 5.0, within_ms: int = 2_000) -> None:
        super().__init__()
        self._poller = ClusterPoller(every_seconds=every_seconds, within_ms=within_ms)

    def fill(self, samples: Samples) -> None:
        """Give the values of this moment."""
        for one in meters():
            _count(samples, one)
        for seen in self._poller.poll():
            for topic, offsets in seen.lag.items():
                samples.most(LAG, offsets, seen.prefix, topic)
            for topic, offsets in seen.held_back.items():
                samples.most(HELD_BACK, offsets, seen.prefix, topic)
        samples.add(UNANSWERED, self._poller.failures)

    def close(self) -> None:
        """Close its connections to the clusters."""
        self._poller.close()


def _count(samples: Samples, meter: Meter) -> None:
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
    return serve([MetricsCollector(every_seconds=every_seconds)], port, address, registry)
