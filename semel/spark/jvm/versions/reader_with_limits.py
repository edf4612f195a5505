"""The stream reader of Spark 4.2 and newer, which names the start of a batch and its limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from semel.spark.jvm.versions.planner import BatchPlanner, Limits

__all__ = ["ReaderWithLimits"]

_UNLIMITED = Limits(None, None, 0)


class ReaderWithLimits(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of one run of a query, in one process that lives as long as the run, and reads them in
    tasks.
    """

    def __init__(self, planner: BatchPlanner) -> None:
        self._planner = planner

    def __reduce__(self) -> tuple[object, ...]:
        return self._planner.sealed()

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query starts, marked as such."""
        return self._planner.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limits of the options, as far as Spark has words for them. :meth:`latestOffset` knows the rest."""
        limits = self._planner.limits
        if limits.most is not None:
            return ReadMaxRows(limits.most)
        return ReadMinRows(limits.least) if limits.least is not None else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends."""
        return self._planner.next_end(start, self._limits(limit))

    def _limits(self, limit: ReadLimit) -> Limits:
        """Spark's word goes before the options, and it has none for both limits at once."""
        if isinstance(limit, ReadMaxRows):
            return replace(self._planner.limits, most=limit.max_rows)
        if isinstance(limit, ReadMinRows):
            return replace(self._planner.limits, most=None, least=limit.min_rows)
        return _UNLIMITED

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the topics ended when the last batch was planned. With the batch's own end, this is the lag in
        the query's progress.
        """
        return self._planner.reported()

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what is there now as all there is."""
        self._planner.freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""
        return self._planner.tasks(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one partition."""
        return self._planner.read(partition)

    def stop(self) -> None:
        """Close the connections."""
        self._planner.close()
