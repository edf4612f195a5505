"""KIP-656's group on the target: the next source offsets, under the target's topics and partitions.

It is a view of the positions, at most about a second old: each commit of it costs a request and a marker. A takeover
sets it right. Positions are read from the progress record alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from semel.mirror.positions import Positions
from semel.wire.metadata import TopicPartition

__all__ = ["GroupView"]

_EVERY_S = 1.0
#: So often all offsets are committed again: the broker forgets offsets that are not renewed, one by one.
_ALL_S = 86_400.0


class GroupView:
    """The offsets that were committed of the group ``id``, which is the flow's, and those that are due."""

    def __init__(self, id: str) -> None:
        self.id = id
        self._written: dict[TopicPartition, int] = {}
        self._written_at = self._all_at = float("-inf")
        #: Positions and partitions of which nothing is due.
        self._same: tuple[object, object] | None = None

    def due(
        self, positions: Positions, partitions: Mapping[TopicPartition, TopicPartition], *, now: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the offsets that have changed, if that is due, or ``now``. ``partitions`` has the target of each
        source partition.
        """
        clock = time.monotonic()
        if not now and clock - self._written_at < _EVERY_S:
            return {}
        renewed = clock - self._all_at > _ALL_S
        if self._same is not None and not renewed and self._same[0] is positions and self._same[1] is partitions:
            return {}
        at = {target: positions.at[source].offset for source, target in partitions.items() if source in positions.at}
        if renewed:
            self._written.clear()
            self._all_at = clock
        due = {target: offset for target, offset in at.items() if self._written.get(target) != offset}
        self._same = None if due else (positions, partitions)
        return due

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Take note that these offsets are committed."""
        if offsets:
            self._written |= offsets
            self._written_at = time.monotonic()
