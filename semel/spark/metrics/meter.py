"""Count what happened to the batches of this process's sinks, and keep the numbers for metrics.

A sink has one :class:`Meter`, by its prefix and cluster. A new sink for them continues with it. A call of the sink is
one :class:`BatchMetrics`: rows and bytes from the receipts, re-runs and skips from where they are decided, times from
the named steps. It costs less than 0.1 ms a batch and nothing a row. Everything is in memory and begins at zero with
the process, as Prometheus expects of counters.

Bounded: the newest batches of a prefix, and so many prefixes; what was used longest ago goes first.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from semel.config import ClientConfig
from semel.errors import SemelError
from semel.steps import Step, timed
from semel.transaction.producer import Producer

__all__ = ["BatchMetrics", "BatchOutcome", "Counters", "Meter", "TopicTotals", "find", "meter", "meters"]

_BATCHES = 100
_PREFIXES = 256


class BatchOutcome(Enum):
    """The end of a call of the sink."""

    WRITTEN = "written"
    SKIPPED = "skipped"
    REBUILT = "rebuilt"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TopicTotals:
    """Rows that are visible, and the bytes of their record batches."""

    rows: int = 0
    size: int = 0

    def __add__(self, other: TopicTotals) -> TopicTotals:
        return TopicTotals(self.rows + other.rows, self.size + other.size)


@dataclass(slots=True)
class BatchMetrics:
    """One call of the sink. Times in seconds; ``steps`` are summed where a step is passed more than once, as it is when
    the batch is run again.

    ``number`` is the batch's, or the version of a batch job; ``query`` and ``run`` are None in a batch job. ``error``
    is the tag of the error of ours that ended it.
    """

    prefix: str
    number: int | None
    query: str | None = None
    run: str | None = None
    outcome: BatchOutcome = BatchOutcome.FAILED
    error: str | None = None
    wrote: Mapping[str, TopicTotals] = field(default_factory=dict)
    reruns: int = 0
    commits: int = 0
    aborts: int = 0
    seconds: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON has them, in milliseconds."""
        return {
            "prefix": self.prefix,
            "outcome": self.outcome.value,
            "error": self.error,
            "rows": sum(wrote.rows for wrote in self.wrote.values()),
            "bytes": sum(wrote.size for wrote in self.wrote.values()),
            "commits": self.commits,
            "aborts": self.aborts,
            "reruns": self.reruns,
            "milliseconds": round(self.seconds * 1000, 3),
            "steps": {step: round(seconds * 1000, 3) for step, seconds in self.steps.items()},
        }


@dataclass(slots=True)
class Counters:
    """Sums since the process began, of one prefix.

    Times in seconds, each with how often it was measured; ``committed_at`` since the epoch.
    """

    commits: int = 0
    aborts: int = 0
    reruns: int = 0
    batches: Counter[str] = field(default_factory=Counter)
    wrote: dict[str, TopicTotals] = field(default_factory=dict)
    seconds: float = 0.0
    steps: dict[str, tuple[int, float]] = field(default_factory=dict)
    committed_at: float | None = None


class Meter:
    """The numbers of one prefix in one cluster. Any thread may tell it something, and ask."""

    def __init__(self, config: ClientConfig, prefix: str, outputs: tuple[str, ...]) -> None:
        self.config = config
        self.prefix = prefix
        self.outputs = outputs
        #: Who owns the prefix in this process, or did last.
        self.producer: Producer | None = None
        self._lock = threading.Lock()
        self._totals = Counters()
        self._batches: deque[BatchMetrics] = deque(maxlen=_BATCHES)
        self._mine = threading.local()

    @contextmanager
    def measure(self, number: int | None) -> Iterator[BatchMetrics]:
        """Measure one call of the sink.

        The caller sets ``outcome``. Without one, the call counts as failed.
        """
        batch = BatchMetrics(self.prefix, number)

        def passed(step: Step, seconds: float) -> None:
            self._passed(batch, step.value, seconds)

        began = time.monotonic()
        self._mine.batch = batch
        try:
            with timed(passed):
                yield batch
        except SemelError as error:
            batch.error = error.tag
            raise
        finally:
            batch.seconds = time.monotonic() - began
            self._keep(batch)

    def ended(self, committed: bool) -> None:
        """Take note that a transaction has ended, in the thread of its call."""
        with self._lock:
            for counts in self._counts():
                counts.commits += committed
                counts.aborts += not committed
            if committed:
                self._totals.committed_at = time.time()

    def again(self) -> None:
        """Take note that this thread's batch is run again in the same call."""
        with self._lock:
            for counts in self._counts():
                counts.reruns += 1

    def _counts(self) -> tuple[Counters | BatchMetrics, ...]:
        batch: BatchMetrics | None = getattr(self._mine, "batch", None)
        return (self._totals,) if batch is None else (self._totals, batch)

    def _passed(self, batch: BatchMetrics, step: str, seconds: float) -> None:
        """In the sink's thread, and for markers in that which waits for them, maybe when the batch has been kept
        already.
        """
        with self._lock:
            batch.steps = {**batch.steps, step: batch.steps.get(step, 0.0) + seconds}
            times, sum_ = self._totals.steps.get(step, (0, 0.0))
            self._totals.steps[step] = times + 1, sum_ + seconds

    def _keep(self, batch: BatchMetrics) -> None:
        with self._lock:
            self._mine.batch = None
            self._batches.append(batch)
            self._totals.batches[batch.outcome.value] += 1
            self._totals.seconds += batch.seconds
            for topic, wrote in batch.wrote.items():
                self._totals.wrote[topic] = self._totals.wrote.get(topic, TopicTotals()) + wrote

    # ---- asking

    @property
    def totals(self) -> Counters:
        """The sums at this moment."""
        with self._lock:
            now = self._totals
            return Counters(
                now.commits,
                now.aborts,
                now.reruns,
                now.batches.copy(),
                dict(now.wrote),
                now.seconds,
                dict(now.steps),
                now.committed_at,
            )

    @property
    def batches(self) -> list[BatchMetrics]:
        """The last hundred, the newest last."""
        with self._lock:
            return list(self._batches)

    @property
    def age_seconds(self) -> float:
        """The age of its open transaction in seconds, or 0."""
        age = self.producer.age_ms if self.producer is not None else None
        return age / 1000 if age is not None else 0.0


_meters: OrderedDict[tuple[tuple[tuple[str, int], ...], str], Meter] = OrderedDict()
_lock = threading.Lock()


def meter(config: ClientConfig, prefix: str, outputs: tuple[str, ...]) -> Meter:
    """Return the meter of a prefix in a cluster: the existing one with the newest settings, or a new one."""
    key = config.bootstrap_servers, prefix
    with _lock:
        found = _meters.setdefault(key, Meter(config, prefix, outputs))
        found.config, found.outputs = config, outputs
        _meters.move_to_end(key)
        while len(_meters) > _PREFIXES:
            _meters.popitem(last=False)
        return found


def meters() -> list[Meter]:
    """Return all meters of this process."""
    with _lock:
        return list(_meters.values())


def find(run: str, number: int) -> BatchMetrics | None:
    """Return the newest call of a sink for this batch and run of a query, or None if it is not kept any more or no sink
    was called.
    """
    calls = (batch for one in meters() for batch in reversed(one.batches))
    return next((batch for batch in calls if (batch.run, batch.number) == (run, number)), None)
