"""The task's side of a job of tickets: the participant that its ticket makes, and its answer."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from semel.config import ClientConfig
from semel.errors import AbortAndRetry, SemelError
from semel.spark.worker_client import client
from semel.transaction.participant import SECOND_ATTEMPT, Participant
from semel.transaction.ticket import Receipt, Ticket

__all__ = ["participant_of", "result_of", "this_task"]


def this_task() -> TaskContext:
    """Return Spark's context of the running task."""
    context = TaskContext.get()
    assert context is not None, "runs in a Spark task only"
    return context


def participant_of(tickets: Sequence[Ticket], properties: Mapping[str, str], *, sticky: int = 0) -> Participant:
    """Return the participant of the running task: the ticket with the number of its partition is its own."""
    context = this_task()
    number, attempt, stage = context.partitionId(), context.attemptNumber(), context.stageId()
    cluster = client(ClientConfig.parse(properties))
    return Participant(cluster, tickets[number], attempt=attempt, stage=stage, task=number, sticky=sticky)


def result_of(
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
        return _task_broke(broken)


def _task_broke(broken: Exception) -> AbortAndRetry:
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
