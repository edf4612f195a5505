"""Columns that leave a query as its Kafka source has them: the expression ids of Spark's plans say so.

A column that was cast, renamed or computed has an id of its own. So has each that a Python function gave back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pyspark.sql import DataFrame

from semel.spark.jvm.plan_nodes import items, nodes, simple_name
from semel.spark.jvm.streaming_query import pinned
from semel.spark.jvm.values import Execution

__all__ = ["columns_of_source"]


def columns_of_source(df: DataFrame, execution: Execution, names: Collection[str]) -> set[str]:
    """Return those of ``names`` that a callback's DataFrame has unchanged from a source of semel's. It costs some calls
    a column.
    """
    wanted = set(names) & set(df.columns)
    if not wanted:
        return set()
    with pinned("the columns of a running query"):
        query, given = execution.jvm_execution.logicalPlan(), df._jdf.queryExecution().analyzed()
        read = (leaf for leaf in nodes(query) if simple_name(leaf) == "StreamingDataSourceV2ScanRelation")
        ours = [leaf for leaf in read if leaf.relation().table().name() == "semel"]
        rdds = [leaf for leaf in nodes(given) if simple_name(leaf) == "LogicalRDD"]
        return _unchanged(query, ours, wanted) & _unchanged(given, rdds, wanted)


def _unchanged(plan: Any, leaves: Iterable[Any], names: Collection[str]) -> set[str]:
    known = {id for leaf in leaves for _, id in _columns(leaf, names)}
    return {name for name, id in _columns(plan, names) if id in known}


def _columns(node: Any, names: Collection[str]) -> list[tuple[str, int]]:
    named = [(str(column.name()), column) for column in items(node.output())]
    return [(name, int(column.exprId().id())) for name, column in named if name in names]
