"""Rows that were read and not handed out yet, and which of them are next.

The partitions of one task are handed out by time, as in Kafka Streams: the next row is the one with the lowest
timestamp among the first rows of all partitions. A partition without rows is waited for as ``max.task.idle.ms`` says
(KIP-695).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from semel.read.cursor import Taken
from semel.read.reader import MAX_ROWS
from semel.wire.metadata import TopicPartition

__all__ = ["Input", "RowOrder", "TaskInputs", "each_for_itself"]


def each_for_itself(partition: TopicPartition) -> tuple[Hashable, int]:
    """Return a task of this partition alone."""
    return partition, 0


def as_they_are(_: TopicPartition) -> Callable[[Any], Any]:
    """Return what leaves the rows of a partition as they are."""
    return lambda rows: rows


def always(_: Hashable) -> bool:
    """Return that a task is ready."""
    return True


@dataclass(frozen=True)
class RowOrder:
    """How rows are handed out.

    ``max_rows`` is asked before each batch how many rows of a partition it may have. ``task`` returns the task of a
    partition, and its place there: of equal timestamps the lowest place is first. ``max_idle_ms`` is for a partition
    that is read to its end: -1 never waits, not for known rows either. ``reading`` returns what the rows of a partition
    go through when they are read; the position passes over rows that it leaves out. Of a task that is not ready nothing
    is read or handed out: it restores its state.
    """

    max_rows: Callable[[TopicPartition], int]
    task: Callable[[TopicPartition], tuple[Hashable, int]] = each_for_itself
    max_idle_ms: int = 0
    reading: Callable[[TopicPartition], Callable[[Any], Any]] = as_they_are
    is_ready: Callable[[Hashable], bool] = always


class Input:
    """The rows of one partition. A position counts when its rows are handed out."""

    def __init__(
        self,
        partition: TopicPartition,
        positions: MutableMapping[TopicPartition, int],
        *,
        headers: bool,
        read: Callable[[Any], Any] = lambda rows: rows,
    ) -> None:
        self.partition = partition
        self._read = read
        self._positions, self._headers = positions, headers
        self._answers: deque[Taken] = deque()
        self._batches: Iterator[tuple[Any, int]] = iter(())
        #: Whether the first answer is the one that is decoded.
        self._begun = False
        self._rows: Any = None
        self._first = self._end = 0
        #: When a wait for new rows ends, by the clock.
        self.deadline: float | None = None

    def add(self, taken: Taken) -> None:
        """Take the rows of an answer."""
        self._answers.append(taken)

    @property
    def waiting(self) -> bool:
        """Whether an answer is not handed out whole."""
        return bool(self._answers)

    def fill(self) -> bool:
        """Return whether there is a row. Moves the position over answers that have none left."""
        while self._rows is None or self._first == self._rows.num_rows:
            batch = next(self._batches, None)
            if batch is not None:
                self._rows, self._end, self._first = self._read(batch[0]), batch[1], 0
                continue
            self._rows = None
            if self._answers and self._begun:
                self._positions[self.partition] = self._answers.popleft().end
                self._begun = False
            if not self._answers:
                return False
            self._batches = self._answers[0].decode(headers=self._headers, max_rows=MAX_ROWS)
            self._begun = True
        self.deadline = None
        return True

    def first(self, most: int) -> Any:
        """Return the next rows, without handing them out."""
        return self._rows.slice(self._first, most)

    def hand_out(self, count: int) -> Any:
        """Return the next ``count`` rows of one batch, and move the position after them. A commit then is exact."""
        rows = self.first(count)
        self._first += rows.num_rows
        if rows.num_rows:
            whole = self._first == self._rows.num_rows
            self._positions[self.partition] = self._end if whole else rows["offset"][rows.num_rows - 1].as_py() + 1
        return rows


class TaskInputs:
    """The inputs of one task, in the order in which equal timestamps are taken."""

    def __init__(self, name: Hashable, inputs: Sequence[Input], order: RowOrder) -> None:
        self._name, self._inputs, self._order = name, inputs, order
        self.partitions = [one.partition for one in inputs]

    @property
    def ready(self) -> bool:
        """True if its rows may be read and handed out."""
        return self._order.is_ready(self._name)

    def next(self, left: Callable[[TopicPartition], int | None]) -> Any:
        """Return the next rows, or None if there are none, or an input has to be waited for. ``left`` returns how many
        offsets of a partition the broker is known to have beyond what was read, or None if that is not known.
        """
        filled = [one for one in self._inputs if one.fill()]
        if not filled or not self._is_ready([one for one in self._inputs if one not in filled], left):
            return None
        most = min(self._order.max_rows(one.partition) for one in filled)
        return filled[0].hand_out(most) if len(filled) == 1 else _by_time(filled, most)

    def _is_ready(self, empty: Sequence[Input], left: Callable[[TopicPartition], int | None]) -> bool:
        """Return whether no input has to be waited for: the ones with known rows, and others until their deadline."""
        if self._order.max_idle_ms < 0:
            return True
        now, ready = time.monotonic(), True
        for one in empty:
            if left(one.partition) != 0:
                one.deadline = None
                return False
            if one.deadline is None:
                one.deadline = now + self._order.max_idle_ms / 1000
            ready &= one.deadline <= now
        return ready


def _by_time(inputs: Sequence[Input], most: int) -> Any:
    """Hand out the rows of several inputs by time, until one of them may have no more.

    Always taking the lowest of the first rows is sorting by the highest time so far of each input.
    """
    keys = []
    for one in inputs:
        times = one.first(most)["timestamp"].cast(pa.int64()).to_numpy(zero_copy_only=False)
        keys.append(np.maximum.accumulate(times))
    of_input = np.repeat(np.arange(len(inputs)), [len(key) for key in keys])
    order = np.lexsort((of_input, np.concatenate(keys)))
    last = np.cumsum([len(key) for key in keys]) - 1
    decided = int(np.flatnonzero(np.isin(order, last))[0]) + 1
    order = order[: min(decided, most)]
    counts = np.bincount(of_input[order], minlength=len(inputs))
    # rows of an input keep their order, so that what was taken are its first rows
    firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    places = order - np.concatenate([[0], last[:-1] + 1])[of_input[order]] + firsts[of_input[order]]
    rows = [one.hand_out(int(count)) for one, count in zip(inputs, counts, strict=True)]
    return pa.concat_batches(rows).take(pa.array(places))
