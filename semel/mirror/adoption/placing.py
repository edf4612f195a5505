"""The place of a target's last records in its source: the records of both sides are compared by fingerprints.

A target log is a chain of pieces of the source: each continues the one before, or begins earlier, where a copier that
runs at least once has started again. So each record from a copied offset up to the highest one that is on the target
has been copied. What does not fit this is unsure, and is never guessed.

No requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semel.mirror.offsets.segments import Runs
from semel.records.varint import Ints

__all__ = ["Place", "Unsure", "Window", "place", "place_by_rows"]

_NOT_LAST = "the last record of the target is not the last one that was copied"
_NO_MATCH = "the last records of the target were not found in the source"
#: So many records in a row must be the same on both sides, where nothing but the records says where to look.
_ENOUGH = 16
_AMBIGUOUS = "several places of the source have the same records as the end of the target"


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive records of a log: their offsets, and a fingerprint of each.

    ``from_start`` and ``to_end`` say whether the window begins and ends with the log. ``transactional`` is that of the
    last batch, ``last_ms`` the timestamp of the last record.
    """

    offsets: Ints
    prints: Ints
    from_start: bool
    to_end: bool
    transactional: bool = False
    last_ms: int = -1

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class Place:
    """The next source offset to copy, how many records the target has beyond what was expected, and the target offsets
    of the last records. With ``more`` longer windows may show more of these.
    """

    position: int
    beyond: int
    runs: Runs
    more: bool = False


@dataclass(frozen=True, slots=True)
class Unsure:
    """The reason why the place is not known. With ``more`` longer windows may show it."""

    reason: str
    more: bool


def place(source: Window, target: Window, copied: int | None, *, trusted: bool = False) -> Place | Unsure:
    """Return where the target ends in the source. ``copied`` is the highest source offset that is known to be copied;
    None if none is. It is ``trusted`` if it was committed with its record. The target has a record at least.
    """
    if copied is None:
        return _from_the_start(source, target)
    at = int(np.searchsorted(source.offsets, copied, side="right")) - 1
    if trusted:
        return _trusted(source, target, copied, at)
    if at < 0:
        return _without_the_copied_one(source, target, copied)
    if len(np.unique(source.prints)) == len(source):
        return _by_highest(source, target, copied, at)
    return _by_end(source, target, copied, at)


def place_by_rows(source: Window, target: Window) -> Place | Unsure:
    """Return where the target ends in the source by the records alone. The source's window is where they should be."""
    places = np.flatnonzero(source.prints == target.prints[-1])
    if not len(places):
        return _from_the_start(source, target)
    if len(places) > 1:
        return Unsure(_AMBIGUOUS, more=False)
    at = int(places[0])
    found = _placed(int(source.offsets[at]) + 1, 0, source, at, target, len(target) - 1)
    if int(found.runs.count.sum()) < min(_ENOUGH, len(target), at + 1):
        return Unsure(_NO_MATCH, more=not (source.from_start and target.from_start))
    if at + 1 < len(source) and np.isin(source.prints[at + 1], target.prints):
        return Unsure(_NOT_LAST, more=False)
    return found


def _trusted(source: Window, target: Window, copied: int, at: int) -> Place | Unsure:
    """Check an offset that was committed with its record: nothing is beyond it."""
    if at < 0:
        return Place(copied + 1, 0, Runs.none()) if source.from_start else Unsure(_NO_MATCH, more=True)
    if source.prints[at] != target.prints[-1]:
        # a compacted source may have lost that one record
        gone = int(source.offsets[at]) != copied and not np.isin(target.prints[-1], source.prints)
        return Place(copied + 1, 0, Runs.none()) if gone else Unsure(_NOT_LAST, more=False)
    return _placed(copied + 1, 0, source, at, target, len(target) - 1)


