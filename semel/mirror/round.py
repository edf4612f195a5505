"""A round: one transaction on the target.

It plans from the last stable offsets of the source, gives disjoint target partitions to few tasks, proves that each has
written once, writes where the records came to lie, and commits all of it with the positions.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from semel.errors import Retriable
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.copy import Times
from semel.mirror.copy import wanted as batches_to_copy
from semel.mirror.losses import advice, losses_of
from semel.mirror.offsets.segment_topic import SEGMENTS, SegmentTopic
from semel.mirror.offsets.segments import Runs
from semel.mirror.positions import OffsetAndEpoch, Positions
from semel.mirror.stops import names_source
from semel.mirror.task import Assignment, Copied, copy
from semel.mirror.topics import MirroredTopic
from semel.read.data_loss import loss_error
from semel.read.ranges import Range
from semel.read.reader import Reader
from semel.spark.job.proof import prove_tasks
from semel.spark.job.run import cancel_jobs_after
from semel.steps import MirrorStep, reached
from semel.transaction.output_topics import non_transactional_tickets
from semel.transaction.producer import Producer
from semel.transaction.ticket import TicketTopic
from semel.transaction.transaction import Transaction
from semel.wire.api.offsets import LATEST, Listed, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Done", "Ends", "Round", "stable_ends"]

log = logging.getLogger("semel.mirror")

#: Offsets that are worth a task of their own.
_OFFSETS_PER_TASK = 50_000
#: So many partitions at least. Four tasks with one each took half as much CPU again, brokers included, as two with two.
_PARTITIONS_PER_TASK = 2

Ends = Mapping[TopicPartition, Listed]


@dataclass(frozen=True, slots=True)
class Done:
    """The records that a round wrote to each target partition, the bytes of their batches, and their times; and the
    offsets on both sides, by source partition.
    """

    copied: Mapping[TopicPartition, tuple[int, int]]
    times: Mapping[TopicPartition, Times]
    runs: Mapping[TopicPartition, Runs]


def stable_ends(source: Client, partitions: Collection[TopicPartition], *, read_committed: bool) -> Ends:
    """Return the last stable offset of each mirrored partition, or its end where aborted rows are copied too."""
    return list_offsets(source, dict.fromkeys(partitions, LATEST), read_committed=read_committed) if partitions else {}


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a flow that was taken over. ``partitions`` has the target of each source partition.

    With ``whole_group`` it commits the group's offsets of all partitions, since they expire one by one. One that has to
    ``wait_for_records`` does nothing where only aborted rows and markers are new.
    """

    spark: SparkSession
    config: FlowConfig
    id: str
    source: Client
    producer: Producer
    topics: Mapping[str, MirroredTopic]
    partitions: Mapping[TopicPartition, TopicPartition]
    segments: SegmentTopic
    segment_ticket: TicketTopic
    positions: Positions
    whole_group: bool
    wait_for_records: bool

    def run(self, ends: Ends, wanted: Ends | None) -> Done | None:
        """Copy what is stable and new, at most up to what is ``wanted``. None if there was nothing."""
        began = time.monotonic()
        parts = self._plan(ends, wanted)
        if not parts or (self.wait_for_records and self._has_no_records(parts)):
            return None
        shares = _shared_out(parts, self.spark.sparkContext.defaultParallelism)
        reached(MirrorStep.PLANNED, self.id)
        copied = self._copy_in_transaction(shares) if self.config.exactly_once else self._copy_at_once(shares)
        reached(MirrorStep.COMMITTED, self.id)
        wrote = {
            partition: (one.records, one.size)
            for receipt in copied.receipts
            for partition, one in receipt.wrote.items()
        }
        log.info(
            "%s: round %d: %d records, %d bytes, %d of %d partitions, %.0f ms",
            self.config.title,
            self.positions.round + 1,
            sum(records for records, _ in wrote.values()),
            sum(size for _, size in wrote.values()),
            len(copied.ends),
            len(self.positions.at),
            (time.monotonic() - began) * 1000,
        )
        times = {self.partitions[p]: times for p, times in copied.times.items() if times.count}
        return Done(wrote, times, copied.runs)

    def _plan(self, ends: Ends, wanted: Ends | None) -> list[Assignment]:
        positions = self.positions
        parts: list[Assignment] = []
        following: dict[TopicPartition, OffsetAndEpoch] = {}
        for partition, listed in ends.items():
            at = positions.at[partition]
            if listed.offset < at.offset:
                following[partition] = at
            elif 0 <= listed.leader_epoch < at.epoch:
                # a leader that was deposed since, and may name rows that were cut: nothing is new for now
                if wanted is not None:
                    raise Retriable(
                        f"{partition[0]}-{partition[1]} was answered for by an old leader. Nothing was copied."
                    )
            else:
                most = wanted[partition].offset if wanted is not None and partition in wanted else listed.offset
                end = min(listed.offset, most)
                if end > at.offset:
                    topic, index = partition
                    planned = Range(topic, positions.ids[topic], index, at.offset, end, listed.leader_epoch)
                    parts.append(Assignment(planned, at.epoch, self.partitions[partition]))
        for losses in losses_of(self.source, following, positions).values():
            raise loss_error(losses, advice(self.config.policy))
        return parts

    def _has_no_records(self, parts: Sequence[Assignment]) -> bool:
        """Look here, without a job. Where that could take long, tasks look, and the position moves."""
        if sum(part.range.size for part in parts) > _OFFSETS_PER_TASK:
            return False
        epochs = {part.range.topic_partition: part.epoch for part in parts}
        ranges = [part.range for part in parts]
        committed, ways_out = self.config.read_committed, advice(self.config.policy)
        with Reader(self.source, ranges, read_committed=committed, epochs=epochs, advice=ways_out) as reader:
            return not any(batches_to_copy(taken) for answer in reader.answers() for taken in answer)

    def _copy_in_transaction(self, shares: Sequence[Sequence[Assignment]]) -> Copied:
        with self.producer.transaction() as txn:
            own = self.segments.partition
            known = {**self._tickets(), SEGMENTS: self.segment_ticket}
            with names_source(self.partitions):
                *tickets, last = txn.tickets([*_targets(shares), [own]], known)
            with self._job(self.producer.timeout_ms - txn.age_ms):
                copied = copy(self.spark.sparkContext, shares, tickets, self.config)
                reached(MirrorStep.COPIED, self.id)
                prove_tasks(self.spark, copied.receipts)
            reached(MirrorStep.PROVEN, self.id)
            moved = self.positions.moved(copied.ends)
            txn.accept([*copied.receipts, self.segments.write(last, moved, copied.runs)])
            reached(MirrorStep.SEGMENTS_WRITTEN, self.id)
            self._commit(txn, moved, copied.ends)
        return copied

    def _copy_at_once(self, shares: Sequence[Sequence[Assignment]]) -> Copied:
        """At least once: rows are visible as they come, and a round that dies in between writes them again."""
        tickets = non_transactional_tickets(_targets(shares), self._tickets())
        with self._job(self.producer.timeout_ms):
            copied = copy(self.spark.sparkContext, shares, tickets, self.config)
        reached(MirrorStep.COPIED, self.id)
        with self.producer.transaction() as txn:
            (last,) = txn.tickets([[self.segments.partition]], {SEGMENTS: self.segment_ticket})
            moved = self.positions.moved(copied.ends)
            txn.accept([self.segments.write(last, moved, copied.runs)])
            reached(MirrorStep.SEGMENTS_WRITTEN, self.id)
            self._commit(txn, moved, copied.ends)
        return copied

    def _commit(self, txn: Transaction, moved: Positions, ends: Mapping[TopicPartition, OffsetAndEpoch]) -> None:
        """Commit, with KIP-656's group on the target: the next source offsets, under the target's topics and
        partitions.
        """
        offsets = moved.at if self.whole_group else ends
        with names_source(self.partitions):
            txn.send_offsets(
                {self.partitions[p]: at.offset for p, at in offsets.items() if p in self.partitions}, self.id
            )
            txn.commit(moved.progress())

    def _tickets(self) -> dict[str, TicketTopic]:
        return {mirrored.target: mirrored.ticket for mirrored in self.topics.values()}

    @contextmanager
    def _job(self, milliseconds: float) -> Iterator[None]:
        """One job, in a group of its own, by which it is found in Spark's books; cancelled when it outlives the
        transaction.
        """
        context, tag = self.spark.sparkContext, f"semel-mirror-{uuid.uuid4()}"
        context.setJobGroup(tag, f"semel mirror {self.config.title}")
        with cancel_jobs_after(self.spark, milliseconds, tag):
            yield


def _targets(shares: Sequence[Sequence[Assignment]]) -> list[list[TopicPartition]]:
    return [[part.target for part in share] for share in shares]


def _shared_out(parts: Sequence[Assignment], most: int) -> list[list[Assignment]]:
    """Divide the partitions among few tasks with about as many offsets each, because each task and each request costs
    time. A request carries one batch of each partition of its task, so no partition should be alone in its task.
    """
    offsets = sum(part.range.size for part in parts)
    tasks = min(math.ceil(offsets / _OFFSETS_PER_TASK), most, math.ceil(len(parts) / _PARTITIONS_PER_TASK))
    shares: list[list[Assignment]] = [[] for _ in range(tasks)]
    sizes = [0] * tasks
    for part in sorted(parts, key=lambda part: -part.range.size):
        least = sizes.index(min(sizes))
        shares[least].append(part)
        sizes[least] += part.range.size
    return shares
