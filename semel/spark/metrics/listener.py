"""Spark's progress of a query and semel's numbers of the same batch, in one place.

::

    spark.streams.addListener(MetricsListener())            # one line a batch in the log "semel"
    spark.streams.addListener(MetricsListener(print))       # or a dictionary, to whatever takes one

Spark calls listeners in a thread of its own, after the batch: they hold no query up. Not promised: that the step
``markers_seen`` of a batch is there yet, since markers are waited for beside Spark's own work.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from semel.errors import SemelError, from_text
from semel.spark.jvm import versions
from semel.spark.metrics.meter import find
from semel.spark.source_offset import parse

__all__ = ["MetricsListener"]

log = logging.getLogger("semel.spark")


class MetricsListener(StreamingQueryListener):
    """Tells ``tell``, or the log, of each batch of each query of the session; ``docs/metrics.md`` has the dictionary
    field by field.

    Batches of queries without our sink are reported too, with ``semel`` as None, and so is the end of a query.
    """

    def __init__(self, tell: Callable[[Mapping[str, Any]], object] | None = None) -> None:
        self._tell = tell or _write

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: there is nothing to report yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: there is nothing to report."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take note of a finished batch."""
        progress = event.progress
        batch = find(str(progress.runId), progress.batchId)
        self._tell(
            {
                "event": "batch",
                "query": str(progress.id),
                "run": str(progress.runId),
                "name": progress.name,
                "batch": progress.batchId,
                "timestamp": progress.timestamp,
                "input_rows": progress.numInputRows,
                "lag": _lag(progress),
                "observed": {name: row.asDict() for name, row in progress.observedMetrics.items()},
                "spark": dict(progress.durationMs),
                "semel": batch.as_dict() if batch is not None else None,
            }
        )

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Take note that a query has ended: by itself, by ``stop()`` or by an error."""
        found = from_text(event.exception) if event.exception else None
        self._tell(
            {
                "event": "end",
                "query": str(event.id),
                "run": str(event.runId),
                "failed": event.exception is not None,
                "error": found.tag if found is not None else None,
            }
        )


def _lag(progress: StreamingQueryProgress) -> dict[str, int]:
    """Return how many offsets of each topic lay after the batch's end when it was planned.

    Empty where Spark gives the batch's own end for the latest offset: nothing would seem to be left.
    """
    lag: Counter[str] = Counter()
    if not versions.current().reports_latest:
        return {}
    for source in progress.sources:
        try:
            latest, end = (parse(str(text)).topics for text in (source.latestOffset, source.endOffset))
        except SemelError:  # another's source, or nothing was asked of it
            continue
        for topic in latest.keys() & end.keys():
            lag[topic] += sum(
                max(latest[topic].end[index] - read, 0)
                for index, read in end[topic].end.items()
                if index in latest[topic].end
            )
    return dict(lag)


def _write(report: Mapping[str, Any]) -> None:
    if report["event"] == "end":
        log.info(
            "query %s ended%s",
            report["query"],
            f": {report['error'] or 'by an error that is not of semel'}" if report["failed"] else "",
        )
        return
    log.info("query %s, batch %d: %s", report["name"] or report["query"], report["batch"], _words(report))


def _words(report: Mapping[str, Any]) -> str:
    words = [f"{report['input_rows']} rows in"]
    ours = report["semel"]
    if ours is not None:
        words += [
            ours["outcome"],
            f"{ours['rows']} rows out",
            f"{ours['bytes']} bytes",
            f"{ours['milliseconds']:.0f} ms",
        ]
        words += [f"run again {ours['reruns']} times"] if ours["reruns"] else []
    words += [f"{topic} has {offsets} more" for topic, offsets in sorted(report["lag"].items()) if offsets]
    return ", ".join(words)