def _without_the_copied_one(source: Window, target: Window, copied: int) -> Place | Unsure:
    """Decide where the source has deleted the record that is known to be copied, and all before it."""
    if not source.from_start:
        return Unsure(_NO_MATCH, more=True)
    if not len(source) or not np.isin(target.prints[-1], source.prints):
        # the last record is none of the later ones, so nothing later is there
        return Place(copied + 1, 0, Runs.none())
    ends = [i for i in range(len(target) - 1) if _continues(source, 0, target, i + 1)]
    return _only(source, target, -1, ends)


def _by_highest(source: Window, target: Window, copied: int, at: int) -> Place | Unsure:
    """Decide where no two records are alike: the highest one that is on the target was copied last."""
    order = np.argsort(source.prints[at:], kind="stable")
    ranked = source.prints[at:][order]
    slots = np.minimum(np.searchsorted(ranked, target.prints), len(ranked) - 1)
    known = ranked[slots] == target.prints
    indexes = np.where(known, order[slots] + at, -1)
    starts = np.flatnonzero(indexes == at)
    if not len(starts):
        return Unsure(_NO_MATCH, more=not target.from_start or not source.to_end)
    after = indexes[starts[0] :]
    others = target.prints[starts[0] :][after < 0]
    if len(others) and not np.isin(others, source.prints[:at]).all():
        return Unsure(_NO_MATCH, more=not source.to_end or not source.from_start)
    reached = np.unique(after[after >= 0])
    highest = int(reached[-1])
    if len(reached) != highest - at + 1:
        return Unsure(_NO_MATCH, more=False)
    last = int(np.flatnonzero(indexes == highest)[-1])
    position = int(source.offsets[highest]) + 1 if highest > at else copied + 1
    return _placed(position, highest - at, source, highest, target, last)


def _by_end(source: Window, target: Window, copied: int, at: int) -> Place | Unsure:
    """Decide where some records are alike: one place of the copied one, with the same records after it, is sure."""
    starts = np.flatnonzero(target.prints == source.prints[at])
    ends = [int(i) for i in starts if _continues(source, at + 1, target, int(i) + 1)]
    if not ends:
        return Unsure(_NO_MATCH, more=not target.from_start or not source.to_end)
    return _only(source, target, at, ends)


def _only(source: Window, target: Window, at: int, ends: list[int]) -> Place | Unsure:
    """Return the place if it is the only one. ``ends`` are the places of the record ``at`` in the target."""
    if len(ends) != 1:
        return Unsure(_AMBIGUOUS, more=not target.from_start)
    beyond = len(target) - 1 - ends[0]
    last = at + beyond
    return _placed(int(source.offsets[last]) + 1, beyond, source, last, target, len(target) - 1)


def _from_the_start(source: Window, target: Window) -> Place | Unsure:
    """Decide where nothing is known: only a target that is the beginning of the source is sure."""
    if not (source.from_start and target.from_start):
        return Unsure(_NO_MATCH, more=True)
    if not _continues(source, 0, target, 0):
        return Unsure(_NO_MATCH, more=not source.to_end)
    last = len(target) - 1
    return _placed(int(source.offsets[last]) + 1, len(target), source, last, target, last)


def _continues(source: Window, at: int, target: Window, start: int) -> bool:
    """Return whether all of the target from ``start`` on is the source from ``at`` on."""
    rest = target.prints[start:]
    return bool(np.array_equal(source.prints[at : at + len(rest)], rest))


def _placed(position: int, beyond: int, source: Window, at: int, target: Window, last: int) -> Place:
    """Return the place after these two records, with the runs of the records that are alike, back to the first
    difference.
    """
    count = min(at, last) + 1
    here, there = slice(at + 1 - count, at + 1), slice(last + 1 - count, last + 1)
    other = np.flatnonzero(source.prints[here] != target.prints[there])
    skipped = int(other[-1]) + 1 if len(other) else 0
    begins, ends = source.offsets[here][skipped:], target.offsets[there][skipped:]
    runs = Runs(begins, ends, np.ones(len(begins), np.int64)).joined()
    return Place(position, beyond, runs, more=not skipped and not (source.from_start or target.from_start))
