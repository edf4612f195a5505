"""The bounds of each record of a batch.

A record begins with its own length, so the position of each is known only from the one before. Many such chains are
followed at once. Each batch is a chain, and batches of many records are cut into several. A cut is a guess: a position
that looks like the beginning of a record, and from which several records follow one another.

All chains take a step at a time together, and each must arrive exactly where the next one began. That makes the guesses
safe: the first chain begins at a true record, so if it arrives where the second one began, that was true too, and so
on. If a chain does not arrive, the guess that it should meet is dropped. The records are walked one by one if that does
not help (values that hold record batches themselves, damage), or if there are too few chains. The walk is always right
and names the damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from semel.records.codecs import Damaged
from semel.records.header import SMALLEST_RECORD
from semel.records.varint import Ints, read, read_one

__all__ = ["WINDOW", "record_bounds"]

#: Bytes searched at once. Allocations are bounded by it, not by the numbers in a batch.
WINDOW = 4 * 1024 * 1024
#: With fewer chains, following them takes longer than the walk.
_FEWEST = 100
#: With fewer chains left, a step of all of them in numpy takes longer than the walk.
_TOGETHER = 32
#: Records that must follow a position before it counts as the beginning of a record.
_PROOF = 3
#: Rounds in which wrong guesses are dropped before the records are walked.
_TRIES = 4
_LONGEST = 5


def record_bounds(
    area: NDArray[np.uint8], begins: Ints, ends: Ints, count: int, *, window: int = WINDOW, fewest: int = _FEWEST
) -> Iterator[tuple[Ints, Ints]]:
    """Yield, for stretches of ``area``, the position of each record's attributes byte and the position after the
    record.

    ``begins`` and ``ends`` bound the records of each batch, in order, none empty. The last one ends the area. ``count``
    is the number of records by the headers, and only guides the search. Raise :class:`Damaged` if records do not fill
    their batch.
    """
    average = max(SMALLEST_RECORD, int((ends - begins).sum()) // max(count, 1))
    position = int(begins[0])
    while True:
        stop = min(position + window, int(ends[-1]))
        guesses = _guesses(area, position, stop, begins, ends, average)
        bounds = _followed(area, guesses, position, stop, begins, ends, fewest) or _walk(
            area, position, stop, begins, ends
        )
        yield bounds
        position = int(bounds[1][-1])
        batch = int(np.searchsorted(ends, position))
        if ends[batch] == position:
            if batch + 1 == len(ends):
                return
            position = int(begins[batch + 1])


def _followed(
    area: NDArray[np.uint8], guesses: Ints, start: int, stop: int, begins: Ints, ends: Ints, fewest: int
) -> tuple[Ints, Ints] | None:
    """Return all records from ``start`` on, by chains. None if there are too few chains, or too many guesses are
    wrong.
    """
    for _ in range(_TRIES):
        starts, targets = _chains(guesses, start, stop, begins, ends)
        if len(starts) < fewest:
            return None
        missed, bounds = _follow(area, starts, targets, min(fewest, _TOGETHER))
        if bounds is not None:
            return bounds
        kept = guesses[~np.isin(guesses, missed)]
        if len(kept) == len(guesses):
            return None  # a batch is damaged
        guesses = kept
    return None


def _chains(guesses: Ints, start: int, stop: int, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return where chains begin from ``start`` to before ``stop``, and where each must arrive.

    The last chain is left out if it may go beyond ``stop``.
    """
    inner = begins[(begins > start) & (begins < stop)]
    starts = np.sort(np.concatenate([[start], inner, guesses]))
    starts = starts[np.diff(starts, prepend=-1) > 0]
    own = ends[np.searchsorted(ends, starts, side="right")]
    targets = np.minimum(np.append(starts[1:], own[-1]), own)
    return (starts, targets) if own[-1] <= stop else (starts[:-1], targets[:-1])


