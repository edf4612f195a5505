"""Ending a transaction, and what each answer means (PROTOCOL 4).

An unknown outcome is settled by asking, never by guessing: EndTxn is repeated until the coordinator answers; a refusal
is looked into with an abort of our own epoch; and where another owner has come, progress says how ours ended.
"""

from __future__ import annotations

import time
from typing import NoReturn

from semel.errors import AbortAndRetry, Fenced, Retriable, SemelError
from semel.steps import OwnerStep, reached
from semel.transaction.ownership import SESSION, Ownership
from semel.transaction.progress.log import ProgressLog
from semel.transaction.progress.reader import read_everything
from semel.transaction.states import Event
from semel.wire.api.transactions import EndAnswer, Identity, end
from semel.wire.error_codes import briefly, name

__all__ = ["ENDED", "abort", "abort_after_refusal", "check_still_owner", "commit", "written_by_successor"]

_ABORTED = 48
_FENCED = (47, 49, 90)
#: The tags of refusals that say that the transaction has ended already, by whomever.
ENDED = {name(code) for code in (_ABORTED, *_FENCED)}
_UNKNOWN = "It is committed as a whole or not at all. Start again: taking over finds out which."
#: A rival that fenced us needs a moment to be done with its own taking over; going on at once would start a fight
#: (PROTOCOL 4, row 48).
_RIVAL_PAUSE = 2.0


def commit(own: Ownership) -> None:
    """Commit. Returns when the coordinator has decided so; markers come later.

    Raises :class:`AbortAndRetry` if it was aborted, :class:`Fenced` if another owner is there (the message says how the
    transaction ended), and :class:`Retriable` tagged OUTCOME_UNKNOWN if no coordinator answered in time.
    """
    own.states.move(Event.COMMIT_SENT)
    answer = _ask(own, commit=True)
    reached(OwnerStep.COMMIT_ANSWERED, own.transactional_id)
    if answer.code == 0:
        own.identity = answer.identity
        own.early_aborts = 0
        own.states.move(Event.ANSWERED)
    elif answer.code == _ABORTED:
        abort_after_refusal(own, "The commit found it aborted.", name(_ABORTED))
    elif answer.code in _FENCED:
        raise _fenced(own, asked=True)
    else:
        abort_after_refusal(own, f"the commit answered {name(answer.code)}.", name(answer.code))


def abort(own: Ownership) -> bool:
    """Abort. Returns False if it turns out that the transaction was committed before."""
    own.states.move(Event.ABORT_SENT)
    answer = _ask(own, commit=False)
    reached(OwnerStep.ABORT_ANSWERED, own.transactional_id)
    if answer.code == 0:
        own.identity = answer.identity
        own.states.move(Event.ANSWERED)
        return True
    if answer.code == _ABORTED:
        own.states.move(Event.GIVEN_UP)  # the next identity is not in this answer: only taking over brings one
        return False
    if answer.code in _FENCED:
        raise _fenced(own)
    own.states.move(Event.GIVEN_UP)
    raise Retriable(
        f"the abort of {own.transactional_id!r} answered {name(answer.code)}. {_UNKNOWN}",
        tag="OUTCOME_UNKNOWN",
    )


def check_still_owner(own: Ownership, when: str) -> None:
    """Find out whether another owner has taken the id since, with no transaction open: an empty abort is
    answered by the next identity alone.

    Raises :class:`Fenced` if so, with ``when`` at its end.
    """
    answer = end(own.client, own.identity, commit=False, deadline=own.deadline())
    if answer.code:
        raise Fenced(f"another owner has taken over transactional id {own.transactional_id!r} {when}")
    own.identity = answer.identity


def abort_after_refusal(own: Ownership, text: str, tag: str) -> NoReturn:
    """Abort after a request inside the transaction was refused. ``text`` says which request and ``tag`` how.

    After 47, 48, 49 or 90 our own abort tells whether another owner has the id. If not, the transaction had expired, or
    where it is too young for that, a rival has been here (PROTOCOL 4).
    """
    identity = own.identity
    rival = tag in ENDED and own.age_ms < own.timeout_ms
    if rival and tag == name(_ABORTED):
        _back_off_for_rival(own, identity)
    if not abort(own):
        raise Retriable(
            f"{text} Yet the transaction of {own.transactional_id!r} had been committed. {_UNKNOWN}",
            tag="OUTCOME_UNKNOWN",
        )
    if tag not in ENDED:
        raise AbortAndRetry(
            f"{text} The transaction of {own.transactional_id!r} was aborted: nothing of it is visible. Run it again.",
            tag=tag,
        )
    if rival and tag != name(_ABORTED):
        _back_off_for_rival(own, identity)
    raise _ended_early(own, text, rival=rival)


