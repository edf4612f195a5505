"""The states of an owner, and the one table of moves between them.

Whatever the owner does first asks this table: a second commit, a ticket after the end, or anything at all after a
fencing is refused before a byte is sent.
"""

from __future__ import annotations

import os
from enum import Enum

from semel.errors import ConfigError, Fenced, Retriable, SemelError

__all__ = ["Event", "State", "States"]


class State(Enum):
    """The state of an owner."""

    NEW = "has not taken over its id yet"
    READY = "holds its id, no transaction is open"
    OPEN = "has a transaction open"
    COMMITTING = "has asked for a commit and has no answer yet"
    ABORTING = "has asked for an abort and has no answer yet"
    FENCED = "was fenced by another owner"
    UNKNOWN = "does not know how its last transaction ended"
    CLOSED = "is closed"


class Event(Enum):
    """The event that moves an owner to another state."""

    TAKING_OVER = "taking over"
    TAKEN_OVER = "having taken over"
    HANDED_OVER = "handing the id to another process"
    EXPIRED = "taking over an id that expired unused"
    BEGUN = "beginning a transaction"
    ADDED = "adding to the transaction"
    NOTHING = "ending a transaction with nothing in it"
    COMMIT_SENT = "committing"
    ABORT_SENT = "aborting"
    ANSWERED = "being answered"
    FENCED = "being fenced"
    GIVEN_UP = "giving up waiting for an answer"
    CLOSED = "closing"


_MOVES: dict[tuple[State, Event], State] = {
    (State.NEW, Event.TAKING_OVER): State.NEW,
    (
        State.READY,
        Event.TAKING_OVER,
    ): State.NEW,  # a takeover that fails half-way leaves an owner that must do all of it again
    (State.READY, Event.HANDED_OVER): State.NEW,  # to be taken over again before anything else
    (State.OPEN, Event.EXPIRED): State.NEW,  # found out at the first AddPartitionsToTxn: all of PROTOCOL 2 again
    (State.NEW, Event.TAKEN_OVER): State.READY,
    (State.READY, Event.BEGUN): State.OPEN,
    (State.OPEN, Event.ADDED): State.OPEN,
    (State.OPEN, Event.NOTHING): State.READY,
    (State.OPEN, Event.COMMIT_SENT): State.COMMITTING,
    (State.OPEN, Event.ABORT_SENT): State.ABORTING,
    (State.COMMITTING, Event.ANSWERED): State.READY,
    (State.COMMITTING, Event.ABORT_SENT): State.ABORTING,  # 48: it was aborted, EndTxn(abort) brings the next identity
    (State.ABORTING, Event.ANSWERED): State.READY,
    **{
        (state, Event.FENCED): State.FENCED
        for state in (State.NEW, State.READY, State.OPEN, State.COMMITTING, State.ABORTING)
    },
    **{
        (state, Event.GIVEN_UP): State.UNKNOWN
        for state in (State.NEW, State.READY, State.OPEN, State.COMMITTING, State.ABORTING)
    },
    **{(state, Event.CLOSED): State.CLOSED for state in State},
}


class States:
    """The state of one owner."""

    def __init__(self, transactional_id: str) -> None:
        self._id = transactional_id
        self._process = os.getpid()
        self.now = State.NEW

    def move(self, event: Event) -> None:
        """Go where the table says. Raises, and stays, where it says nothing, and in a forked child."""
        if event is not Event.CLOSED:
            self.check_not_forked()
        following = _MOVES.get((self.now, event))
        if following is None:
            raise self._refusal(event)
        self.now = following

    @property
    def forked(self) -> bool:
        """True in a child of the process that made the owner."""
        return os.getpid() != self._process

    def check_not_forked(self) -> None:
        """Raise :class:`ConfigError` in a child of the process that made this owner.

        Two processes with one identity write under the same sequences: the broker keeps the first rows, and answers OK
        to the others.
        """
        if self.forked:
            raise ConfigError(
                f"the owner of {self._id!r} was made in process {self._process}, and this is a fork of it: both would"
                " write as one, and rows of one of them would vanish. Nothing was sent. Make a producer in each"
                " process, each with an id of its own, or hand out tickets.",
                tag="FORKED",
            )

    def _refusal(self, event: Event) -> SemelError:
        text = f"{event.value} is not possible: the owner of {self._id!r} {self.now.value}. Nothing was sent."
        if self.now is State.FENCED:
            return Fenced(text + " Only one owner of a transactional id can run at a time.")
        if self.now is State.UNKNOWN:
            return Retriable(
                text + " Open the producer again: taking over finds out how it ended.", tag="OUTCOME_UNKNOWN"
            )
        return ConfigError(text, tag="ILLEGAL_STATE")
