"""What Spark calls to write ``format("semel")``: in planning, in tasks, and after them.

Spark makes a stream's writer in the process that plans *and* in each process that commits or aborts. Only planning
pickles it, so that is when the batch is planned. What travels to tasks is sealed (:mod:`semel.spark.version_guard`).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from semel._version import __version__
from semel.spark.sink.columns import written_columns
from semel.spark.version_guard import Sealed
from semel.spark.writer.commit import abort_parts, commit_parts, decision_of
from semel.spark.writer.options import WriterOptions
from semel.spark.writer.plan import BatchPlan
from semel.spark.writer.task import Part, write_part

__all__ = ["BatchWriter", "PartMessage", "StreamWriter"]


class PartMessage(Sealed, WriterCommitMessage):
    """The answer of a task, on its way to the process that commits."""

    what = "the answer of a task"

    @classmethod
    def of(cls, part: Part) -> PartMessage:
        """Seal it."""
        return cls(__version__, pickle.dumps(part))


class _Planned:
    """A writer that is planned once, when Spark pickles it first."""

    def __init__(self, options: WriterOptions, schema: t.StructType, plan: Callable[..., BatchPlan]) -> None:
        self._options, self._plan = options, plan
        topics = options.sink.topics or None
        self._columns = tuple(written_columns(schema, options.sink.topic, topics))
        self._sealed: bytes | None = None

    def sealed(self) -> tuple[str, bytes]:
        if self._sealed is None:
            self._sealed = pickle.dumps(self._plan(self._options, self._columns))
        return __version__, self._sealed


class SealedBatchWriter(Sealed, DataSourceArrowWriter):
    """The writer of a batch job: in its tasks, and in the process that commits."""

    what = "the plan of this sink"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartMessage:
        """Write the rows of one task."""
        return PartMessage.of(write_part(self.unpack(), iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Decide for all tasks."""
        plan: BatchPlan = self.unpack()
        commit_parts(plan.options, [part for part in _parts(messages) if part is not None], plan.batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort what the tasks have prepared."""
        plan: BatchPlan = self.unpack()
        if plan.write:
            abort_parts(plan.options, pickle.loads(plan.decision))


class BatchWriter(_Planned, DataSourceArrowWriter):
    """The writer of a batch job, where Spark plans it."""

    def __reduce__(self) -> tuple[object, ...]:
        return SealedBatchWriter, self.sealed()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Never called: tasks get the sealed writer."""
        raise NotImplementedError


class StreamWriter(_Planned):
    """The writer of a stream, in all but what its tasks are handed."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Decide for all tasks of a batch."""
        commit_parts(self._options, [part for part in _parts(messages) if part is not None], batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Abort what the tasks of a batch have prepared."""
        decision = decision_of(_parts(messages), batch)
        if decision is not None:  # without a message there is nothing to abort by: the next plan does it
            abort_parts(self._options, decision)


def _parts(messages: Sequence[Any]) -> list[Part | None]:
    return [message.unpack() if message is not None else None for message in messages]
