"""Spark's query around the owner: its checkpoint, its batches, and the precedence of checkpoint and progress (PROTOCOL
6).

Row number i of the source is at offset i; a batch is a range of rows. Row i goes to output partition i mod 2, unless
placement varies.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from model.owner import AGAIN, INIT_AGAIN, Ended, Held, Owner, Work
from model.process import Done, Goto, Routine, Stop
from model.progress import reading
from model.requests import (
    COMMIT,
    PENDING,
    Choose,
    Claim,
    CommitBatch,
    Init,
    LogBatch,
    Position,
    ReadCheckpoint,
    Request,
    SettledPosition,
)
from semel.steps import OwnerStep

__all__ = ["DISAGREE", "Batch", "Query", "QueryRun"]

#: Why a batch is refused.
DISAGREE = "refused: checkpoint and progress disagree"

Steps = Generator[Request | OwnerStep, Any, Goto | Stop | Done]


class QueryRun(NamedTuple):
    """One run of a query: its number among the owners, its checkpoint, the query's id, and where its first batch
    starts.
    """

    number: int
    checkpoint: int
    query: int
    began: int = 0


class Batch(NamedTuple):
    """Rows ``start`` to ``end`` (exclusive), as batch ``number`` of the checkpoint."""

    number: int
    start: int
    end: int


class Query:
    """The routines of a stateless query that copies ``rows`` rows, in batches of any of ``sizes``.

    ``patience`` is how often a batch may find itself aborted by expiry or by a rival before its owner stops as fenced
    (PROTOCOL 4, row 48).
    """

    def __init__(
        self,
        owner: Owner,
        *,
        rows: int,
        sizes: tuple[int, ...],
        placement_varies: bool = False,
        group_in_view: bool = True,
        offsets_at_times: bool = False,
        patience: int = 1,
    ) -> None:
        self._owner = owner
        self._rows = rows
        self._sizes = sizes
        self._varies = placement_varies
        self._group_in_view = group_in_view
        self._offsets = None if offsets_at_times else True
        self._patience = patience

    def routines(self) -> dict[str, Routine]:
        """Return the routines by name."""
        return {
            "start": self.start,
            "plan": self.plan,
            "take over": self.take_over,
            "batch": self.batch,
            "commit": self.commit,
            "run again": self.run_again,
            "init again": self.init_again,
        }

    def start(self, run: QueryRun) -> Steps:
        """Begin a new checkpoint at the progress (``startingOffsets=committed``)."""
        checkpoint = yield ReadCheckpoint(run.checkpoint)
        if run.query and not checkpoint.offsets:
            log = yield Claim() if self._owner.breaks.unsettled_start else SettledPosition()
            if log == PENDING:
                return Stop("retriable: progress stays open")
            newest = reading(log).newest
            if newest is None:
                return Stop("refused: nothing is committed to start from")
            run = run._replace(began=newest.position.end)
        return Goto("plan", (run, None))

    def plan(self, run: QueryRun, held: Held | None) -> Steps:
        """Spark plans a batch, or takes one up again that its commit log lacks."""
        checkpoint = yield ReadCheckpoint(run.checkpoint)
        offsets = checkpoint.offsets
        if len(offsets) > checkpoint.committed:
            batch = Batch(len(offsets) - 1, *offsets[-1])
        else:
            start = offsets[-1][1] if offsets else run.began
            if start >= self._rows:
                # what a predecessor left is settled though there is nothing to do: so that every end can be checked
                return Goto("take over", (run, None)) if held is None else Done()
            sizes = tuple(size for size in self._sizes if start + size <= self._rows)
            size = sizes[0] if len(sizes) == 1 else (yield Choose(sizes))
            batch = Batch(len(offsets), start, start + size)
            if not (yield LogBatch(run.checkpoint, *batch)):
                return Stop("concurrent: another query uses the checkpoint")
        return Goto("take over", (run, batch)) if held is None else Goto("batch", (run, held, batch))

    def take_over(self, run: QueryRun, batch: Batch | None) -> Steps:
        """Take the prefix over, once in a run."""
        held = yield from self._owner.take_over(group_in_view=self._group_in_view)
        if not isinstance(held, Held):
            return _stopped(held, run, None, batch)
        return Goto("plan", (run, held)) if batch is None else Goto("batch", (run, held, batch))

    def batch(self, run: QueryRun, held: Held, batch: Batch, tries: int = 0, met: int = 0) -> Steps:
        """Skip, refuse, or run it in one transaction. ``met`` is how often somebody else has aborted it."""
        verdict = self._precedence(run.query, batch, held)
        if verdict == "refuse":
            return Stop(DISAGREE)
        if verdict == "skip":
            yield CommitBatch(run.checkpoint, batch.number)
            return Goto("plan", (run, held))
        ended = yield from self._owner.transact(held, self._work(run, batch, tries))
        if not isinstance(ended, Ended):
            return _stopped(ended, run, held, batch)
        if ended.decision == COMMIT:
            return Goto("commit", (run, ended, batch))
        if met + ended.early > self._patience:
            return Stop("fenced: a batch was aborted twice by somebody else")
        return Goto("run again", (run, ended, batch, tries + 1, met + ended.early))

    def commit(self, run: QueryRun, ended: Ended, batch: Batch) -> Steps:
        """Return from the sink: Spark logs the batch, and the markers are seen before the next one."""
        yield CommitBatch(run.checkpoint, batch.number)
        held = yield from self._owner.settle(ended)
        return _stopped(held, run, ended.held, batch) if isinstance(held, Stop) else Goto("plan", (run, held))

    def run_again(self, run: QueryRun, ended: Ended, batch: Batch, tries: int, met: int) -> Steps:
        """Run an aborted batch again inside the same call, once its markers are seen."""
        held = yield from self._owner.settle(ended)
        if isinstance(held, Stop):
            return _stopped(held, run, ended.held, batch)
        return Goto("batch", (run, held, batch, tries, met))

    def init_again(self, run: QueryRun, held: Held, batch: Batch) -> Steps:
        """Take another identity and continue as if nothing had happened. This is the control."""
        identity = yield Init()
        return Goto("batch", (run, held._replace(identity=identity), batch))

    def _work(self, run: QueryRun, batch: Batch, tries: int) -> Work:
        shift = run.number + tries if self._varies else 0
        by_partition: dict[int, list[int]] = {}
        for row in range(batch.start, batch.end):
            by_partition.setdefault((row + shift) % 2, []).append(row)
        rows = tuple((index, tuple(by_partition[index])) for index in sorted(by_partition))
        position = Position(run.query, batch.number, batch.end, tuple(sorted(by_partition)))
        return Work(rows, position, self._offsets)

    def _precedence(self, query: int, batch: Batch, held: Held) -> str:
        if self._owner.breaks.no_precedence:
            return "run"
        if held.newest is None:
            return "run" if batch.number == 0 else "refuse"
        known = held.newest.position
        if self._owner.breaks.skip_by_number and known.query == query and batch.number <= known.batch:
            return "skip"
        if batch.start == known.end:
            return "run"
        if known.query == query and batch.number <= known.batch and batch.end <= known.end:
            return "skip"
        return "refuse"


def _stopped(stop: Stop, run: QueryRun, held: Held | None, batch: Batch | None) -> Goto | Stop:
    if stop == AGAIN:
        return Goto("start", (run,))
    if stop == INIT_AGAIN:
        return Goto("init again", (run, held, batch)) if held is not None else Goto("take over", (run, batch))
    return stop
