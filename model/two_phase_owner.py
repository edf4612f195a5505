"""The owner of prepared transactions whose decisions are in a database: recovery, and one unit after the other (DESIGN
rule 13; ``semel.transaction.two_phase``, ``semel.database``).

Generators as in :mod:`model.owner`. A unit is the work of one decision: rows in Kafka and in the database.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from model.process import Done, Goto, Routine, Stop
from model.requests import ABORT, COMMIT
from semel.steps import OutboxStep, TwoPhaseStep

__all__ = [
    "FENCED",
    "LOST",
    "AskFree",
    "CommitDatabase",
    "EndPrepared",
    "Forget",
    "HasText",
    "InitUnit",
    "Key",
    "ListOpen",
    "LockOwner",
    "Mistakes",
    "RaiseNumber",
    "RaiseOwn",
    "ReadRows",
    "ReadTexts",
    "SendRows",
    "SkipEpoch",
    "StillOpen",
    "TwoPhaseOwner",
]

#: Requests, steps and answers, as in :data:`model.process.Part`.
_Part = Generator[Any, Any, Any]

#: An answer that was lost.
LOST = "lost"
FENCED = Stop("fenced: another owner has raised the number")
#: What was decided was aborted by its timeout, and the owner says so.
EXPIRED = Stop("lost: what was decided has expired")


class Key(NamedTuple):
    """A transaction: whose id, which of its ids, at which epoch."""

    owner: int
    k: int
    epoch: int


class ListOpen(NamedTuple):
    """ListTransactions of the prefix, with the epochs."""


class RaiseNumber(NamedTuple):
    """The owner row's number is raised, whoever has it."""

    owner: int


class RaiseOwn(NamedTuple):
    """The number is raised where the row is still this owner's."""

    owner: int
    again: bool = True


class ReadTexts(NamedTuple):
    """The prepared texts."""

    texts: bool = True


class ReadRows(NamedTuple):
    """The number of units in the database."""

    rows: bool = True


class InitUnit(NamedTuple):
    """InitProducerId for an id of this process."""

    owner: int
    k: int


class SkipEpoch(NamedTuple):
    """EndTxn(abort) with nothing in it. Answers the key to go on with, None where the id has gone on without it."""

    key: Key
    skip: bool = True


class SendRows(NamedTuple):
    """AddPartitionsToTxn and the rows of a unit."""

    key: Key
    unit: int


class StillOpen(NamedTuple):
    """DescribeTransactions, before prepare() returns."""

    key: Key


class AskFree(NamedTuple):
    """DescribeTransactions, before an id is used again."""

    key: Key
    free: bool = True


class LockOwner(NamedTuple):
    """The owner row is locked, where it has this number; rows and text are written behind it."""

    owner: int
    number: int
    key: Key
    unit: int


class CommitDatabase(NamedTuple):
    """COMMIT: the decision."""

    owner: int
    key: Key
    unit: int


class HasText(NamedTuple):
    """The question whether the text of a unit is in the database."""

    key: Key
    has: bool = True


class EndPrepared(NamedTuple):
    """EndTxn by a stored identity."""

    key: Key
    decision: str


class Forget(NamedTuple):
    """The text is removed."""

    key: Key
    done: bool = True


@dataclass(frozen=True, slots=True)
class Mistakes:
    """The mistakes of a control. All False is the procedure."""

    list_last: bool = False  # what is open is listed after the number was raised, and all of it but the texts aborted
    read_first: bool = False  # the texts are read before the number is raised
    no_guard: bool = False  # a unit is committed whatever the number is
    abort_on_lost: bool = False  # a COMMIT that was not answered counts as refused
    commit_first: bool = False  # Kafka is committed before the database
    init_again: bool = False  # an InitProducerId that was not answered is sent again, for the same id
    reuse_early: bool = False  # an id is used again without a look whether its transaction has ended
    old_epoch: bool = False  # EndTxn raises no epoch (before KIP-890), and the next transaction has that of the last
    forget_first: bool = False  # the text is removed before Kafka has followed it
    newest_epoch: bool = False  # what was listed is aborted by the epoch that its id has now
    skip_by_init: bool = False  # an epoch is skipped by InitProducerId, which is sent again if it is not answered
    silent: bool = False  # what was decided and has expired is passed over


