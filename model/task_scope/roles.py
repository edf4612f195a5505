"""The roles of task scope as generators: the driver, which plans, commits and aborts, and the attempts of its tasks
(``semel.spark.writer``, ``semel.transaction.takeover``).

Plan and commit are processes of their own in Spark. No two of one driver run at the same time, so here they are one.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from model.process import Done, Goto, Routine, Stop
from model.requests import ABORT, COMMIT
from model.two_phase_owner import LOST
from semel.steps import OwnerStep, WriterStep

__all__ = [
    "ENDED",
    "EXPIRED",
    "FENCED",
    "OK",
    "REFUSED",
    "AbortPart",
    "Attempt",
    "Begin",
    "EndOwner",
    "EndPart",
    "InitOwner",
    "IsOpen",
    "IsOwner",
    "ListParts",
    "LogBatch",
    "Mistakes",
    "NextBatch",
    "NoteEnded",
    "Outcome",
    "Progress",
    "Quiet",
    "ReadProgress",
    "Results",
    "Roles",
    "Run",
    "WritePart",
]

#: Requests, steps and answers, as in :data:`model.process.Part`.
_Part = Generator[Any, Any, Any]

OK, REFUSED = "ok", "refused"
#: The answer to EndTxn(abort) behind a commit: INVALID_TXN_STATE.
ENDED = "ended the other way"
FENCED = Stop("fenced: another owner has come")
#: What was decided was aborted by its timeout, and the driver says so.
EXPIRED = Stop("lost: a part that was decided has expired")


class Run(NamedTuple):
    """A batch as it was planned: by whom, by which epoch of the owner."""

    driver: int
    epoch: int
    batch: int


class Attempt(NamedTuple):
    """An attempt of a task. Its transaction is named after it."""

    run: Run
    task: int
    number: int


class Progress(NamedTuple):
    """A committed progress record: the epoch it was written with, the batch, and the parts that it enlists."""

    epoch: int
    batch: int
    parts: tuple[Attempt, ...]


class ListParts(NamedTuple):
    """ListTransactions of the ids of tasks: the open ones."""

    parts: bool = True


class InitOwner(NamedTuple):
    """InitProducerId of the prefix. Answers the epoch."""

    init: bool = True


class ReadProgress(NamedTuple):
    """A claim, and the newest committed record before it, with whether its parts are noted as ended."""

    progress: bool = True


class Outcome(NamedTuple):
    """A look at the progress: whether the record of this epoch is committed."""

    epoch: int


class NextBatch(NamedTuple):
    """The batch that Spark's checkpoint says is next."""

    batch: bool = True


class Results(NamedTuple):
    """The tasks run: the attempts that Spark reports, or None if one was refused."""

    run: Run


class IsOwner(NamedTuple):
    """DescribeTransactions of the prefix: whether its epoch is the plan's."""

    run: Run


class WritePart(NamedTuple):
    """InitProducerId, AddPartitionsToTxn and the rows of an attempt."""

    attempt: Attempt


class Begin(NamedTuple):
    """AddPartitionsToTxn of the owner, and its progress record."""

    epoch: int
    batch: int
    parts: tuple[Attempt, ...]


class IsOpen(NamedTuple):
    """DescribeTransactions: whether all of these are open."""

    parts: tuple[Attempt, ...]


class EndOwner(NamedTuple):
    """EndTxn by the owner's identity. A commit is the decision."""

    epoch: int
    decision: str


class EndPart(NamedTuple):
    """EndTxn of a part, by its identity. Answers how it has ended, now or before."""

    part: Attempt
    decision: str


class AbortPart(NamedTuple):
    """EndTxn(abort) of an attempt by itself."""

    attempt: Attempt


class NoteEnded(NamedTuple):
    """A record that the parts of a decision have ended."""

    epoch: int


class LogBatch(NamedTuple):
    """Spark's commit log."""

    batch: int


class Quiet(NamedTuple):
    """The last attempts of tasks have ended."""

    quiet: bool = True


@dataclass(frozen=True, slots=True)
class Mistakes:
    """The mistakes of a control. All False is the procedure."""

    parts_first: bool = False  # parts are committed before the owner's commit
    list_late: bool = False  # a plan lists what is open after it has read the progress
    list_behind: bool = False  # a commit lists what is open after its decision
    always_run: bool = False  # a batch is run whatever the progress says
    no_finish: bool = False  # a plan aborts all that it has listed, enlisted or not
    no_look: bool = False  # a commit decides without a look whether its parts are open
    abort_unasked: bool = False  # what was listed is aborted without EndTxn(abort) of the owner
    fenced_aborts: bool = False  # a commit that is fenced aborts its parts without reading the progress
    lost_aborts: bool = False  # a commit that nobody has answered counts as refused
    no_owner_check: bool = False  # an attempt writes and prepares whoever the owner is
    slow_owner: bool = False  # the owner's transaction lives as long as its parts (bounded)
    silent: bool = False  # what was decided and has expired is passed over


