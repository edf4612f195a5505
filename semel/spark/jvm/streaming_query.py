"""Every use of what Spark does not promise: Spark's JVM objects behind a foreachBatch callback, by names that may
change with any version.

Nothing outside of :mod:`semel.spark.jvm` touches the JVM. The tests in tests/spark/broker whose names end in _internals
pin each name on a running query. A name that is not there raises :class:`Unsupported` with Spark's version: guessing
would be a weaker guarantee. Only facts are read here (:mod:`semel.spark.jvm.values`); what they mean is decided in
:mod:`semel.spark.sink.micro_batch` and :mod:`semel.spark.sink.reconcile`. Not promised: Spark Connect, whose DataFrames
have no JVM behind them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import SparkNoSuchElementException
from pyspark.sql import DataFrame

from semel.errors import Unsupported
from semel.spark.jvm.application import Application, application_of
from semel.spark.jvm.offset_log import parse_offset_log
from semel.spark.jvm.values import (
    Callback,
    Execution,
    OffsetLogEntry,
    Plan,
    Settings,
    SourceInfo,
    Statefulness,
    Trigger,
)
from semel.spark.jvm.versions import current

__all__ = [
    "PLAIN",
    "callback",
    "calls_functions",
    "executor_lost",
    "find_query",
    "is_connect",
    "items",
    "judge_plan",
    "nodes",
    "offset_log_entry",
    "pinned",
    "settings",
    "simple_name",
    "sources",
    "stopping",
]

#: How Spark says so: it has no class of its own for them.
_LOST = ("A shuffle map stage with indeterminate output was failed and retried", "ExecutorLostFailure")
PYTHON_TABLE = "org.apache.spark.sql.execution.datasources.v2.python.PythonTable"
#: Logical operators that keep state where their input is a stream; a join does where both its sides are.
STATEFUL_LOGICAL = frozenset(
    """Aggregate Deduplicate DeduplicateWithinWatermark Distinct FlatMapGroupsInPandasWithState FlatMapGroupsWithState
    GlobalLimit LocalLimit TransformWithState""".split()
)
WATERMARKS = ("EventTimeWatermark", "UpdateEventTimeWatermarkColumn")
#: The folder that Spark makes for a query without a checkpoint location, and deletes when the run ends.
TEMPORARY = re.compile(r"/temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/?$")


@contextmanager
def pinned(what: str) -> Iterator[None]:
    """Turn a name that this Spark lacks into :class:`Unsupported`.

    Errors that Spark itself raises, interrupts among them, pass.
    """
    try:
        yield
    except Py4JNetworkError:
        raise
    except (Py4JError, AttributeError, KeyError, TypeError, SparkNoSuchElementException) as error:
        if isinstance(error, Py4JJavaError) and "ClassNotFoundException" not in str(error.java_exception):
            raise
        raise Unsupported(
            f"Spark {pyspark.__version__} does not show {what} ({type(error).__name__}:"
            f" {str(error).splitlines()[0]}). Nothing was written: without it exactly-once cannot be kept. Use"
            " PySpark 4.0 to 4.3.",
            tag="SPARK_INTERNALS",
        ) from error


def is_connect(df: DataFrame) -> bool:
    """Return whether a DataFrame belongs to Spark Connect: without a JVM in this process, none of this module works."""
    return any(cls.__module__.startswith("pyspark.sql.connect.") for cls in type(df).__mro__)


def callback(df: DataFrame) -> Callback | None:
    """Return the query, run and batch that call, or None outside of foreachBatch.

    Local properties of the thread, the same that its jobs carry. The run's own, ``sql.streaming.runId``, is set for
    continuous queries only; a micro-batch has its run id as its job group, by which ``query.stop()`` cancels its jobs.
    """
    with pinned("the local properties of a thread"):
        properties = application_of(df.sparkSession.sparkContext).local_properties()
    query, run, batch = map(properties.get, ("sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId"))
    return Callback(query, run, int(batch)) if query is not None and run is not None and batch is not None else None


def find_query(df: DataFrame, query: str) -> Execution:
    """Return the running query of a callback.

    The callback's session is a clone that lists no queries (``streams.active`` is empty); what sessions share has them
    all. The map holds the execution itself, not the wrapper that ``start()`` returns.
    """
    with pinned("the running query of a foreachBatch callback"):
        jvm = _jvm(df)
        execution = _running(df).get(jvm.java.util.UUID.fromString(query))
        if execution is None:
            raise AttributeError(f"no active query {query}")
        _check_kind(execution)
        checkpoint = str(execution.resolvedCheckpointRoot())
        return Execution(
            query=str(execution.id().toString()),
            run=str(execution.runId().toString()),
            name=execution.name(),
            checkpoint=checkpoint,
            temporary=TEMPORARY.search(checkpoint) is not None,
            trigger=_trigger(execution),
            limits_each_batch=current().limits_each_batch,
            jvm_execution=execution,
            jvm_bytes=jvm.java.io.ByteArrayOutputStream,
        )


def batch_start_ms(df: DataFrame, run: str) -> int:
    """Return when the current micro-batch of a run began, in milliseconds since 1970.

    The offset log has an older time where it is replayed.
    """
    with pinned("when a micro-batch began"):
        for execution in _values(_running(df)):
            if str(execution.runId().toString()) == run:
                return int(execution.getLatestExecutionContext().currentTriggerStartTimestamp())
        raise AttributeError(f"no active run {run}")


def belongs_to_query(df: DataFrame) -> bool:
    """Return whether a DataFrame belongs to the session that Spark made for a running query.

    That tells it in any thread, and properties do not.
    """
    with pinned("the sessions of the running queries"):
        running = _running(df)
        if running.isEmpty():
            return False
        own = df._jdf.sparkSession()
        return any(own.equals(execution.sparkSessionForStream()) for execution in _values(running))


def _running(df: DataFrame) -> Any:
    """Return the executions of all running queries by id. Sessions share them; a callback's own session lists none."""
    return df._jdf.sparkSession().sharedState().activeStreamingQueries()


