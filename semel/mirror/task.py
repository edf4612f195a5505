"""A Spark job over the partitions of a round: each task copies its share with a ticket of the round's transaction.

The job has one stage and reads nothing of Spark's. A task reads source batches as they are and writes them on, in the
order of each partition, while the next answer is on its way. It ends where the round was planned to end, or after
:data:`LONGEST_S`, so that one partition that is far behind does not hold the others up, and says how far it came.

The job is one of tickets (:mod:`semel.spark.job`): a task answers where others raise.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from semel.config import ClientConfig
from semel.errors import DataLoss, SemelError
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.copy import Times
from semel.mirror.losses import advice
from semel.mirror.offsets.segments import Runs
from semel.mirror.plan import Assignment, reader_of
from semel.mirror.positions import OffsetAndEpoch, flow_id
from semel.mirror.share import Copied, Share
from semel.records.arrays import joined
from semel.spark.job.proof import prove_tasks
from semel.spark.job.run import cancel_jobs_after, receipts_of, spark_errors
from semel.spark.job.task import participant_of, result_of, this_task
from semel.spark.task_result import COLUMN, decode_result, encode_result
from semel.spark.version_guard import SealedWriting, pack
from semel.spark.worker_client import client
from semel.steps import MirrorStep, reached
from semel.strict_json import of_kind, read_object, write_object
from semel.transaction.ticket import Receipt, Ticket
from semel.wire.metadata import TopicPartition

__all__ = ["LONGEST_S", "ExecutorCopy"]

#: So long a task takes answers; what it has not reached by then is for the next round.
LONGEST_S = 2.0
_ENDS = "ends"
#: The column of the partition to which a task's error belongs, beside it.
_AT_FAULT = "at_fault"


@dataclass(frozen=True, slots=True)
class ExecutorCopy:
    """A round that tasks copy: ``shares[i]`` with the ``i``-th ticket, by clients of the flow's properties."""

    spark: SparkSession
    config: FlowConfig
    shares: Sequence[Sequence[Assignment]]

    @property
    def targets(self) -> list[list[TopicPartition]]:
        """The target partitions of each ticket."""
        return [[part.target for part in share] for share in self.shares]

    def copy(self, tickets: Sequence[Ticket], milliseconds: float) -> Copied:
        """Copy within that time. If the tickets are of a transaction, it is proven that each task wrote once.

        Raises the first error of ours that a task met, and :class:`AbortAndRetry` where Spark gave the job up or shows
        no proof.
        """
        with self._job(milliseconds):
            copied = self._run(tickets)
            reached(MirrorStep.COPIED, flow_id(self.config.policy.source, self.config.policy.target))
            if self.config.exactly_once:
                prove_tasks(self.spark, copied.receipts)
        return copied

    @contextmanager
    def _job(self, milliseconds: float) -> Iterator[None]:
        """One job, in a group of its own, by which it is found in Spark's books; cancelled when it outlives the
        transaction.
        """
        context, tag = self.spark.sparkContext, f"semel-mirror-{uuid.uuid4()}"
        context.setJobGroup(tag, f"semel mirror {self.config.title}")
        with cancel_jobs_after(self.spark, milliseconds, tag):
            yield

    def _run(self, tickets: Sequence[Ticket]) -> Copied:
        task = partial(
            _task,
            shares=list(self.shares),
            tickets=list(tickets),
            source=dict(self.config.source),
            target=dict(self.config.target),
            ways_out=advice(self.config.policy),
        )
        context, number = self.spark.sparkContext, len(self.shares)
        job = context.parallelize(range(number), number).mapPartitions(SealedWriting(*pack(task)))
        with spark_errors(runs_users_code=False):
            answers: list[pa.RecordBatch] = job.collect()
        copied = Copied(receipts_of(_results(answers)), {}, {}, {})
        for answer in answers:
            if answer.schema.names == [_ENDS]:
                _read_ends(_text(answer), copied)
        return copied


def _results(answers: Iterable[pa.RecordBatch]) -> list[Receipt | SemelError]:
    """Return the receipt or error of each task, an error with the partition that the task names after it."""
    results: list[Receipt | SemelError] = []
    for answer in answers:
        if answer.schema.names == [COLUMN]:
            results.append(decode_result(_text(answer)))
        elif answer.schema.names == [_AT_FAULT] and isinstance(results[-1], SemelError):
            topic, index = of_kind(list, read_object(_text(answer))[_AT_FAULT])
            results[-1].at((of_kind(str, topic), of_kind(int, index)))
    return results


# ---- in the task


def _task(
    _: Iterable[Any],
    shares: Sequence[Sequence[Assignment]],
    tickets: Sequence[Ticket],
    source: Mapping[str, str],
    target: Mapping[str, str],
    ways_out: str,
) -> Iterator[pa.RecordBatch]:
    came: list[pa.RecordBatch] = []

    def copy_share(_: Iterator[pa.RecordBatch]) -> Receipt:
        number = this_task().partitionId()
        participant = participant_of(tickets, target)
        reader = reader_of(client(ClientConfig.parse(source)), shares[number], ways_out)
        targets = {part.range.topic_partition: part.target for part in shares[number]}
        share = Share(participant, targets, tickets[number])
        latest = time.monotonic() + LONGEST_S
        with reader:
            for answer in reader.answers():
                share.write(answer)
                if time.monotonic() > latest:
                    break
        copied = share.finish()
        came.append(_ends(copied))
        return copied.receipts[0]

    said = result_of(copy_share, iter(()))
    yield encode_result(said)
    if isinstance(said, Receipt):
        yield from came
    elif said.partition is not None:
        yield _row(_AT_FAULT, list(said.partition))


def _ends(copied: Copied) -> pa.RecordBatch:
    """Return the ends, times and target offsets as one row of JSON, beside the receipt."""
    rows = []
    for partition, at in copied.ends.items():
        runs = copied.runs.get(partition, Runs.none())
        rows.append([*partition, at.offset, at.epoch, at.target, astuple(copied.times[partition]), runs.packed()])
    return _row(_ENDS, rows)


def _row(name: str, value: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([joined([write_object({name: value})], pa.binary())], [name])


def _read_ends(text: bytes, copied: Copied) -> None:
    try:
        for topic, index, *numbers, times, packed in of_kind(list, read_object(text)[_ENDS]):
            partition = (of_kind(str, topic), of_kind(int, index))
            offset, epoch, target = (of_kind(int, number) for number in numbers)
            copied.ends[partition] = OffsetAndEpoch(offset, epoch, target)
            copied.times[partition] = Times(*(of_kind(int, number) for number in times))
            if packed:
                copied.runs[partition] = Runs.unpacked(of_kind(list, packed))
    except (ValueError, KeyError, TypeError) as wrong:
        raise DataLoss(
            f"what a task says of how far it came cannot be read ({wrong!r:.200}). Nothing of the round is visible."
            " Run the same version of semel everywhere.",
            tag="RECEIPT_DAMAGED",
        ) from None


def _text(answer: pa.RecordBatch) -> bytes:
    return bytes(answer.column(0)[0].as_py())
