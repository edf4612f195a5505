"""The position of one partition on its way through its range. No requests.

A position moves over everything in an answer, rows or not. Markers, aborted rows and the holes after compaction take
offsets too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from semel.errors import Retriable
from semel.read.columns import Columns
from semel.read.isolation import visible
from semel.read.ranges import Range, parse_id
from semel.records.control import is_abort
from semel.records.decode import portions
from semel.records.header import BatchHeader, scan
from semel.records.timestamps import TimestampOverflow
from semel.wire.api.fetch_frames import Fetched, Position
from semel.wire.error_codes import given_up

__all__ = ["PartitionCursor", "Taken"]


@dataclass(slots=True)
class PartitionCursor:
    """The state of reading one range.

    ``epoch`` is the leader epoch of the last batch that was taken. ``node`` is the broker of the request that has no
    answer yet. ``waited`` counts the seconds without a move, only while waiting for brokers. ``overtaken`` is True if
    the last answer had rows that were written after the range was planned, in place of earlier rows. ``log_end`` is
    where the log ended for a reader of its isolation, by the last answer.
    """

    range: Range
    position: int
    columns: Columns
    epoch: int = -1
    node: int | None = None
    waited: float = 0.0
    checked: bool = False
    overtaken: bool = False
    log_end: int | None = None
    _asked: tuple[str, Position] | None = None

    @property
    def lag(self) -> int | None:
        """How many offsets are between the position and ``log_end``."""
        return None if self.log_end is None else max(self.log_end - self.position, 0)

    @property
    def done(self) -> bool:
        """True if nothing of the range is left."""
        return self.position >= self.range.end

    @property
    def left(self) -> Range:
        """The part of the range that was not read yet."""
        return replace(self.range, start=self.position)

    def at(self, leader_epoch: int) -> Position:
        """Return the position to fetch from, for the leader of this epoch."""
        numbers = (self.position, leader_epoch, self.epoch)
        if self._asked is not None:  # the same object: thousands that stay are compared quickly
            id, asked = self._asked
            if id == self.range.topic_id and (asked.offset, asked.leader_epoch, asked.last_epoch) == numbers:
                return asked
        self._asked = self.range.topic_id, Position(parse_id(self.range.topic_id), *numbers)
        return self._asked[1]

    def moved(self, position: int) -> None:
        """Continue from ``position``."""
        self.position = position
        self.waited, self.checked = 0.0, False

    def take(self, fetched: Fetched, *, read_committed: bool) -> Taken | None:
        """Move after the whole batches of an answer, and return their rows.

        Return None if the answer has no batch, or is ``overtaken``. The position has not moved then.
        """
        self.log_end = fetched.last_stable_offset if read_committed else fetched.high_watermark
        batches = scan(fetched.records, where=self.range.name)
        self.overtaken = self._is_overtaken(batches)
        if self.overtaken or not batches or batches[-1].next_offset <= self.position:
            return None
        rows = visible(
            batches,
            fetched.aborted,
            partial(is_abort, fetched.records, where=self.range.name),
            read_committed=read_committed,
        )
        start = self.position
        self.epoch = batches[-1].leader_epoch
        self.moved(min(batches[-1].next_offset, self.range.end))
        return Taken(self, fetched.records, rows, start, self.position)

    def _is_overtaken(self, batches: list[BatchHeader]) -> bool:
        """Return True if an epoch later than the plan's wrote below the range's end. Epochs only rise along a log, so
        the last batch decides.
        """
        if self.range.epoch < 0 or not self.range.bounded:
            return False
        last = next((batch for batch in reversed(batches) if batch.base_offset < self.range.end), None)
        return last is not None and last.leader_epoch > self.range.epoch

    def stalled(
        self, last_stable_offset: int, high_watermark: int, *, read_committed: bool, timeout: float
    ) -> Retriable:
        """Return the error for a range whose position no answer has moved for ``timeout`` seconds."""
        start = f"{self.range.name} could not be read to offset {self.range.end} within {timeout * 1000:.0f} ms: "
        if read_committed and last_stable_offset < self.range.end <= high_watermark:
            return Retriable(
                f"{start}a transaction that is still open holds the last stable offset at {last_stable_offset}."
                " Nothing is lost: rows up to there were read. The rest can be read once its producer ends it, or the"
                " broker does (transaction.timeout.ms of that producer).",
                tag="OPEN_TRANSACTION",
            )
        return Retriable(
            f"{start}the leader answers with nothing at offset {self.position} (last stable offset"
            f" {last_stable_offset}, high watermark {high_watermark}). Nothing is lost: read again from there.",
            tag="NO_PROGRESS",
        )

    def unreachable(self, problem: str, *, timeout: float) -> Retriable:
        """Return the error for a partition that no broker has served for ``timeout`` seconds."""
        subject = f"{self.range.name} could not be read at offset {self.position} for {timeout * 1000:.0f} ms"
        return given_up(subject, problem, "Nothing is lost: what was not read can be read again from there.")


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows of one answer that wait to be decoded. Reading continues at ``end``."""

    part: PartitionCursor
    records: memoryview
    batches: list[BatchHeader]
    start: int
    end: int

    def decode(
        self, *, headers: bool, max_rows: int, timestamp_overflow: TimestampOverflow = "fail"
    ) -> Iterator[tuple[Any, int]]:
        """Yield record batches of at most ``max_rows`` rows, each with the next offset after it."""
        if not self.batches:
            return
        where = self.part.range.name
        batches = portions(
            self.records,
            self.batches,
            start=self.start,
            end=self.end,
            headers=headers,
            where=where,
            timestamp_overflow=timestamp_overflow,
        )
        for decoded, ends in batches:
            rows = self.part.columns.arrange(decoded)
            offsets = rows.column("offset")
            for first in range(0, rows.num_rows, max_rows):
                last = min(first + max_rows, rows.num_rows)
                yield (
                    rows.slice(first, last - first),
                    self.end if ends and last == rows.num_rows else offsets[last - 1].as_py() + 1,
                )