def _values(running: Any) -> list[Any]:
    """Return the values of a Java map. The end of its iterator would be an exception, which costs eighty calls."""
    return [entry.getValue() for entry in running.entrySet().toArray()]


def _check_kind(execution: Any) -> None:
    kind = execution.getClass().getName()
    if kind != current().micro_batch:
        raise Unsupported(
            f"the query runs as {kind.rpartition('.')[2]}, and exactly-once needs plain micro-batches, whose offsets"
            " are logged before they run. Nothing was written. Start it without asyncProgressTrackingEnabled and"
            " without a continuous or real-time trigger.",
            tag="QUERY_KIND",
        )


def _trigger(execution: Any) -> Trigger:
    name = str(execution.trigger().getClass().getSimpleName()).rstrip("$")
    try:
        return Trigger(name)
    except ValueError:
        raise AttributeError(f"trigger {name}") from None


def sources(execution: Execution) -> tuple[SourceInfo, ...]:
    """Return the sources of a query in the order of its offset log: the order of the leaves of the plan with Spark's
    streams.

    A Python data source is known by its table, which has the name that ``format`` was given.
    """
    with pinned("the sources of a query"):
        streams = items(execution.jvm_execution.sources())
        keys = current().source_keys(execution.jvm_execution, streams)
        leaves = [leaf for leaf in nodes(execution.jvm_execution.logicalPlan()) if simple_name(leaf) in _RELATIONS]
        if len(leaves) != len(streams):
            raise AttributeError(f"{len(streams)} sources, and {len(leaves)} relations in the plan")
        return tuple(_source(*source) for source in zip(leaves, streams, keys, strict=True))


#: The relations of a running plan, and what each calls its stream: sources of the second API, which Python's are, and
#: of the first (files).
_RELATIONS = {"StreamingDataSourceV2ScanRelation": "stream", "StreamingExecutionRelation": "source"}


#: Options of a source of ours by which the user says how many tasks read.
_DIVIDING = ("minPartitions", "maxRecordsPerPartition", "minRecordsPerPartition")


def _source(leaf: Any, stream: Any, key: str) -> SourceInfo:
    kind = simple_name(leaf)
    if not getattr(leaf, _RELATIONS[kind])().equals(stream):
        raise AttributeError("the plan's relations are not in the order of the sources")
    relation = leaf.relation() if kind == "StreamingDataSourceV2ScanRelation" else leaf
    ours = (
        relation is not leaf
        and relation.table().getClass().getName() == PYTHON_TABLE
        and relation.table().name() == "semel"
    )
    group, most = (_option(relation, name) if ours else None for name in ("kafka.group.id", "maxOffsetsPerTrigger"))
    divided = ours and any(_option(relation, name) is not None for name in _DIVIDING)
    return SourceInfo(current().source_name(relation), key, ours, group, most, divided)


def _option(relation: Any, name: str) -> str | None:
    value = relation.options().get(name)
    return None if value is None else str(value)


