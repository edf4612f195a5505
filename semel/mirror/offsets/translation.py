"""Offsets of one cluster as offsets of the other, both ways, from what a flow has committed.

Exact means that a reader sees the same next record. Where that cannot be, the translation is an earlier position, never
a later one, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from semel.errors import ConfigError
from semel.mirror.formats import Checkpoint
from semel.mirror.offsets.segment_topic import SegmentTopic
from semel.mirror.offsets.segments import CHECKPOINT, EARLIER, Segments, Translated
from semel.mirror.positions import SCOPE, Positions
from semel.transaction.progress.reader import committed_progress
from semel.transaction.progress.record import Progress
from semel.wire.api.offsets import EARLIEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Translator", "segments_end"]


def segments_end(progress: Progress, segments: SegmentTopic) -> int:
    """Return the offset after the last row that a flow's newest transaction has in the segments topic, or 0."""
    topic, index = segments.partition
    _, last = progress.wrote.get(topic, {}).get(index, (-1, -1))
    return last + 1


class Translator:
    """Translates by the newest committed round of the flow ``id`` from ``source`` to ``target``."""

    def __init__(self, source: Client, target: Client, id: str) -> None:
        self._source, self._target, self._id = source, target, id
        self._topic = SegmentTopic(target, id)
        self.positions = Positions(source.cluster, "")
        self._segments = Segments()

    def refresh(self) -> bool:
        """Read what was committed since. False where the flow has committed nothing yet.

        No owner is fenced. Raises :class:`~semel.errors.Retriable` while a transaction of the flow stays open.
        """
        progress = committed_progress(self._target, self._id, scope=SCOPE)
        if progress is None:
            return False
        self.update(Positions.of(progress, self._id), segments_end(progress, self._topic))
        return True

    def update(self, positions: Positions, end: int) -> None:
        """Take positions that are known to be committed, and the runs up to ``end`` of the segments topic."""
        if positions.ids != self.positions.ids or positions.targets != self.positions.targets:
            self._topic = SegmentTopic(self._target, self._id)  # other topics' runs may count now: from the beginning
        self.positions = positions
        self._segments = self._topic.read(positions, end)

    def forward(
        self,
        offsets: Mapping[TopicPartition, int],
        checkpoints: Mapping[TopicPartition, Checkpoint] = MappingProxyType({}),
    ) -> dict[TopicPartition, Translated]:
        """Next offsets to read on the source, as such of the target. Partitions that are not mirrored are left out, and
        those whose target topic is gone.

        ``checkpoints`` of the same group, by target partition, count where the runs are not known.
        """
        there = self._target.existing({self.positions.targets[p[0]][0] for p in offsets if p in self.positions.at})
        known = {
            p: at for p, at in offsets.items() if p in self.positions.at and self.positions.targets[p[0]][0] in there
        }
        targets = {p: (self.positions.targets[p[0]][0], p[1]) for p in known}
        earliest = _earliest(self._target, targets.values())
        reached = {
            to: checkpoints[to].offset
            for p, to in targets.items()
            if to in checkpoints and checkpoints[to].upstream_offset <= known[p]
            if earliest.get(to, 0) < checkpoints[to].offset
        }
        found = {p: self._segments.forward(self.positions, p, at, {**earliest, **reached}) for p, at in known.items()}
        return {
            p: replace(one, note=CHECKPOINT) if one.note == EARLIER and targets[p] in reached else one
            for p, one in found.items()
            if one is not None
        }

    def backward(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Translated]:
        """Next offsets to read on the target, as such of the source. Partitions that were not copied are left out."""
        sources = {target: name for name, (target, _) in self.positions.targets.items()}
        known = {p: at for p, at in offsets.items() if (sources.get(p[0], ""), p[1]) in self.positions.at}
        earliest = _earliest(self._source, [(sources[p[0]], p[1]) for p in known])
        found = {p: self._segments.backward(self.positions, p, at, earliest) for p, at in known.items()}
        return {p: one for p, one in found.items() if one is not None}


def _earliest(client: Client, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    wanted = dict.fromkeys(partitions, EARLIEST)
    try:
        return {p: row.offset for p, row in list_offsets(client, wanted, read_committed=True).items()} if wanted else {}
    except ConfigError as error:
        raise ConfigError(
            f"{error.message} So no offset was translated. Run `semel mirror status` to see what stands.", tag=error.tag
        ) from None
