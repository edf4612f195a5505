"""Spark 4.1: sources have no names and are known by position, and readers get no limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSourceStreamReader

from semel.spark.jvm.versions.planner import BatchPlanner
from semel.spark.jvm.versions.reader_without_limits import ReaderWithoutLimits
from semel.spark.jvm.versions.spark_4_2 import Spark42

__all__ = ["VERSION", "Spark41"]


class Spark41(Spark42):
    """Spark 4.1."""

    reports_latest: ClassVar[bool] = False
    limits_each_batch: ClassVar[bool] = False

    def source_name(self, relation: Any) -> str | None:
        """Return None: sources have no names."""
        return None

    def source_keys(self, execution: Any, streams: Sequence[Any]) -> list[str]:
        """Return the positions."""
        return [str(index) for index, _ in enumerate(streams)]

    def stream_reader(self, planner: BatchPlanner) -> DataSourceStreamReader:
        """Return a reader that keeps its position."""
        return ReaderWithoutLimits(planner)


VERSION = Spark41()