class TwoPhaseOwner:
    """The routines."""

    def __init__(self, mistakes: Mistakes, units: int, *, skips_epochs: bool = False) -> None:
        self.mistakes = mistakes
        self.skips_epochs = skips_epochs
        self.units = units

    def routines(self) -> Mapping[str, Routine]:
        """Return the routines by name."""
        return {"recover": self._recover, "unit": self._unit}

    def _recover(self, me: int, k: int) -> _Part:
        """List, then raise the number, then read the texts; end what was listed, and nothing else."""
        wrong = self.mistakes
        listed = yield ListOpen()
        yield TwoPhaseStep.LISTED
        if wrong.read_first:
            texts = yield ReadTexts()
            number = yield RaiseNumber(me)
        else:
            number = yield RaiseNumber(me)
            yield OutboxStep.OWNER_RAISED
            texts = yield ReadTexts()
        yield OutboxStep.TEXTS_READ
        if wrong.list_last:
            listed = yield ListOpen()
        expired = silent = False
        for key in texts:
            ended = yield EndPrepared(key, COMMIT)
            expired, silent = expired or ended == ABORT, silent or ended == LOST
        for key in listed:
            if key not in texts:
                named = key._replace(epoch=-1) if wrong.newest_epoch else key
                yield EndPrepared(named, ABORT)
        if expired and not wrong.silent:
            return EXPIRED
        if silent:  # no broker has answered: all again, and no text is removed
            return Goto("recover", (me, k))
        for key in texts:
            yield Forget(key)
        yield OutboxStep.RECOVERED
        return Goto("unit", (me, number, k))

    def _unit(self, me: int, number: int, k: int, goes_on: Key | None = None) -> _Part:
        """Prepare, lock, COMMIT, end, forget. ``goes_on`` is what EndTxn has answered for the id."""
        wrong = self.mistakes
        unit = yield ReadRows()
        if unit == self.units:
            return Done()
        if goes_on and self.skips_epochs:
            skipped = yield InitUnit(me, k) if wrong.skip_by_init else SkipEpoch(goes_on)
            if skipped == LOST:
                return Goto("unit", (me, number, k, goes_on))
            yield TwoPhaseStep.EPOCH_SKIPPED
            goes_on = skipped
        key = goes_on or (yield InitUnit(me, k))
        if key == LOST:  # that request may come at any later moment: never this id again
            return Goto("unit", (me, number, k if wrong.init_again else k + 1))
        yield TwoPhaseStep.INITIALISED
        following = Goto("unit", (me, number, k + 1))
        if not (yield SendRows(key, unit)):
            return following
        yield TwoPhaseStep.SENT
        if not (yield StillOpen(key)):
            return following
        yield TwoPhaseStep.PREPARED
        if wrong.commit_first:
            yield EndPrepared(key, COMMIT)
        if not (yield LockOwner(me, number, key, unit)):
            yield EndPrepared(key, ABORT)
            return FENCED
        yield OutboxStep.OWNER_LOCKED
        committed = yield CommitDatabase(me, key, unit)
        if committed == LOST:
            if wrong.abort_on_lost:
                yield EndPrepared(key, ABORT)
                return following
            raised = yield RaiseOwn(me)
            if raised is None:
                return FENCED
            number = raised
            if not (yield HasText(key)):
                yield EndPrepared(key, ABORT)
                return Goto("unit", (me, number, k + 1))
        yield OutboxStep.DECIDED
        return (yield from self._follow(me, number, key))

    def _follow(self, me: int, number: int, key: Key) -> _Part:
        """Kafka follows the decision."""
        wrong = self.mistakes
        if wrong.forget_first:
            yield Forget(key)
        ended = yield EndPrepared(key, COMMIT)
        if ended == LOST and not wrong.reuse_early:  # no broker has answered in time
            return Goto("recover", (me, key.k + 1))
        if ended == ABORT and not wrong.silent:
            return EXPIRED
        if ended != LOST and not wrong.forget_first:
            yield Forget(key)
            yield OutboxStep.FORGOTTEN
        if ended == COMMIT:
            return Goto("unit", (me, number, key.k, key if wrong.old_epoch else key._replace(epoch=key.epoch + 1)))
        free = wrong.reuse_early or (yield AskFree(key))
        return Goto("unit", (me, number, key.k if free else key.k + 1))
