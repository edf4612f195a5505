"""Prometheus metrics of transactions that wait for a decision, read from the cluster at each scrape, without background
work.
"""

from __future__ import annotations

import logging
import time

from semel.config import ClientConfig
from semel.errors import SemelError
from semel.metrics.families import Collector, Metric, MetricKind, Samples
from semel.transaction.transactional_id import IdKind
from semel.transaction.two_phase.recovery import open_prepared
from semel.wire.client import Client

__all__ = ["METRICS", "PreparedCollector"]

log = logging.getLogger("semel.transaction")

_COUNT = Metric(
    "semel_prepared_transactions",
    MetricKind.GAUGE,
    ("prefix",),
    "Transactions that are open under a prefix: prepared, or still being written.",
)
_OLDEST = Metric(
    "semel_prepared_oldest_seconds",
    MetricKind.GAUGE,
    ("prefix",),
    "How long the oldest of them has been open; 0 while none is.",
)
#: All that is exported.
METRICS = (_COUNT, _OLDEST)


class PreparedCollector(Collector):
    """A collector for a registry of ``prometheus_client``. One that cannot ask leaves its numbers out."""

    metrics = METRICS

    def __init__(self, config: ClientConfig, prefix: str, *, within_ms: int = 2_000) -> None:
        super().__init__()
        self._config = config.for_metrics(within_ms)
        self._prefix = prefix

    def fill(self, samples: Samples) -> None:
        """Ask the cluster. It opens and closes its own connection."""
        try:
            with Client(self._config) as client:
                kinds = (IdKind.UNIT, IdKind.TASK)
                started = [one.started_ms for kind in kinds for one in open_prepared(client, self._prefix, kind)]
        except SemelError as error:
            log.warning("how much is prepared under %r could not be asked: %s", self._prefix, error)
            return
        oldest = time.time() - min(started) / 1000 if started else 0.0
        samples.add(_COUNT, len(started), self._prefix)
        samples.add(_OLDEST, max(0.0, oldest), self._prefix)
