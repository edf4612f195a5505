"""An owner in anybody's hands: whatever a program may do with a producer, in place of Spark's query.

It may copy rows or only progress, fail at any request, begin and leave it, and stop anywhere. The procedure itself is
:mod:`model.owner`, unchanged.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from model.owner import Ended, Held, Owner, Work
from model.process import Done, Goto, Routine, Stop
from model.requests import OUT0, OUT1, Choose, Position, Request
from semel.steps import OwnerStep

__all__ = ["Anybody"]

Steps = Generator[Request | OwnerStep, Any, Goto | Stop | Done]

#: Nothing in a step log depends on what is written: two output partitions stand for all, and their rows are none.
_WORKS = {
    "rows": Work(((OUT0, ()), (OUT1, ())), Position(0, 0, 0, (OUT0, OUT1))),
    "progress alone": Work((), Position(0, 0, 0, ())),
}


class Anybody:
    """The routines of an owner that does as it likes between transactions, and keeps to the procedure within."""

    def __init__(self, owner: Owner, *, progress_alone: bool, offsets_at_times: bool) -> None:
        self._owner = owner
        self._works = tuple(_WORKS) if progress_alone else ("rows",)
        self._offsets = None if offsets_at_times else True

    def routines(self) -> dict[str, Routine]:
        """Return the routines by name."""
        return {
            "take over": self.take_over,
            "idle": self.idle,
            "transact": self.transact,
            "leave": self.leave,
            "settle": self.settle,
        }

    def take_over(self) -> Steps:
        """From the first request to the end of taking over."""
        in_view = yield Choose((True, False))
        held = yield from self._owner.take_over(group_in_view=in_view)
        return Goto("idle", (held,)) if isinstance(held, Held) else held

    def idle(self, held: Held) -> Steps:
        """Let the program choose what comes next."""
        what = yield Choose((*self._works, "begin and leave"))
        return Goto("leave", (held,)) if what == "begin and leave" else Goto("transact", (held, what))

    def transact(self, held: Held, what: str) -> Steps:
        """One transaction."""
        ended = yield from self._owner.transact(held, _WORKS[what]._replace(offsets=self._offsets))
        return Goto("settle", (ended,)) if isinstance(ended, Ended) else ended

    def leave(self, held: Held) -> Steps:
        """End a transaction that holds nothing: the broker never hears of it."""
        yield OwnerStep.BEGUN
        if (yield Choose((False, True))):
            yield OwnerStep.WRITTEN
        return Goto("idle", (held,))

    def settle(self, ended: Ended) -> Steps:
        """See the markers of the last transaction; the next one begins behind them."""
        held = yield from self._owner.settle(ended)
        return Goto("idle", (held,)) if isinstance(held, Held) else held
