"""Checkpoints that a target has already, of MirrorMaker 2 or of an earlier run: they bound translations from below.

Where the runs of an offset are not known, a checkpoint of the same group at or before that offset is a later position
than the earliest offset, and still not too late.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from semel.errors import ConfigError
from semel.mirror.formats import Checkpoint
from semel.mirror.policy import ReplicationPolicy
from semel.read.ranges import Range, id_text
from semel.read.reader import Reader
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Checkpoints", "read_checkpoints"]

#: By group: the newest checkpoint of each target partition.
Checkpoints = Mapping[str, Mapping[TopicPartition, Checkpoint]]


def read_checkpoints(target: Client, policy: ReplicationPolicy) -> Checkpoints:
    """Return the newest checkpoints of the flow's topic, none without the right to read it. What is no checkpoint is
    passed over.
    """
    try:
        return _read(target, policy.checkpoints_topic)
    except ConfigError:
        return {}


def _read(target: Client, name: str) -> Checkpoints:
    topic = target.existing({name}).get(name)
    if topic is None:
        return {}
    partitions = [(name, index) for index in topic.partitions]
    first, last = (
        list_offsets(target, dict.fromkeys(partitions, at), read_committed=True) for at in (EARLIEST, LATEST)
    )
    ranges = [Range(name, id_text(topic.id), p[1], first[p].offset, last[p].offset) for p in partitions]
    newest: dict[str, dict[TopicPartition, Checkpoint]] = {}
    with Reader(target, ranges) as reader:
        for rows in reader:
            for key, value in zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True):
                try:
                    found = Checkpoint.parse(key or b"", value or b"")
                except (ValueError, struct.error):
                    continue
                newest.setdefault(found.group, {})[found.topic, found.partition] = found
    return newest
