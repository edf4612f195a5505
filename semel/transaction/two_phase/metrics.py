"""Prometheus metrics of transactions that wait for a decision, read from the cluster at each scrape, without background
work.

Needs the package ``prometheus-client`` (the extra ``metrics``), which is imported when it is used.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from semel.config import ClientConfig
from semel.errors import SemelError
from semel.transaction.two_phase.recovery import open_units
from semel.wire.client import Client

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily, Metric

__all__ = ["NAMES", "PreparedCollector"]

log = logging.getLogger("semel.transaction")

_COUNT, _OLDEST = "semel_prepared_transactions", "semel_prepared_oldest_seconds"
#: All that is exported, with what it says.
NAMES = {
    _COUNT: "Transactions that are open under a prefix: prepared, or still being written.",
    _OLDEST: "How long the oldest of them has been open; 0 while none is.",
}


class PreparedCollector:
    """A collector for a registry of ``prometheus_client``. One that cannot ask leaves its numbers out."""

    def __init__(self, config: ClientConfig, prefix: str, *, within_ms: int = 2_000) -> None:
        self._config = config.for_metrics(within_ms)
        self._prefix = prefix

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without their values."""
        return iter(self._families().values())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics with their values. It opens and closes its own connection."""
        families = self._families()
        try:
            with Client(self._config) as client:
                started = [told.started_ms for told in open_units(client, self._prefix)]
        except SemelError as error:
            log.warning("how much is prepared under %r could not be asked: %s", self._prefix, error)
            return iter(families.values())
        oldest = time.time() - min(started) / 1000 if started else 0.0
        families[_COUNT].add_metric([self._prefix], len(started))
        families[_OLDEST].add_metric([self._prefix], max(0.0, oldest))
        return iter(families.values())

    def _families(self) -> dict[str, GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        return {name: GaugeMetricFamily(name, help, labels=["prefix"]) for name, help in NAMES.items()}
