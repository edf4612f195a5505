"""How much a plan may give, by what Spark knows without running it: one task of Python suffices for few rows.

Only plans that choose columns and rows count. What a function of the user's takes for a row is not known, and what a
join or an aggregation gives neither: such a plan keeps its tasks.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from semel.spark.jvm.application import application_of
from semel.spark.jvm.streaming_query import PLAIN, calls_functions, pinned

__all__ = ["chooses_columns", "partitions_of_batch", "rows_of_batch_job"]

#: The leaves whose statistics are those of rows, and not of a guess.
_COUNTED = frozenset({"InMemoryRelation", "LocalRelation", "Range"})
#: So many bytes of files count as few rows.
_FEW_BYTES = 2 << 20


def partitions_of_batch(df: DataFrame) -> int | None:
    """Return in how many partitions the DataFrame of a micro-batch comes, or None if its own plan asks for others.

    Spark has planned what comes before this DataFrame as an RDD already, so nothing is computed here.
    """
    with pinned("the partitions of what foreachBatch is given"):
        kind, leaf = _leaf(df._jdf.queryExecution().analyzed())
        return int(leaf.rdd().getNumPartitions()) if kind == "LogicalRDD" else None


def chooses_columns(df: DataFrame) -> bool:
    """Return whether the plan of a DataFrame calls no function of the user's."""
    with pinned("the functions of a plan"):
        return not _calls_functions(df, df._jdf.queryExecution().analyzed())


def rows_of_batch_job(df: DataFrame, most: int) -> int | None:
    """Return the greatest number of rows that the DataFrame of a batch job may give, where Spark knows that it is at
    most ``most``: of a local relation, a range, or what is cached. Small files count as ``most``. None if it is not
    known.
    """
    with pinned("the statistics of a plan"):
        plan = df._jdf.queryExecution().withCachedData()
        kind, leaf = _leaf(plan)
        if kind == "InMemoryRelation" and not leaf.cacheBuilder().isCachedColumnBuffersLoaded():
            return None  # it is made by this job, with all that it depends on
        if kind == "LogicalRelation":
            few = int(leaf.stats().sizeInBytes()) <= _FEW_BYTES
            return most if few and not _calls_functions(df, plan) else None
        if kind not in _COUNTED:
            return None
        rows = leaf.stats().rowCount()
        if not rows.isDefined() or int(rows.get()) > most or _calls_functions(df, plan):
            return None
        return int(rows.get())


def _leaf(node: Any) -> tuple[str, Any]:
    """Return the first node that does more than choose columns and rows, and its name."""
    while (kind := str(node.nodeName())) in PLAIN or kind == "View":
        node = node.child()
    return kind, node


def _calls_functions(df: DataFrame, plan: Any) -> bool:
    return calls_functions(application_of(df.sparkSession.sparkContext), plan)