def judge_plan(df: DataFrame, execution: Execution, batch: int) -> Plan:
    """Judge the plan of a running batch.

    The callback's own DataFrame shows none of it: its plan is one LogicalRDD. Spark has planned the batch before it
    calls, and two witnesses are asked, the physical and the logical plan: stateless is what both call so, with no
    operator in them that is not Spark's own. About 2 ms an operator, so ask once a run.
    """
    with pinned("the plan of the running batch"):
        last = execution.jvm_execution.lastExecution()
        if last is None or last.currentBatchId() != batch:
            raise AttributeError(
                f"the last planned batch is {None if last is None else last.currentBatchId()}, not {batch}"
            )
        # Not the batch's analysed plan: there files are no streaming relations any more, and the batch's time makes it
        # non-deterministic.
        logical = execution.jvm_execution.logicalPlan()
        stateful = _jvm(df).java.lang.Class.forName(current().stateful_operator)
        physical, planned = nodes(last.executedPlan()), nodes(logical)
        names = [simple_name(node) for node in planned]
        keep = [simple_name(n) for n in physical if stateful.isInstance(n)] + [
            simple_name(n) for n in planned if _keeps_state(n)
        ]
        foreign = [
            name for name in map(_class_name, [*physical, *planned]) if not name.startswith("org.apache.spark.sql.")
        ]
        keeping = Statefulness.STATEFUL if keep else Statefulness.UNKNOWN if foreign else Statefulness.STATELESS
        plain = all(name in PLAIN or name in _RELATIONS or name == _SINK for name in names)
        return Plan(
            statefulness=keeping,
            operators=tuple(dict.fromkeys(keep or foreign)),
            watermark=any(name in WATERMARKS for name in names),
            deterministic=bool(logical.deterministic()),
            plain=plain and not calls_functions(application_of(df.sparkSession.sparkContext), logical),
        )


#: The root of a query's plan whose sink is a foreachBatch function.
_SINK = "WriteToMicroBatchDataSourceV1"
#: Logical operators that give each row of their input at most once, and compute no function of the user's by
#: themselves. What comes below one keeps its partitions.
PLAIN = frozenset({"Filter", "Project", "SubqueryAlias"})


def calls_functions(application: Application, plan: Any) -> bool:
    """Return whether an expression of a logical plan is a function of the user's, or has a plan of its own."""
    return any(plan.containsPattern(pattern) for pattern in application.function_patterns)


def _keeps_state(node: Any) -> bool:
    name = simple_name(node)
    if name == "Join":
        return bool(node.left().isStreaming() and node.right().isStreaming())
    return (name in STATEFUL_LOGICAL or name == current().python_state) and bool(node.isStreaming())


def offset_log_entry(execution: Execution, batch: int) -> OffsetLogEntry | None:
    """Return the offset log's entry of a batch. It is written before the batch runs, on any file system of a
    checkpoint.

    None without an entry.
    """
    with pinned("its offset log"):
        offset_log = execution.jvm_execution.offsetLog()
        logged = offset_log.get(batch)
        if not logged.isDefined():
            return None
        # as its file has it: a call for each offset would be some for each source
        text = execution.jvm_bytes()
        offset_log.serialize(logged.get(), text)
        return parse_offset_log(str(text.toString("UTF-8")), f"offsets/{batch}")


_VALIDATION = "spark.sql.streaming.stateStore.commitValidation.enabled"


def settings(df: DataFrame) -> Settings:
    """Return the settings in force.

    A running query has a copy of its session's from when it started: those of the callback's DataFrame.
    """
    conf = df.sparkSession.conf
    with pinned("the settings of its state store and its scheduler"):
        core = application_of(df.sparkSession.sparkContext).conf
        return Settings(
            state_format=int(str(conf.get("spark.sql.streaming.stateStore.checkpointFormatVersion"))),
            commit_validation=current().validates_state and _true(conf.get(_VALIDATION)),
            pipelined=_true(core.get("spark.python.udf.pipelined.enabled")),
            retained_stages=int(str(core.get("spark.ui.retainedStages", "1000"))),
            retained_jobs=int(str(core.get("spark.ui.retainedJobs", "1000"))),
            domain_sockets=_true(core.get(sockets)) if (sockets := current().domain_sockets) else None,
        )


def _true(text: str | None) -> bool:
    """Parse a boolean as Spark does, in any case of its letters."""
    return text is not None and text.strip().lower() == "true"


def stopping(execution: Execution) -> bool:
    """Return whether the query has to stop: Spark marks it so before it interrupts the callback."""
    with pinned("whether a query is active"):
        return not execution.jvm_execution.isActive()


def executor_lost(error: BaseException) -> bool:
    """Return whether Spark gave a job up because an executor was gone, and not because of what the job computes.

    Seen: an executor with shuffle output was killed while the stage after it had finished tasks. Spark runs a stage
    again only where it can take back what was finished; the rows are Python's, whose order it calls indeterminate.
    """
    return isinstance(error, Py4JJavaError) and any(sign in str(error.java_exception.getMessage()) for sign in _LOST)


def _jvm(df: DataFrame) -> Any:
    return df.sparkSession._jvm


# ---- Spark's plans and sequences as Python's


def nodes(root: Any) -> list[Any]:
    """Return a plan's operators, each before its children.

    An adaptive plan (only ever of a stateless query) shows its input, not its children.
    """
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if simple_name(node) == "AdaptiveSparkPlanExec":
            waiting.append(node.inputPlan())
        waiting.extend(reversed(items(node.children())))
    return found


def items(sequence: Any) -> list[Any]:
    """Return the elements of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def _class_name(node: Any) -> str:
    """With its package."""
    return str(node.getClass().getName())


def simple_name(node: Any) -> str:
    """Without its package."""
    return _class_name(node).rpartition(".")[2]
