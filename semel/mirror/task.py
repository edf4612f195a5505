"""A Spark job over the partitions of a round: each task copies its share with a ticket of the round's transaction.

The job has one stage and reads nothing of Spark's. A task reads source batches as they are and writes them on, in the
order of each partition, while the next answer is on its way. It ends where the round was planned to end, or after
:data:`LONGEST_S`, so that one partition that is far behind does not hold the others up, and says how far it came.

The job is one of tickets (:mod:`semel.spark.job`): a task answers where others raise.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import SparkContext

from semel.config import ClientConfig
from semel.errors import DataLoss, SemelError
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.copy import Piece, Times, batches
from semel.mirror.losses import advice
from semel.mirror.offsets.segments import Runs
from semel.mirror.positions import OffsetAndEpoch
from semel.mirror.stops import names_source
from semel.read.cursor import Taken
from semel.read.ranges import Range
from semel.read.reader import Reader
from semel.records.arrays import joined
from semel.spark.job.run import receipts_of, spark_errors
from semel.spark.job.task import participant_of, result_of, this_task
from semel.spark.task_result import COLUMN, decode_result, encode_result
from semel.spark.version_guard import SealedWriting, pack
from semel.spark.worker_client import client
from semel.steps import MirrorStep, reached
from semel.strict_json import of_kind, read_object, write_object
from semel.transaction.participant import Participant
from semel.transaction.ticket import Receipt, Ticket
from semel.wire.metadata import TopicPartition

__all__ = ["LONGEST_S", "Assignment", "Copied", "copy"]

#: So long a task takes answers; what it has not reached by then is for the next round.
LONGEST_S = 2.0
_ENDS = "ends"
#: The column of the partition to which a task's error belongs, beside it.
_AT_FAULT = "at_fault"
_NOTHING = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Assignment:
    """One partition of a round: what is read, the epoch of the last batch before it, and where it is written."""

    range: Range
    epoch: int
    target: TopicPartition


@dataclass(frozen=True, slots=True)
class Copied:
    """The results of a round's tasks: receipts, and of each source partition its end, the offsets of its records on the
    target, and their times.
    """

    receipts: Sequence[Receipt]
    ends: dict[TopicPartition, OffsetAndEpoch]
    runs: dict[TopicPartition, Runs]
    times: dict[TopicPartition, Times]


def copy(
    context: SparkContext,
    shares: Sequence[Sequence[Assignment]],
    tickets: Sequence[Ticket],
    config: FlowConfig,
) -> Copied:
    """Run the job: ``shares[i]`` is copied with ``tickets[i]``, by clients of the flow's properties.

    Raises the first error of ours that a task met, and :class:`AbortAndRetry` where Spark gave the job up.
    """
    task = partial(
        _task,
        shares=list(shares),
        tickets=list(tickets),
        source=dict(config.source),
        target=dict(config.target),
        ways_out=advice(config.policy),
    )
    job = context.parallelize(range(len(shares)), len(shares)).mapPartitions(SealedWriting(*pack(task)))
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
        reader = _reader(source, shares[number], ways_out)
        targets = {part.range.topic_partition: part.target for part in shares[number]}
        share = _Share(participant, targets, tickets[number])
        share.copy(reader)
        receipt = share.receipt
        reached(MirrorStep.WRITTEN, str(number))
        came.append(share.ends())
        return receipt

    said = result_of(copy_share, iter(()))
    yield encode_result(said)
    if isinstance(said, Receipt):
        yield from came
    elif said.partition is not None:
        yield _row(_AT_FAULT, list(said.partition))


def _reader(source: Mapping[str, str], share: Sequence[Assignment], ways_out: str) -> Reader:
    epochs = {part.range.topic_partition: part.epoch for part in share}
    config = ClientConfig.parse(source)
    return Reader(
        client(config),
        [part.range for part in share],
        read_committed=config.isolation_level == "read_committed",
        epochs=epochs,
        advice=ways_out,
    )


class _Share:
    """The partitions of one task: what was copied of them, and how far."""

    def __init__(
        self, participant: Participant, targets: Mapping[TopicPartition, TopicPartition], ticket: Ticket
    ) -> None:
        self._participant, self._targets, self._ticket = participant, targets, ticket
        self._read: dict[TopicPartition, OffsetAndEpoch] = {}
        self._pieces: dict[TopicPartition, list[Piece]] = defaultdict(list)
        self._times: dict[TopicPartition, Times] = defaultdict(Times)

    def copy(self, reader: Reader) -> None:
        """Copy answer by answer."""
        latest = time.monotonic() + LONGEST_S
        with reader:
            for answer in reader.answers():
                reached(MirrorStep.FETCHED, str(self._ticket.number))
                self._write(answer)
                for taken in answer:
                    self._read[taken.part.range.topic_partition] = OffsetAndEpoch(taken.end, taken.part.epoch)
                if time.monotonic() > latest:
                    break

    def _write(self, answer: Sequence[Taken]) -> None:
        """In turn, a batch of each partition: a request carries one of each, so that few requests carry them all."""
        by_topic: dict[str, list[list[tuple[int, memoryview]]]] = defaultdict(list)
        for taken in answer:
            partition = taken.part.range.topic_partition
            topic, index = self._targets[partition]
            pieces = self._pieces_of(taken, topic, index)
            by_topic[topic].append([(index, piece.batch) for piece in pieces])
            self._times[partition] += Times.of(pieces)
            # without its bytes: written data are dropped
            self._pieces[partition] += [Piece(_NOTHING, piece.first, piece.count, piece.offsets) for piece in pieces]
        for topic, columns in by_topic.items():
            turns = [each for turn in zip_longest(*columns) for each in turn if each is not None]
            if turns:
                indexes = np.array([index for index, _ in turns], np.int64)
                with names_source(self._targets):
                    self._participant.write_encoded(topic, indexes, [batch for _, batch in turns])

    def _pieces_of(self, taken: Taken, topic: str, index: int) -> list[Piece]:
        try:
            return list(batches(taken, self._ticket.topics[topic], f"{topic}-{index}"))
        except SemelError as error:
            raise error.at(taken.part.range.topic_partition) from None

    @property
    def receipt(self) -> Receipt:
        """The proof that all is written."""
        with names_source(self._targets):
            return self._participant.receipt

    def ends(self) -> pa.RecordBatch:
        """Return the ends and target offsets as one row of JSON, beside the receipt."""
        done = self._participant.acknowledged
        rows = []
        for partition, at in self._read.items():
            wrote = done.get(self._targets[partition], [])
            runs = Runs.of_pieces(self._pieces[partition], [one.first for one in wrote])
            last = wrote[-1].last + 1 if wrote else -1
            rows.append([*partition, at.offset, at.epoch, last, astuple(self._times[partition]), runs.packed()])
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
