"""In a task: write the rows of one partition of Spark in a transaction of this process, and prepare it.

Every attempt has its own transaction, so a stage may run twice, and speculation may be on: only the attempts that
Spark reports are decided, and what the others prepared is aborted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import get_ident

import pyarrow as pa
from pyspark import TaskContext

from semel.config import ClientConfig
from semel.errors import AbortAndRetry, SemelError
from semel.spark.job.task import this_task
from semel.spark.sink.encode_stage import by_topic, gathered
from semel.spark.worker_client import client
from semel.spark.writer.plan import BatchPlan
from semel.steps import WriterStep, reached
from semel.transaction.transactional_id import IdKind
from semel.transaction.two_phase.completion import abort
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.producer import Mode, TwoPhaseProducer
from semel.transaction.two_phase.unit import Unit
from semel.transaction.validation import check_not_progress_topic
from semel.wire.api.describe_transactions import describe
from semel.wire.client import Client

__all__ = ["Part", "write_part"]

_BATCH, _QUERY = "streaming.sql.batchId", "sql.streaming.queryId"
#: The ids of this process live as long as it does: an id is used again once its last transaction has ended.
_producers: dict[tuple[int, ClientConfig, str, Mode], TwoPhaseProducer] = {}


@dataclass(frozen=True, slots=True)
class Part:
    """The answer of a task: what it has prepared, None without a row, and the plan's decision as it came."""

    batch: int
    write: bool
    prepared: Prepared | None
    decision: bytes


def write_part(plan: BatchPlan, batches: Iterable[pa.RecordBatch]) -> Part:
    """Write the rows, and prepare them. All rows are read in any case: the state of a query needs that.

    Raises :class:`AbortAndRetry` for a task of another batch, or if another owner has come since the plan.
    """
    context = this_task()
    _check_batch(plan, context)
    reached(WriterStep.TASK_STARTED, str(plan.batch))
    if not plan.write:
        deque(batches, maxlen=0)
        return Part(plan.batch, plan.write, None, plan.decision)
    unit: Unit | None = None
    try:
        for rows in gathered(batches):
            if unit is None:
                unit = _begin(plan, context)
            _write(plan, unit, rows)
        prepared = unit.prepare() if unit is not None else None
        if prepared is not None:
            _check_still_owner(plan, prepared)
    except BaseException as error:
        if unit is not None:
            with suppress(SemelError):  # the next plan aborts it
                unit.__exit__(type(error), error, None)
        raise
    reached(WriterStep.PART_PREPARED, str(plan.batch))
    return Part(plan.batch, plan.write, prepared, plan.decision)


def _check_batch(plan: BatchPlan, context: TaskContext) -> None:
    if plan.query is None:
        return
    batch, query = context.getLocalProperty(_BATCH), context.getLocalProperty(_QUERY)
    if (batch, query) != (str(plan.batch), plan.query):
        raise AbortAndRetry(
            f"a task of batch {batch} of query {query} was planned as batch {plan.batch} of {plan.query}: two drivers"
            " use this checkpoint. Nothing of this batch is visible. Stop one of them, then start the other again.",
            tag="OTHER_BATCH",
        )


def _begin(plan: BatchPlan, context: TaskContext) -> Unit:
    """Begin this task's transaction. A task that comes late must not hold readers back, so the owner is asked first."""
    cluster = client(plan.options.config)
    _check_owner(plan, cluster)
    key = (get_ident(), plan.options.config, plan.owner.transactional_id, plan.mode)
    if key not in _producers:
        _producers[key] = TwoPhaseProducer(cluster, plan.owner.transactional_id, plan.mode, kind=IdKind.TASK)
    unit = _producers[key].transaction(
        first=plan.batch + context.partitionId(), keys=not plan.options.sink.any_partition
    )
    reached(WriterStep.PART_BEGUN, str(plan.batch))
    return unit


def _check_still_owner(plan: BatchPlan, prepared: Prepared) -> None:
    """Abort what a task has prepared that was frozen until another owner had come: that one may have listed before."""
    cluster = client(plan.options.config)
    try:
        _check_owner(plan, cluster)
    except AbortAndRetry:
        with suppress(SemelError):
            abort(cluster, prepared)
        raise


def _check_owner(plan: BatchPlan, cluster: Client) -> None:
    now = describe(cluster, plan.owner.transactional_id)
    if now is None or (now.producer_id, now.epoch) != (plan.owner.producer_id, plan.owner.epoch):
        raise AbortAndRetry(
            f"another owner has taken over {plan.owner.transactional_id!r} since this batch was planned. Nothing of"
            " this batch is visible. If another query uses this prefix, stop one of the two.",
            tag="PLAN_IS_OLD",
        )


def _write(plan: BatchPlan, unit: Unit, rows: pa.Table) -> None:
    sink = plan.options.sink
    table = rows.select([name for name in rows.column_names if name in plan.columns])
    parts = by_topic(table, sink.topic, dict.fromkeys(sink.topics) if sink.topics else None)
    check_not_progress_topic([name for name, _ in parts], sink.progress_topic)
    unit.write(
        {name: part.drop_columns("topic") if "topic" in part.column_names else part for name, part in parts},
        wait=False,
    )
