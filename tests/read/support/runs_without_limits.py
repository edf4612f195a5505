"""One run of a query as Spark before 4.2 calls its reader: no start, no limits, and first of all the newest end of the
log.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from semel.spark.jvm.versions.reader_without_limits import ReaderWithoutLimits
from semel.spark.source.options import SourceOptions
from semel.spark.source.readers import StreamPlanner
from tests.read.support.source_runs import Run, source

if TYPE_CHECKING:  # Spark before 4.2 has none
    from pyspark.sql.streaming.datasource import ReadLimit

__all__ = ["Forgetful", "RunWithoutLimits"]


class Forgetful(ReaderWithoutLimits):
    """The control: it does not learn where the query is."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        """Return the tasks, and remember nothing."""
        return [] if start == end else self._planner.tasks(start, end)


class RunWithoutLimits(Run):
    """One run, with this offset log."""

    def __init__(
        self, servers: str, log: list[str], *, reader: type[ReaderWithoutLimits] = ReaderWithoutLimits, **options: Any
    ) -> None:
        self.log = log
        self.reader = reader(StreamPlanner(SourceOptions.parse(source(servers, options).options)))
        if log:
            newest = json.loads(log[-1])
            assert self.reader.partitions(newest, json.loads(log[-1])) == []

    def plan(self, limit: ReadLimit | None = None) -> bool:
        """Log the next batch; False if there is none."""
        end = json.dumps(self.reader.latestOffset())
        if self.log and end == self.log[-1]:
            return False
        self.log.append(end)
        return True
