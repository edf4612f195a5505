"""The offset of each source record on the target, as runs in which both offsets rise together.

A round adds its runs. Between two of them are offsets without a record: markers, aborted rows, and what compaction has
removed. So the next record that a reader at a source offset sees is found exactly, and the other way too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semel.errors import DataLoss
from semel.mirror.copy import Piece
from semel.mirror.positions import Positions
from semel.records.varint import Ints
from semel.strict_json import is_version, of_kind, read_object, write_object
from semel.wire.metadata import TopicPartition

__all__ = ["Form", "Runs", "Segments", "Translated", "read_form", "write_forms"]

VERSION = 1
#: So many rounds of a partition are joined in one: 24 bytes a run, and not hundreds a round.
_ROUNDS = 1000
#: Runs in one record: below a megabyte, which every broker takes.
_RUNS_PER_RECORD = 20_000


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of one partition, in order: the first offset of each on both sides, and how many records it has."""

    source: Ints
    target: Ints
    count: Ints

    @classmethod
    def none(cls) -> Runs:
        """No run."""
        return cls(*(np.zeros(0, np.int64) for _ in range(3)))

    @classmethod
    def of_pieces(cls, pieces: Sequence[Piece], firsts: Sequence[int]) -> Runs:
        """Return the runs of what was written. ``firsts`` has the target offset of the first record of each piece."""
        found = [_of_piece(piece, first) for piece, first in zip(pieces, firsts, strict=True)]
        return cls(*(np.concatenate(column) for column in zip(*found, strict=True))).joined() if found else cls.none()

    def joined(self) -> Runs:
        """Join runs that follow each other on both sides."""
        if not len(self.count):
            return self
        gap = (np.diff(self.source) != self.count[:-1]) | (np.diff(self.target) != self.count[:-1])
        firsts = np.concatenate(([0], np.flatnonzero(gap) + 1))
        return Runs(self.source[firsts], self.target[firsts], np.add.reduceat(self.count, firsts))

    def packed(self) -> list[int]:
        """Return three numbers a run: its distance from the previous run on each side, and its records."""
        ends = [np.concatenate(([0], (begin + self.count)[:-1])) for begin in (self.source, self.target)]
        columns = (self.source - ends[0], self.target - ends[1], self.count)
        return [int(number) for number in np.stack(columns, axis=1).ravel()] if len(self.count) else []

    @classmethod
    def unpacked(cls, numbers: Sequence[int]) -> Runs:
        """From :meth:`packed`. Raises ``ValueError`` or ``TypeError`` for what is none."""
        if any(type(number) is not int for number in numbers):
            raise TypeError("an offset is no whole number")
        rows = np.array(numbers, np.int64).reshape(-1, 3)
        counts = np.cumsum(rows[:, 2]) - rows[:, 2]
        source, target = np.cumsum(rows[:, 0]) + counts, np.cumsum(rows[:, 1]) + counts
        if (rows < 0).any() or (rows[:, 2] < 1).any():
            raise ValueError("a run is empty, or goes back")
        return cls(source, target, rows[:, 2])

    def sliced(self, first: int, last: int) -> Runs:
        """Return a part of the runs."""
        return Runs(self.source[first:last], self.target[first:last], self.count[first:last])

    def before(self, source: int) -> Runs:
        """Return the records below an offset of the source."""
        count = np.clip(source - self.source, 0, self.count)
        kept = count > 0
        return Runs(self.source[kept], self.target[kept], count[kept])

    def reaches(self, later: Runs) -> bool:
        """Return whether a record of these is at or after the first one of ``later``, on either side."""
        return len(self.count) > 0 and bool(
            self.source[-1] + self.count[-1] > later.source[0] or self.target[-1] + self.count[-1] > later.target[0]
        )

    def inverse(self) -> Runs:
        """From the target to the source."""
        return Runs(self.target, self.source, self.count)

    def next_record(self, offset: int) -> int | None:
        """Return the offset on the other side of the first record at or after ``offset``, or None after all of them."""
        index = int(np.searchsorted(self.source, offset, side="right")) - 1
        if index >= 0 and offset < self.source[index] + self.count[index]:
            return int(self.target[index] + offset - self.source[index])
        return int(self.target[index + 1]) if index + 1 < len(self.source) else None


