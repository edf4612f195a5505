"""The second stage of a batch's job: each task writes with its ticket, and its receipt comes back.

Nothing but ``collect`` may follow the writing ``mapInArrow``: a later stage could run it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as t

from semel.spark.job.run import receipts_of, spark_errors
from semel.spark.job.task import participant_of, result_of
from semel.spark.jvm.python_stage import map_in_arrow
from semel.spark.sink.encode_stage import by_topic, gathered, unshuffled
from semel.spark.task_result import COLUMN, decode_result, encode_result
from semel.spark.version_guard import SealedWriting, pack
from semel.transaction.participant import Participant
from semel.transaction.ticket import Receipt, Ticket

__all__ = ["WriteSettings", "write"]

_ANSWER = t.StructType().add(COLUMN, "binary")


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """The settings of writing tasks. What they get is rows, or ``encoded``: the record batches of the encode stage.

    Rows go to ``topic`` or to that of ``topics`` which their column names; ``keys`` choose the partition, or not.
    ``turn`` says with which partition rows begin that may go to any.
    """

    topic: str | None
    topics: tuple[str, ...]
    keys: bool = False
    encoded: bool = False
    turn: int = 0


def write(
    df: DataFrame,
    columns: Sequence[str],
    settings: WriteSettings,
    tickets: Sequence[Ticket],
    properties: Mapping[str, str],
) -> list[Receipt]:
    """Run the job: Spark's partition ``i`` of ``df`` is written with ``tickets[i]``. Return the receipts of the tasks
    that ran. ``columns`` are all columns of ``df``.

    Raises the first error of ours that a task met (those that a stage before this one or the source raised are in
    Spark's text), or what Spark raises for the others.
    """
    task = partial(_write_task, tickets=list(tickets), properties=dict(properties), settings=settings)
    with spark_errors(runs_users_code=True):
        answers = map_in_arrow(df, SealedWriting(*pack(task)), _ANSWER, columns).collect()
    return receipts_of([decode_result(row[COLUMN]) for row in answers])


def _write_task(
    batches: Iterator[pa.RecordBatch],
    tickets: Sequence[Ticket],
    properties: Mapping[str, str],
    settings: WriteSettings,
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task of the writing stage."""

    def write_all(rows: Iterator[pa.RecordBatch]) -> Receipt:
        participant = participant_of(tickets, properties, sticky=settings.turn)
        if settings.encoded:
            _write_batches(participant, rows)
        else:
            _write_rows(participant, rows, settings)
        return participant.receipt

    yield encode_result(result_of(write_all, batches))


def _write_rows(participant: Participant, batches: Iterable[pa.RecordBatch], settings: WriteSettings) -> None:
    """Rows that come as they are: without ``keys`` they go to any partition of this task."""
    for rows in gathered(batches):
        for name, part in by_topic(rows, settings.topic, dict.fromkeys(settings.topics)):
            part = part.drop_columns("topic") if "topic" in part.column_names else part
            participant.write(name, part, keys=settings.keys)


def _write_batches(participant: Participant, batches: Iterable[pa.RecordBatch]) -> None:
    """Write the record batches of the stage before the shuffle."""
    for rows in batches:
        for topic, partitions, held in unshuffled(rows):
            participant.write_encoded(topic, partitions, held)