def _chain(size: int, average: int) -> int:
    """Return the number of records that a chain should have. Fewer mean more guesses, more mean more steps. The least
    sum grows with the root (measured).
    """
    return max(16, isqrt(size // average) // 4)


def _guesses(area: NDArray[np.uint8], start: int, stop: int, begins: Ints, ends: Ints, average: int) -> Ints:
    """Return likely beginnings of records, one for each chain's length of bytes."""
    zone = 2 * average + _LONGEST
    anchors = np.arange(start, min(stop, len(area) - zone), _chain(stop - start, average) * average)[1:]
    if not len(anchors):
        return anchors
    looks = np.lib.stride_tricks.sliding_window_view(area, zone)[anchors]
    first, second, third = looks[:, :-2], looks[:, 1:-1], looks[:, 2:]
    # A length of one byte or two, then the attributes, which are 0. Longer records are few to the megabyte.
    single = (first & 0x81 == 0) & (first >= 2 * (SMALLEST_RECORD - 1)) & (second == 0)
    double = (first & 0x81 == 0x80) & (second - np.uint8(1) < 0x7F) & (third == 0)
    lane, column = np.divmod(np.flatnonzero(single | double), zone - 2)
    at = anchors[lane] + column
    batch = np.searchsorted(ends, at, side="right")
    end = ends[batch]
    alive = at >= begins[batch]
    for _ in range(_PROOF):
        lane, at, end = lane[alive], at[alive], end[alive]
        length, body = read(area, at, _LONGEST)
        at = body + length
        alive = (length >= SMALLEST_RECORD - 1) & (at < end) & (area.take(body, mode="clip") == 0)
    lane, at = lane[alive], at[alive]
    guesses: Ints = at[np.diff(lane, prepend=-1) > 0]  # one of each zone
    return guesses[guesses < stop]


def _follow(area: NDArray[np.uint8], starts: Ints, targets: Ints, fewest: int) -> tuple[Ints, tuple[Ints, Ints] | None]:
    """Return the targets that some chains have missed: the chains after them begin at wrong guesses. If none has
    missed, return all records of the chains.
    """
    attributes: list[Ints] = []
    after: list[Ints] = []
    missed: list[Ints] = []
    at = starts
    while len(at) >= fewest:
        length, body = read(area, at, _LONGEST)
        at = body + length
        wrong = (length < SMALLEST_RECORD - 1) | (at > targets)
        if wrong.any():
            missed.append(targets[wrong])
            at, targets, body = at[~wrong], targets[~wrong], body[~wrong]
        attributes.append(body)
        after.append(at)
        going = at < targets
        if not going.all():
            at, targets = at[going], targets[going]
    for position, target in zip(at.tolist(), targets.tolist(), strict=True):
        try:
            rest = _walk(area, position, target, np.array([position]), np.array([target]))
        except Damaged:
            missed.append(np.array([target]))
            continue
        attributes.append(rest[0])
        after.append(rest[1])
    if missed:
        return np.concatenate(missed), None
    # Both rise from record to record, so each can be sorted by itself.
    return starts[:0], (np.sort(np.concatenate(attributes)), np.sort(np.concatenate(after)))


def _walk(area: NDArray[np.uint8], start: int, stop: int, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return the same as :func:`_follow`, record by record."""
    data = area.data
    attributes: list[int] = []
    after: list[int] = []
    batch = int(np.searchsorted(ends, start, side="right"))
    position, end = start, int(ends[batch])
    while position < stop:
        try:
            length, body = read_one(data, position, end)
        except ValueError:
            raise Damaged(
                f"the length of the record at byte {position - int(begins[batch])} of its records is cut off"
            ) from None
        if length < SMALLEST_RECORD - 1 or body + length > end:
            raise Damaged(
                f"the record at byte {position - int(begins[batch])} of its records says that it is {length} bytes long"
            )
        position = body + length
        attributes.append(body)
        after.append(position)
        if position == end:
            if batch + 1 == len(ends):
                break
            batch += 1
            position, end = int(begins[batch]), int(ends[batch])
    return np.array(attributes, np.int64), np.array(after, np.int64)
