"""Poll the cluster for lag and for records held back by open transactions.

It never delays a query: it has its own connections, a short deadline, and asks at most every few seconds. An answer
that is missing is omitted, counted, and logged once. Not promised: the lag behind sources in other clusters than the
sink's, whose addresses a sink does not know; a :class:`semel.spark.MetricsListener` has it from Spark.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from semel.admin.lag import held_back, lags
from semel.config import ClientConfig
from semel.errors import Retriable, SemelError
from semel.spark.metrics.meter import Meter, meters
from semel.transaction.progress.record import Progress
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition

__all__ = ["ClusterPoller", "PrefixLag"]

log = logging.getLogger("semel.spark")

_CLUSTERS_AT_ONCE = 8


@dataclass(slots=True)
class PrefixLag:
    """The lag of one prefix, in offsets by topic. What could not be asked is missing."""

    prefix: str
    lag: Mapping[str, int] = field(default_factory=dict)
    held_back: Mapping[str, int] = field(default_factory=dict)


class ClusterPoller:
    """Asks for all prefixes of this process.

    Safe to share between threads: who comes while another asks gets that one's answer.
    """

    def __init__(self, *, every_seconds: float = 5.0, within_ms: int = 2_000) -> None:
        self._every = every_seconds
        self._within_ms = within_ms
        self._lock = threading.Lock()
        self._clients: dict[ClientConfig, Client] = {}
        self._seen: list[PrefixLag] = []
        self._next = float("-inf")
        self._unanswered = False
        #: How often something could not be asked.
        self.failures = 0

    def poll(self) -> list[PrefixLag]:
        """Return the lags of now, or of a few seconds ago."""
        with self._lock:
            if time.monotonic() >= self._next:
                self._seen = self._ask(meters())
                self._next = time.monotonic() + self._every
            return self._seen

    def close(self) -> None:
        """Close the connections. The next look opens them again."""
        with self._lock:
            self._keep_clients(set())

    def _ask(self, asked: list[Meter]) -> list[PrefixLag]:
        by_cluster: dict[ClientConfig, list[Meter]] = {}
        for one in asked:
            by_cluster.setdefault(one.config.for_metrics(self._within_ms), []).append(one)
        self._keep_clients(set(by_cluster))
        problems: list[SemelError] = []
        with ThreadPoolExecutor(_CLUSTERS_AT_ONCE) as pool:  # one that does not answer delays none of the others
            asking = [
                pool.submit(self._ask_cluster, self._clients[config], here, problems)
                for config, here in by_cluster.items()
            ]
        seen = [found for one in asking for found in one.result()]
        self.failures += len(problems)
        if problems and not self._unanswered:
            log.warning("metrics of the cluster are missing until it can be asked again: %s", problems[0])
        self._unanswered = bool(problems)
        return seen

    def _ask_cluster(self, client: Client, here: list[Meter], problems: list[SemelError]) -> list[PrefixLag]:
        deadline = client.deadline(self._within_ms)
        found = [PrefixLag(one.prefix) for one in here]
        try:
            for one, seen in zip(here, found, strict=True):
                progress = one.producer.progress if one.producer is not None else None
                seen.held_back = _asked(partial(held_back, client, one.outputs, deadline), problems)
                seen.lag = _asked(partial(_lag, client, progress, deadline), problems)
        except Retriable as error:  # no broker answers: the next prefix would get no answer either
            problems.append(error)
        return found

    def _keep_clients(self, wanted: set[ClientConfig]) -> None:
        for config in self._clients.keys() - wanted:
            self._clients.pop(config).close()
        for config in wanted - self._clients.keys():
            self._clients[config] = Client(config)


def _lag(client: Client, progress: Progress | None, deadline: Deadline) -> Mapping[TopicPartition, int]:
    return lags(client, [progress], deadline)[0]


def _asked(ask: Callable[[], Mapping[TopicPartition, int]], problems: list[SemelError]) -> Mapping[str, int]:
    """Return the answers by topic. A refusal leaves a gap. If no broker answers, the caller decides."""
    try:
        found: Counter[str] = Counter()
        for (topic, _), offsets in ask().items():
            found[topic] += offsets
    except Retriable:
        raise
    except SemelError as error:  # no right to it
        problems.append(error)
        return {}
    return found
