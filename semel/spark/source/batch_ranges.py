"""The arithmetic of micro-batches: offsets of the log as positions, limits shared out, ranges between two offsets. It
asks no broker.

``maxOffsetsPerTrigger`` is shared out as in Spark's ``kafka`` source: by what each partition has waiting, rounded down,
but one offset at least for each that has any. The rule of batch 0 is in :func:`between` (PROTOCOL 6).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from semel.read import Range, split
from semel.spark.source_offset import SourceOffset, TopicOffset
from semel.wire.metadata import TopicPartition

__all__ = ["PartitionPlan", "apply_rate_limit", "between", "parts_of", "split_into_tasks", "topic_ranges"]


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One partition of a source: where it began, the next offset to read, and where what is there now ends.

    ``epoch`` and ``latest_epoch`` are the leader epochs in which the log was seen to reach ``position`` and ``latest``,
    or -1.
    """

    topic_id: str
    began: int
    position: int
    latest: int
    epoch: int = -1
    latest_epoch: int = -1

    @property
    def waiting(self) -> int:
        """The number of offsets to read."""
        return self.latest - self.position

    def up_to(self, latest: int, epoch: int) -> PartitionPlan:
        """Return the partition read on to ``latest``, as the leader of this epoch reported it.

        One of an older epoch than the position's was deposed since, and may name rows that were cut: nothing is new for
        now.
        """
        if 0 <= epoch < self.epoch:
            latest, epoch = self.position, self.epoch
        return replace(self, latest=latest, latest_epoch=epoch)

    def epoch_at(self, end: int, *, moves: bool) -> int:
        """Return the epoch of a batch's end. If nothing is read, it stays; a missing one is added if the offset
        ``moves`` anyway.

        Another text is another batch for Spark.
        """
        return self.epoch if end == self.position and (self.epoch >= 0 or not moves) else self.latest_epoch


def parts_of(offset: SourceOffset) -> dict[TopicPartition, PartitionPlan]:
    """Return the partitions of an offset. The current log ends are unknown here, so ``latest`` is the position."""
    rows = ((name, index, topic) for name, topic in offset.topics.items() for index in topic.end)
    return {
        (name, i): PartitionPlan(topic.id, topic.began[i], topic.end[i], topic.end[i], topic.epochs.get(i, -1))
        for name, i, topic in rows
    }


def topic_ranges(
    cluster: str,
    parts: Mapping[TopicPartition, PartitionPlan],
    ends: Mapping[TopicPartition, int],
    *,
    initial: bool = False,
    moves: bool = False,
) -> SourceOffset:
    """Return the offset that ends these partitions at ``ends``.

    ``moves``: it is another one than the start, wherever that ends.
    """
    topics: dict[str, TopicOffset] = {}
    moves |= any(ends[partition] != part.position for partition, part in parts.items())
    for name, topic_id in {topic: part.topic_id for (topic, _), part in parts.items()}.items():
        mine = {index: part for (topic, index), part in parts.items() if topic == name}
        epochs = {i: epoch for i, part in mine.items() if (epoch := part.epoch_at(ends[name, i], moves=moves)) >= 0}
        topics[name] = TopicOffset(
            topic_id, {i: part.began for i, part in mine.items()}, {i: ends[name, i] for i in mine}, epochs
        )
    return SourceOffset(cluster, topics, initial)


def apply_rate_limit(parts: Mapping[TopicPartition, PartitionPlan], most: int | None) -> dict[TopicPartition, int]:
    """Return where a batch of about ``most`` offsets ends in each partition. Without a limit it takes all."""
    total = sum(part.waiting for part in parts.values())
    if most is None or total <= most:
        return {partition: part.latest for partition, part in parts.items()}
    return {partition: part.position + _share(part.waiting, total, most) for partition, part in parts.items()}


def _share(waiting: int, total: int, most: int) -> int:
    # whole numbers: offsets of 2**53 and more do not fit a float
    return min(waiting, max(most * waiting // total, 1))


def between(start: SourceOffset, end: SourceOffset) -> list[Range]:
    """Return the ranges of a batch.

    A start that is marked as initial is not believed: no log holds it, and the end says where each partition began.
    """
    known = {} if start.initial else parts_of(start)
    ranges = []
    for (topic, index), part in sorted(parts_of(end).items()):
        before = known.get((topic, index))
        first = before.position if before is not None and before.topic_id == part.topic_id else part.began
        if first < part.position:
            ranges.append(Range(topic, part.topic_id, index, first, part.position, part.epoch))
    return ranges


def split_into_tasks(
    ranges: Iterable[Range], min_partitions: int | None, max_records: int | None, min_records: int
) -> list[tuple[Range, ...]]:
    """Divide ranges into tasks. A task costs tens of milliseconds, whatever it reads, so small ranges share one task
    until it has about ``min_records`` offsets. ``minPartitions`` and ``maxRecordsPerPartition`` are kept, and divide
    large ranges.
    """
    filled = [one for one in ranges if one.size > 0]
    cut = [
        piece for one in filled for piece in split([one], math.ceil(one.size / max_records) if max_records else None)
    ]
    pieces = split(cut, min_partitions)
    tasks = max(min_partitions or 1, math.ceil(sum(piece.size for piece in pieces) / min_records))
    if tasks >= len(pieces) or len(pieces) > len(filled):  # pieces of one range are read by several tasks, or in order
        return [(piece,) for piece in pieces]
    shared: list[list[Range]] = [[] for _ in range(tasks)]
    sizes = [0] * tasks
    for piece in sorted(pieces, key=lambda piece: piece.size, reverse=True):
        smallest = min(range(len(sizes)), key=sizes.__getitem__)
        if max_records and sizes[smallest] and sizes[smallest] + piece.size > max_records:
            shared.append([])
            sizes.append(0)
            smallest = len(sizes) - 1
        shared[smallest].append(piece)
        sizes[smallest] += piece.size
    in_order = (tuple(sorted(task, key=lambda piece: piece.topic_partition)) for task in shared if task)
    return sorted(in_order, key=lambda task: task[0].topic_partition)
