"""The stream reader before Spark 4.2, which asks for the next end and names no start.

So the reader keeps the end that came last, from whichever side. That is the end that Spark has: an end that
:meth:`latestOffset` returns is that of the next batch, unless it is the end before. A restarted run has a reader of its
own. Before anything else, Spark calls its ``partitions`` with the newest end of the offset log as start and as end,
also if that batch is to be replayed. The reader of a new query starts at ``initial``.

Not promised: limits in a run that ends by itself. Spark makes one batch of it, and does not name the trigger here;
:mod:`semel.spark.sink.foreach_batch` refuses that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from semel.errors import Unsupported
from semel.spark.jvm.versions.planner import BatchPlanner

__all__ = ["ReaderWithoutLimits"]


class ReaderWithoutLimits(DataSourceStreamReader):
    """Plans the micro-batches of one run of a query, in one process that lives as long as the run, and reads them in
    tasks.
    """

    def __init__(self, planner: BatchPlanner) -> None:
        self._planner = planner
        self._last_end: dict[str, Any] | None = None
        self._returned = False

    def __reduce__(self) -> tuple[object, ...]:
        return self._planner.sealed()

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query starts, marked as such."""
        return self._planner.initial()

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, Any]:
        """Return where the next batch ends. Spark before 4.2 gives no arguments."""
        begin = self._planner.initial() if self._last_end is None else self._last_end
        self._last_end, self._returned = self._planner.next_end(begin, self._planner.limits), True
        return self._last_end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch. With the same start and end, learn only where the next batch begins."""
        if self._returned and end != self._last_end:
            raise Unsupported(
                "Spark asked this source for new rows before it named the position of the query. Nothing was read: the"
                " offsets could be wrong. Set spark.sql.streaming.triggerAvailableNowWrapper.enabled to false, which is"
                " Spark's default.",
                tag="PLANNED_TOO_EARLY",
            )
        self._last_end = end
        # the first batch of a run is compared with what is there now: a call without rows must not count as the first
        return [] if start == end else self._planner.tasks(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one partition."""
        return self._planner.read(partition)

    def stop(self) -> None:
        """Close the connections."""
        self._planner.close()
