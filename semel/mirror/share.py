"""The copying of some partitions with one ticket, in a task on an executor or in the driver.

What was fetched is written as it is, in the order of each partition. The end is the receipt, and how far it came.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from semel.errors import SemelError
from semel.mirror.copy import Piece, Times, batches
from semel.mirror.offsets.segments import Runs
from semel.mirror.positions import OffsetAndEpoch
from semel.mirror.stops import names_source
from semel.read.cursor import Taken
from semel.steps import MirrorStep, reached
from semel.transaction.participant import Participant
from semel.transaction.ticket import Receipt, Ticket
from semel.wire.metadata import TopicPartition

__all__ = ["Copied", "Share", "ends_of"]

_NOTHING = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Copied:
    """The results of a round: receipts, and of each source partition its end, the offsets of its records on the target,
    and their times.
    """

    receipts: Sequence[Receipt]
    ends: dict[TopicPartition, OffsetAndEpoch]
    runs: dict[TopicPartition, Runs]
    times: dict[TopicPartition, Times]


class Share:
    """The partitions of one ticket: what was copied of them, and how far. ``targets`` has the target of each."""

    def __init__(
        self, participant: Participant, targets: Mapping[TopicPartition, TopicPartition], ticket: Ticket
    ) -> None:
        self._participant, self._targets, self._ticket = participant, targets, ticket
        self._ends: dict[TopicPartition, OffsetAndEpoch] = {}
        self._pieces: dict[TopicPartition, list[Piece]] = defaultdict(list)
        self._times: dict[TopicPartition, Times] = defaultdict(Times)

    def write(self, answer: Sequence[Taken]) -> None:
        """Copy what one answer has."""
        reached(MirrorStep.FETCHED, str(self._ticket.number))
        self._write(answer)
        self._ends |= ends_of(answer)

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

    def finish(self) -> Copied:
        """Wait until all is acknowledged, and return it with the receipt that proves it."""
        with names_source(self._targets):
            receipt = self._participant.receipt
        reached(MirrorStep.WRITTEN, str(self._ticket.number))
        done = self._participant.acknowledged
        ends, runs = {}, {}
        for partition, at in self._ends.items():
            wrote = done.get(self._targets[partition], [])
            ends[partition] = OffsetAndEpoch(at.offset, at.epoch, wrote[-1].last + 1 if wrote else -1)
            if wrote:
                runs[partition] = Runs.of_pieces(self._pieces[partition], [one.first for one in wrote])
        return Copied([receipt], ends, runs, dict(self._times))


def ends_of(answer: Iterable[Taken]) -> dict[TopicPartition, OffsetAndEpoch]:
    """Return how far answers reach. Call it before the next answer is taken, which moves the epoch on."""
    return {taken.part.range.topic_partition: OffsetAndEpoch(taken.end, taken.part.epoch) for taken in answer}
