"""A product's table of metrics, and the collector that shows their values at a scrape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from semel.extras import needs_extras

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

__all__ = ["Collector", "Metric", "MetricKind", "Samples"]


class MetricKind(Enum):
    """Prometheus's kinds. A summary has the names ``_count`` and ``_sum``, and no quantiles.

    Prometheus's library ends the name of a counter with "_total". A count whose name in Kafka has no such end is a
    gauge.
    """

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


class Samples:
    """Values by labels.

    Two clusters may have one prefix: what is counted is added up, and of what is not the worst is shown.
    """

    def __init__(self) -> None:
        self._of: dict[Metric, dict[tuple[str, ...], tuple[int, float]]] = defaultdict(dict)

    def add(self, metric: Metric, value: float, *labels: str, count: int = 0) -> None:
        """Add to what there is with these labels."""
        counted, sum_ = self._of[metric].get(labels, (0, 0))
        self._of[metric][labels] = counted + count, sum_ + value

    def most(self, metric: Metric, value: float, *labels: str) -> None:
        """Keep the greatest value with these labels."""
        self._of[metric][labels] = 0, max(value, self._of[metric].get(labels, (0, value))[1])

    def of(self, metric: Metric) -> list[tuple[tuple[str, ...], tuple[int, float]]]:
        """Return the labels of each sample, with its count and value."""
        return sorted(self._of[metric].items())


class Collector(ABC):
    """A collector for a registry of ``prometheus_client``. Registering it reads no value.

    Raises :class:`~semel.errors.ConfigError` where the package ``prometheus-client`` is missing.
    """

    #: All that is exported.
    metrics: Sequence[Metric] = ()

    def __init__(self) -> None:
        self._families = _families()

    @abstractmethod
    def fill(self, samples: Samples) -> None:
        """Give the values of this moment."""

    def describe(self) -> Iterator[Family]:
        """Yield the metrics without their values, for a registry."""
        return (self._families[metric.kind](metric) for metric in self.metrics)

    def collect(self) -> Iterator[Family]:
        """Yield the metrics with their values, for a scrape."""
        samples = Samples()
        self.fill(samples)
        for metric in self.metrics:
            family = self._families[metric.kind](metric)
            for labels, (count, value) in samples.of(metric):
                family.add_metric(labels, *((count, value) if metric.kind is MetricKind.SUMMARY else (value,)))
            yield family

    def close(self) -> None:
        """Close what it has opened."""
        return


def _families() -> dict[MetricKind, Callable[[Metric], Any]]:
    """Return how a family of each kind is made."""
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