class Roles:
    """The routines."""

    def __init__(self, mistakes: Mistakes, batches: int) -> None:
        self.mistakes = mistakes
        self.batches = batches

    def routines(self) -> Mapping[str, Routine]:
        """Return the routines by name."""
        return {"plan": self._plan, "commit": self._commit, "abort": self._abort, "attempt": self._attempt}

    def _plan(self, me: int, last: object = None) -> _Part:
        """List, take over, end what the newest progress enlists, abort the rest of the list, run or skip."""
        wrong = self.mistakes
        listed = yield ListParts()
        epoch = yield InitOwner()
        yield OwnerStep.INITIALISED
        newest, ended = yield ReadProgress()
        if wrong.list_late:
            listed = yield ListParts()
        decided: tuple[Attempt, ...] = ()
        if newest is not None and not wrong.no_finish:
            decided = newest.parts
            if not ended:
                expired = False
                for part in decided:
                    expired |= (yield EndPart(part, COMMIT)) == ABORT
                if expired and not wrong.silent:
                    return EXPIRED
                yield NoteEnded(newest.epoch)
        for part in listed:
            if part not in decided:
                yield EndPart(part, ABORT)
        yield WriterStep.TAKEN_OVER
        if last is not None:
            return Done()
        batch = yield NextBatch()
        if batch == self.batches:
            yield Quiet()
            return Goto("plan", (me, "last"))
        yield WriterStep.PLANNED
        if newest is not None and newest.batch >= batch and not wrong.always_run:
            yield LogBatch(batch)
            return Goto("plan", (me,))
        run = Run(me, epoch, batch)
        parts = yield Results(run)
        return Goto("abort", (run,)) if parts is None else Goto("commit", (run, parts))

    def _attempt(self, attempt: Attempt) -> _Part:
        """Ask for the owner, write, prepare, and ask again."""
        yield WriterStep.TASK_STARTED
        if not (self.mistakes.no_owner_check or (yield IsOwner(attempt.run))):
            return Stop(REFUSED)
        yield WritePart(attempt)
        yield WriterStep.PART_BEGUN
        if not (self.mistakes.no_owner_check or (yield IsOwner(attempt.run))):
            yield AbortPart(attempt)
            return Stop(REFUSED)
        yield WriterStep.PART_PREPARED
        return Done()

    def _commit(self, run: Run, parts: tuple[Attempt, ...]) -> _Part:
        """List, progress, each part is open, EndTxn; commit the parts, abort the rest of the list."""
        wrong = self.mistakes
        yield WriterStep.COMMITTING
        listed = () if wrong.list_behind else (yield ListParts())
        if wrong.parts_first:
            for part in parts:
                yield EndPart(part, COMMIT)
        answer = yield Begin(run.epoch, run.batch, parts)
        if answer == OK:
            if not (wrong.no_look or (yield IsOpen(parts))):
                return Goto("abort", (run,))
            answer = yield EndOwner(run.epoch, COMMIT)
            if answer == LOST:  # the same request again; some time it gives up
                answer = yield EndOwner(run.epoch, COMMIT)
        if answer == LOST:
            if wrong.lost_aborts:
                for part in parts:
                    yield EndPart(part, ABORT)
            return Goto("abort", (run,))
        if answer == ENDED:  # it has timed out
            return Goto("abort", (run,))
        if answer == REFUSED and (wrong.fenced_aborts or not (yield Outcome(run.epoch))):
            for part in parts:
                yield EndPart(part, ABORT)
            return FENCED
        yield WriterStep.DECIDED
        return (yield from self._follow(run, parts, listed))

    def _follow(self, run: Run, parts: tuple[Attempt, ...], listed: tuple[Attempt, ...]) -> _Part:
        """Let the parts follow the decision."""
        wrong, expired = self.mistakes, False
        if wrong.list_behind:
            listed = yield ListParts()
        for part in parts:
            expired |= (yield EndPart(part, COMMIT)) == ABORT
        if expired and not wrong.silent:
            return EXPIRED
        for part in listed:
            if part not in parts:
                yield EndPart(part, ABORT)
        yield NoteEnded(run.epoch)
        yield WriterStep.PARTS_COMMITTED
        yield LogBatch(run.batch)
        return Goto("plan", (run.driver,))

    def _abort(self, run: Run) -> _Part:
        """List, EndTxn(abort) by the identity of the plan: if that is taken, no process can decide, and what was listed
        is aborted. The query is started again.
        """
        yield WriterStep.ABORTING
        listed = yield ListParts()
        answer = OK if self.mistakes.abort_unasked else (yield EndOwner(run.epoch, ABORT))
        if answer == REFUSED:
            return FENCED
        if answer == OK:
            for part in listed:
                yield EndPart(part, ABORT)
            yield WriterStep.PARTS_ABORTED
        return Goto("plan", (run.driver,))
