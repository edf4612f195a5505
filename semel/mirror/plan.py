"""The plan of a round: which offsets of the source are new, and how they are shared out. No transaction."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from semel.errors import Retriable
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.losses import advice, losses_of
from semel.mirror.positions import OffsetAndEpoch, Positions
from semel.read.data_loss import loss_error
from semel.read.ranges import Range
from semel.read.reader import Reader
from semel.wire.api.offsets import LATEST, Listed, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Assignment", "Ends", "plan", "reader_of", "shared_out", "stable_ends"]

#: Offsets that are worth a task of their own.
_OFFSETS_PER_TASK = 50_000
#: So many partitions at least. Four tasks with one each took half as much CPU again, brokers included, as two with two.
_PARTITIONS_PER_TASK = 2

Ends: TypeAlias = Mapping[TopicPartition, Listed]


@dataclass(frozen=True, slots=True)
class Assignment:
    """One partition of a round: what is read, the epoch of the last batch before it, and where it is written."""

    range: Range
    epoch: int
    target: TopicPartition


def stable_ends(source: Client, partitions: Collection[TopicPartition], *, read_committed: bool) -> Ends:
    """Return the last stable offset of each mirrored partition, or its end where aborted rows are copied too."""
    return list_offsets(source, dict.fromkeys(partitions, LATEST), read_committed=read_committed) if partitions else {}


def plan(
    source: Client,
    config: FlowConfig,
    positions: Positions,
    partitions: Mapping[TopicPartition, TopicPartition],
    ends: Ends,
    wanted: Ends | None,
) -> list[Assignment]:
    """Return what is stable and new, at most up to what is ``wanted``. ``partitions`` has the target of each one.

    Raises :class:`DataLoss` where the source ends before a position.
    """
    parts: list[Assignment] = []
    following: dict[TopicPartition, OffsetAndEpoch] = {}
    for partition, listed in ends.items():
        at = positions.at[partition]
        if listed.offset < at.offset:
            following[partition] = at
        elif 0 <= listed.leader_epoch < at.epoch:
            # a leader that was deposed since, and may name rows that were cut: nothing is new for now
            if wanted is not None:
                raise Retriable(f"{partition[0]}-{partition[1]} was answered for by an old leader. Nothing was copied.")
        else:
            most = wanted[partition].offset if wanted is not None and partition in wanted else listed.offset
            end = min(listed.offset, most)
            if end > at.offset:
                topic, index = partition
                planned = Range(topic, positions.ids[topic], index, at.offset, end, listed.leader_epoch)
                parts.append(Assignment(planned, at.epoch, partitions[partition]))
    for losses in losses_of(source, following, positions).values():
        raise loss_error(losses, advice(config.policy))
    return parts


def reader_of(client: Client, parts: Sequence[Assignment], ways_out: str, *, standing: bool = False) -> Reader:
    """Return a reader of what was planned, by the isolation of its client."""
    return Reader(
        client,
        [part.range for part in parts],
        read_committed=client.config.isolation_level == "read_committed",
        epochs={part.range.topic_partition: part.epoch for part in parts},
        advice=ways_out,
        standing=standing,
    )


def shared_out(parts: Sequence[Assignment], most: int) -> list[list[Assignment]]:
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
