"""The RDDs that a DataFrame is made of, and which were checkpointed or persisted
(DESIGN rule 2; docs/decisions/0010). And its columns: made of nothing, or as the query's source has them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from pyspark.sql import DataFrame

from semel.spark.jvm.application import application_of
from semel.spark.jvm.streaming_query import PLAIN, items, nodes, pinned, simple_name
from semel.spark.jvm.values import Execution

__all__ = ["columns_of_source", "is_null_column", "newest_checkpoint", "newest_persisted"]

#: The leaves of a logical plan that are RDDs: what was checkpointed, made of an RDD, or is given to foreachBatch.
_OF_RDDS = ("LogicalRDD", "ExternalRDD")


def newest_checkpoint(df: DataFrame) -> int:
    """Return the id of the newest RDD through which a DataFrame reads a checkpoint, or -1. It costs a call for each RDD
    of the lineage, so ask seldom.

    Spark makes that RDD when it writes the checkpoint, and it takes the place of all that the checkpointed one was made
    of.
    """
    with pinned("the RDDs that a DataFrame is made of"):
        waiting, known, newest = _rdds_of(df._jdf.queryExecution().analyzed()), set[int](), -1
        while waiting:
            rdd = waiting.pop()
            id = int(rdd.id())
            if id in known:
                continue
            known.add(id)
            if simple_name(rdd).endswith("CheckpointRDD"):
                newest = max(newest, id)
            waiting.extend(parent.rdd() for parent in items(rdd.dependencies()))
        return newest


def newest_persisted(df: DataFrame) -> int:
    """Return the id of the newest RDD that the application keeps in cached blocks, or -1.

    As text: the end of an iterator is an exception in Java, of which PySpark makes eighty calls (8 ms).
    """
    with pinned("the RDDs that are persisted"):
        application = application_of(df.sparkSession.sparkContext)
        if application.persisted.isEmpty():
            return -1
        ids: list[int] = json.loads(application.json(application.persisted.keySet()))
        return max(ids, default=-1)


def _rdds_of(plan: Any) -> list[Any]:
    """Return the RDDs that are leaves of a logical plan and of its subqueries."""
    found = nodes(plan)
    below = [rdd for node in found for query in items(node.subqueries()) for rdd in _rdds_of(query)]
    return below + [node.rdd() for node in found if simple_name(node) in _OF_RDDS]


def is_null_column(df: DataFrame, name: str) -> bool:
    """Return whether the plan itself makes a column null in each row, as a cast of ``lit(None)`` does. Nothing is
    computed.

    The plan of a micro-batch begins at what foreachBatch is given: a null of the query before it is not seen.
    """
    with pinned("the expressions that a column is made of"):
        node = df._jdf.queryExecution().analyzed()
        if node.nodeName() == "LogicalRDD":
            return False
        (at,) = [at for at, column in enumerate(items(node.output())) if column.name() == name]
        # some calls for each node of the plan, however many columns it has
        while (kind := str(node.nodeName())) in PLAIN:
            if kind == "Project":
                column = node.projectList().apply(at)
                if column.nodeName() == "Alias":
                    return _is_null(column)
                at = node.allAttributes().indexOf(column.exprId())
            node = node.child()
        return False


def _is_null(expression: Any) -> bool:
    while (kind := str(expression.nodeName())) in ("Alias", "Cast"):
        expression = expression.child()
    return kind == "Literal" and expression.value() is None


def columns_of_source(df: DataFrame, execution: Execution, names: Collection[str]) -> set[str]:
    """Return those of ``names`` that a callback's DataFrame has unchanged from a source of semel's. It costs some calls
    a column.

    The expression ids of Spark's plans say so: a column that was cast, renamed or computed has an id of its own. So has
    each that a Python function gave back.
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
