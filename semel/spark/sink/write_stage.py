"""Tickets over a Spark job: each task of it writes with its ticket, and its receipt comes back.

A task finds its ticket by its partition id. It hands back a receipt or the error that stopped it, and in both cases
ends well for Spark: a task that fails is started again, and a second attempt may not write into a shared transaction
(DESIGN rule 2). Nothing but ``collect`` may follow the writing ``mapInArrow``: a later stage could run it twice.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as t

from semel.config import ClientConfig
from semel.errors import AbortAndRetry, SemelError
from semel.spark.errors import error
from semel.spark.jvm import streaming_query
from semel.spark.sink.encode_stage import by_topic, gathered
from semel.spark.sink.placement import Placement
from semel.spark.sink.shuffled_batches import unshuffled
from semel.spark.task_result import COLUMN, decode_result, encode_result
from semel.spark.version_guard import SealedWriting, pack
from semel.spark.worker_client import client
from semel.transaction.participant import SECOND_ATTEMPT, Participant
from semel.transaction.ticket import Receipt, Ticket

__all__ = ["receipts_of", "task_broke", "write"]

_ANSWER = t.StructType().add(COLUMN, "binary")


def write(placement: Placement, tickets: Sequence[Ticket], properties: Mapping[str, str]) -> list[Receipt]:
    """Run the job: what partition ``i`` of the placement holds is written with ``tickets[i]``. Returns the receipts of
    the tasks that ran.

    Raises the first error of ours that a task met (those that a stage before this one or the source raised are in
    Spark's text), or what Spark raises for the others.
    """
    how = _How(placement.topic, tuple(placement.topics), placement.keys, placement.encoded, placement.turn)
    task = partial(_write_task, tickets=list(tickets), properties=dict(properties), how=how)
    try:
        answers = placement.df.mapInArrow(SealedWriting(*pack(task)), _ANSWER).collect()
    except Exception as raised:
        found = error(raised)
        if found is not None:
            raise found from raised
        if streaming_query.executor_lost(raised):
            raise AbortAndRetry(
                "Spark gave the job up, since an executor was lost in mid-write. Nothing of it is visible where it"
                " was a transaction; with delivery=at_least_once some rows may be, and come again. Run it again.",
                tag="EXECUTOR_LOST",
            ) from raised
        raise
    results = [decode_result(row[COLUMN]) for row in answers]
    return receipts_of(results)


def receipts_of(results: Iterable[Receipt | SemelError]) -> list[Receipt]:
    """Return the receipts among the results of tasks. Raise the first error among them."""
    results = list(results)
    ours = [result for result in results if isinstance(result, SemelError)]
    if ours:
        # a second attempt only echoes the error of the first one, if that is known too
        raise next((each for each in ours if each.tag != SECOND_ATTEMPT), ours[0])
    return [result for result in results if isinstance(result, Receipt)]


@dataclass(frozen=True, slots=True)
class _How:
    """The parameters of writing tasks: see :class:`~semel.spark.sink.placement.Placement`. ``topics`` are those that
    rows may name.
    """

    topic: str | None
    topics: tuple[str, ...]
    keys: bool
    encoded: bool
    turn: int


def _write_task(
    batches: Iterator[pa.RecordBatch], tickets: Sequence[Ticket], properties: Mapping[str, str], how: _How
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task of the writing stage."""
    context = TaskContext.get()
    assert context is not None, "runs in a Spark task only"
    number, attempt, stage = context.partitionId(), context.attemptNumber(), context.stageId()

    def write(rows: Iterator[pa.RecordBatch]) -> Receipt:
        cluster = client(ClientConfig.parse(properties))
        ticket = tickets[number]
        participant = Participant(cluster, ticket, attempt=attempt, stage=stage, task=number, sticky=how.turn)
        if how.encoded:
            _write_batches(participant, rows)
        else:
            _write_rows(participant, rows, how)
        return participant.receipt

    yield encode_result(_answer(write, batches))


def _answer(
    write: Callable[[Iterator[pa.RecordBatch]], Receipt], batches: Iterator[pa.RecordBatch]
) -> Receipt | SemelError:
    """Return the receipt, or the error that stopped the writing.

    An error of the rows' source belongs to Spark, and is passed on to it.
    """
    rows = _WatchedRows(batches)
    try:
        return write(rows)
    except SemelError as refused:
        if refused.tag == SECOND_ATTEMPT:
            # writes nothing, but computes its rows: what ended the first attempt may end this one too, and then it is
            # Spark that says so
            deque(batches, maxlen=0)
        return refused
    except Exception as broken:
        if broken is rows.raised:
            raise
        # raised, it would start a second attempt, and the refusal of that one would stand where this stands
        return task_broke(broken)


def task_broke(broken: Exception) -> AbortAndRetry:
    """Return the answer of a task that a foreign error stopped."""
    where = traceback.extract_tb(broken.__traceback__)[-1]
    return AbortAndRetry(
        f"a writing task ended by {type(broken).__name__}: {broken} ({Path(where.filename).name}, line"
        f" {where.lineno}), which semel does not know. Nothing of it is visible where it was a transaction; with"
        " delivery=at_least_once some rows may be, and come again. Run it again, and report it with this line if it"
        " stays.",
        tag="TASK_BROKE",
    )


class _WatchedRows:
    """The rows of a task, and the exception by which taking them ended."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.raised: Exception | None = None

    def __iter__(self) -> _WatchedRows:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except Exception as raised:
            self.raised = raised
            raise


def _write_rows(participant: Participant, batches: Iterable[pa.RecordBatch], how: _How) -> None:
    """Rows that come as they are: without ``keys`` they go to any partition of this task."""
    for rows in gathered(batches):
        for name, part in by_topic(rows, how.topic, dict.fromkeys(how.topics)):
            part = part.drop_columns("topic") if "topic" in part.column_names else part
            participant.write(name, part, keys=how.keys)


def _write_batches(participant: Participant, batches: Iterable[pa.RecordBatch]) -> None:
    """Write the record batches of the stage before the shuffle."""
    for rows in batches:
        for topic, partitions, held in unshuffled(rows):
            participant.write_encoded(topic, partitions, held)
