"""How far a session had read its partitions, and where they ended: for topics that are gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from semel.read.ranges import NO_END
from semel.transaction.session.reader import SessionReader
from semel.wire.metadata import TopicPartition

__all__ = ["LastKnown"]


class LastKnown:
    """How far partitions were read and committed, and where they ended, when this member read them last."""

    def __init__(self) -> None:
        self._partitions: Collection[TopicPartition] = ()
        self._ends: dict[TopicPartition, int] = {}
        self._stood: dict[TopicPartition, int] = {}

    def take(self, reader: SessionReader | None, stands: Mapping[TopicPartition, int]) -> None:
        """Take note of a reader and of the group's offsets. Ends that it has not asked for stay as they were known, up
        to where it begins: after that, another member has read on, and has known other ends.
        """
        if reader is not None:
            starts = reader.starts
            self._partitions = starts.keys()
            self._ends = {one: end for one, end in self._ends.items() if starts.get(one, end) <= end}
            self._ends.update(reader.log_ends)
            self._stood.update({**starts, **stands})

    def was_read(self, topic: str) -> bool:
        """Return whether all known rows of a topic are committed. No broker is asked: the topic may be gone."""
        mine = [partition for partition in self._partitions if partition[0] == topic]
        return all(self._stood[partition] >= self._ends.get(partition, NO_END) for partition in mine)