def _of_piece(piece: Piece, first: int) -> tuple[Ints, Ints, Ints]:
    if piece.offsets is None:
        begins, counts, sources = np.zeros(1, np.int64), np.array([piece.count]), np.array([piece.first])
    else:
        begins = np.concatenate(([0], np.flatnonzero(np.diff(piece.offsets) != 1) + 1))
        counts = np.diff(np.concatenate((begins, [piece.count])))
        sources = piece.offsets[begins]
    return sources.astype(np.int64), begins + first, counts.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Translated:
    """A position on the other cluster. ``note`` says where a reader does not see the very same next record."""

    topic: str
    partition: int
    offset: int
    note: str = ""


EARLIER = "older than what is known: the earliest offset, so records come again"
CHECKPOINT = "older than what is known: as the checkpoint of the group, so records may come again"
AHEAD = "ahead of the mirror: the end of what is copied, so records come again"


@dataclass(slots=True)
class Segments:
    """All runs that are known of a flow, by source partition."""

    runs: dict[TopicPartition, list[Runs]] = field(default_factory=dict)

    def add(self, found: Mapping[TopicPartition, Runs], adopted: Collection[TopicPartition] = ()) -> None:
        """Add the runs of a later round. Where a flow was adopted at an earlier offset, they replace those from there
        on.

        Of partitions that were ``adopted`` with them, another program may have copied records in between: earlier runs
        are dropped unless they reach these. Else those records would be taken for missing ones, and skipped.
        """
        for partition in adopted:
            runs = found[partition]
            before = self.of(partition)
            known = len(before.count) and len(runs.count) and before.source[-1] + before.count[-1] >= runs.source[0]
            if not known:
                self.runs[partition] = []
        for partition, runs in found.items():
            parts = self.runs.setdefault(partition, [])
            if parts and len(runs.count) and parts[-1].reaches(runs):
                kept = self.of(partition).before(int(runs.source[0]))
                parts = self.runs[partition] = [kept.inverse().before(int(runs.target[0])).inverse()]
            parts.append(runs)
            if len(parts) > _ROUNDS:
                self.of(partition)

    def of(self, partition: TopicPartition) -> Runs:
        """Return the runs of a partition as one."""
        parts = self.runs.get(partition, [])
        if len(parts) != 1:
            columns = ([getattr(part, name) for part in parts] for name in ("source", "target", "count"))
            whole = Runs(*(np.concatenate(column) for column in columns)) if parts else Runs.none()
            self.runs[partition] = parts = [whole]
        return parts[0]

    def forward(
        self, positions: Positions, partition: TopicPartition, offset: int, earliest: Mapping[TopicPartition, int]
    ) -> Translated | None:
        """Return where a group of a source partition resumes on the target. None where it is not mirrored.

        ``earliest`` has the first offset of each target partition.
        """
        at = positions.at.get(partition)
        if at is None or at.target < 0:
            return None
        target = (positions.targets[partition[0]][0], partition[1])
        if offset >= at.offset:
            return Translated(*target, at.target, AHEAD if offset > at.offset else "")
        return _translated(self.of(partition), target, offset, at.target, earliest.get(target, 0))

    def backward(
        self, positions: Positions, target: TopicPartition, offset: int, earliest: Mapping[TopicPartition, int]
    ) -> Translated | None:
        """Return where a group of a target partition resumes on the source.

        None where nothing was copied there. ``earliest`` has the first offset of each source partition.
        """
        source = next(((name, target[1]) for name, (to, _) in positions.targets.items() if to == target[0]), None)
        at = positions.at.get(source) if source is not None else None
        if source is None or at is None or at.target < 0:
            return None
        if offset >= at.target:  # also after the marker that the end of the last round has left
            return Translated(*source, at.offset)
        return _translated(self.of(source).inverse(), source, offset, at.offset, earliest.get(source, 0))