def _back_off_for_rival(own: Ownership, identity: Identity) -> None:
    """Let a rival that aborted this transaction finish its takeover.

    Twice in a row it is an owner at work, and going on would be a fight.
    """
    own.early_aborts += 1
    if own.early_aborts > 1:
        raise _fenced(own, identity)
    time.sleep(_RIVAL_PAUSE)


def _ended_early(own: Ownership, text: str, *, rival: bool) -> AbortAndRetry:
    when = (
        f"the transaction of {own.transactional_id!r} had ended before it was done, {own.age_ms / 1000:.0f} s"
        " after it began"
    )
    if rival:
        return AbortAndRetry(
            f"{when}, which is not its timeout: another owner was here for a moment. {text} Nothing of it is visible."
            " It is run again; if that owner is at work, one of the two stops then.",
            tag="ABORTED_BY_RIVAL",
        )
    return AbortAndRetry(
        f"{when} (its timeout is {own.timeout_ms / 1000:.0f} s): {text} Nothing of it is visible. Run the"
        " same work again, as the sink does by itself. If it took too long, raise transaction.timeout.ms.",
        tag="EXPIRED",
    )


def _ask(own: Ownership, *, commit: bool) -> EndAnswer:
    step = OwnerStep.COMMIT_SENT if commit else OwnerStep.ABORT_SENT
    try:
        return end(
            own.client,
            own.identity,
            commit=commit,
            deadline=own.deadline(),
            sent=lambda: reached(step, own.transactional_id),
        )
    except Retriable as error:
        own.states.move(Event.GIVEN_UP)
        raise Retriable(
            f"no coordinator said how the transaction of {own.transactional_id!r} ended: {briefly(error.message)}"
            f" {_UNKNOWN}",
            tag="OUTCOME_UNKNOWN",
        ) from None
    # no right to it any more, no login, or no readable answer: an earlier try of this request may have ended it
    except SemelError as error:
        own.states.move(Event.GIVEN_UP)
        raise type(error)(
            f"how the transaction of {own.transactional_id!r} ended could not be asked: {error.message} {_UNKNOWN}",
            tag=error.tag,
        ) from None


def _fenced(own: Ownership, identity: Identity | None = None, *, asked: bool = False) -> Fenced:
    """Another owner has our id.

    Progress says how our transaction ended, once it is settled. ``asked``: its commit was asked for.
    """
    identity = identity or own.identity
    own.states.move(Event.FENCED)
    return Fenced(
        f"another owner has taken over transactional id {identity.transactional_id!r}. The last transaction of this"
        f" one (epoch {identity.epoch}) {_how_it_ended(own, identity, asked=asked)}. Stop one of the two: each prefix"
        " belongs to one query at a time. Nothing is lost: the one that stays runs what is not committed. If the other"
        " one was `semel progress reset` or `import`, start this one again."
    )


def written_by_successor(identity: Identity, before: ProgressLog, now: ProgressLog) -> bool:
    """Return whether another owner has written progress since it was read ``before``: of a key, compaction keeps the
    newest record alone.
    """
    newest_offset = max((record.offset for record in before.everything), default=-1)
    return any(
        r.offset > newest_offset and not (r.producer_id == identity.producer_id and r.epoch <= identity.epoch)
        for r in now.everything
    )


def _how_it_ended(own: Ownership, identity: Identity, *, asked: bool) -> str:
    if own.scope == SESSION:  # its positions are the group's offsets, and it writes no progress
        return "was committed together with its offsets of the group, or not at all"
    deadline = own.deadline()
    try:
        while True:
            settled = read_everything(own.progress, deadline)
            if not any((r.producer_id, r.epoch) == (identity.producer_id, identity.epoch) for r in settled.records):
                if asked and written_by_successor(identity, own.progress_log, settled):
                    return "is not known any more: newer progress has replaced its record"
                return "was not committed: it left no progress, and nothing of it is visible"
            ended = settled.outcome_of(identity.producer_id, identity.epoch)
            if ended is not None:
                return "was committed" if ended else "was aborted: nothing of it is visible"
            if deadline.passed:
                return "is not settled yet"
            deadline.pause()
    except SemelError as error:
        return f"could not be looked up ({briefly(error.message)})"