def _translated(runs: Runs, there: TopicPartition, offset: int, end: int, earliest: int) -> Translated:
    if not len(runs.source) or offset < runs.source[0]:
        first = int(runs.target[0]) if len(runs.target) else end
        # where nothing before the first run is there any more, its first record is the next one in any case
        return Translated(*there, first) if earliest >= first else Translated(*there, earliest, EARLIER)
    found = runs.next_record(offset)
    return Translated(*there, end if found is None else found)


# ---- the form in which a round's runs are kept


@dataclass(frozen=True, slots=True)
class Form:
    """The runs of one record, and the partitions that were adopted with it."""

    runs: Mapping[TopicPartition, Runs]
    adopted: frozenset[TopicPartition] = frozenset()


def write_forms(positions: Positions, found: Mapping[TopicPartition, Runs], *, adopted: bool = False) -> list[bytes]:
    """Return the records of a round with these ``positions``: as few as their size allows. With ``adopted`` it is the
    adoption of all these partitions.
    """
    texts: list[bytes] = []
    topics: dict[str, dict[str, Any]] = {}
    size = 0
    for partition, part, is_first in _portions(found, empty=adopted):
        if size + len(part.count) > _RUNS_PER_RECORD:
            texts.append(write_object({"v": VERSION, "round": positions.round, "topics": topics}))
            topics, size = {}, 0
        name, index = partition
        entry = topics.setdefault(
            name, {"id": positions.ids[name], "target": list(positions.targets[name]), "runs": {}}
        )
        entry["runs"][str(index)] = part.packed()
        if adopted and is_first:
            entry.setdefault("adopted", []).append(index)
        size += len(part.count)
    if topics:
        texts.append(write_object({"v": VERSION, "round": positions.round, "topics": topics}))
    return texts


def _portions(found: Mapping[TopicPartition, Runs], *, empty: bool) -> Iterable[tuple[TopicPartition, Runs, bool]]:
    """Yield the runs of each partition in portions, and whether each is the first one."""
    for partition, runs in sorted(found.items(), key=lambda row: row[0]):
        for first in range(0, max(len(runs.count), int(empty)), _RUNS_PER_RECORD):
            yield partition, runs.sliced(first, first + _RUNS_PER_RECORD), not first


def read_form(text: bytes, positions: Positions, where: str) -> Form:
    """Return the content of one record, for topics that are unchanged on both sides.

    Raises :class:`DataLoss` for what is damaged; ``where`` is for the message.
    """
    try:
        value = read_object(text)
        if not is_version(value["v"], VERSION):
            raise ValueError(f"its form is version {value['v']!r:.100}, and this semel knows {VERSION}")
        same = {
            topic: entry
            for topic, entry in of_kind(dict, value["topics"]).items()
            if entry["id"] == positions.ids.get(topic) and tuple(entry["target"]) == positions.targets.get(topic)
        }
        runs = {
            (topic, int(index)): Runs.unpacked(of_kind(list, numbers))
            for topic, entry in same.items()
            for index, numbers in of_kind(dict, entry["runs"]).items()
        }
        adopted = frozenset(
            (topic, of_kind(int, at)) for topic, entry in same.items() for at in entry.get("adopted", ())
        )
        if not adopted <= runs.keys():
            raise ValueError("it adopts a partition without runs")
        return Form(runs, adopted)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DataLoss(
            f"a segment of {where} is damaged ({error!r:.200}). No offset was translated. Find out which other program"
            " writes to that topic.",
            tag="SEGMENTS_DAMAGED",
        ) from None
