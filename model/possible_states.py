"""All that may be the case behind the lines of a step log that have been read: a set of situations, and how a line
narrows it.

A situation is the cluster and the owners that are at work. Between two lines anything may happen that leaves no line:
requests are answered, markers land, transactions time out. A line is accepted if in some situation its owner passes
that step.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

from model.broker import COMPLETE, EMPTY, ONGOING, PREPARE, Broker, Kafka
from model.mutations import Breaks
from model.owner import Owner
from model.process import Done, Goto, Process, Routines, Stop
from model.progress import FOREIGN, Record, reading
from model.replay_driver import Anybody
from model.requests import (
    ABORT,
    COMMIT,
    FAILED,
    PENDING,
    PROGRESS,
    Add,
    Choose,
    End,
    Identity,
    Init,
    Produce,
    ReadCheckpoint,
    StableOffset,
)
from semel.steps import OwnerStep

__all__ = ["Ahead", "Allowed", "Frontier"]

#: Who has the id, when owners that do not log are possible and one has just taken it: no second one needs to.
_STRANGER = Identity(-1, -1)
#: Who has not heard of any identity yet.
_UNKNOWN = Identity(sys.maxsize, 0)
#: The steps of what goes on while a process takes its id over again.
_OF_THE_WAIT = (OwnerStep.MARKERS_SEEN, OwnerStep.EPOCH_SKIPPED)
#: The answer of the group's coordinator that is not what the progress says.
_ANOTHER_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Allowed:
    """The possible events of a run.

    ``strangers``: owners that do not log have taken the id over. ``lost_markers``: partitions were without a leader.
    ``expired_ids``: the id was quiet for longer than brokers keep it. ``progress_alone``: there were transactions
    without tickets, which pass WRITTEN before PARTITIONS_ADDED: a batch without rows, or a group that somebody else had
    moved. ``offsets_at_times``: some transactions of an id had its group's offsets, and some had not.
    ``skips_epochs``: whether an owner skips an epoch after a transaction, as on
    brokers before 4.2; or both.
    """

    progress_alone: bool = True
    offsets_at_times: bool = False
    skips_epochs: tuple[bool, ...] = (False,)
    strangers: bool = False
    lost_markers: bool = False
    expired_ids: bool = False


class Ahead(NamedTuple):
    """The later lines of the log. States that would have led to something else need no look.

    ``following``: the next step of each process. ``ending``: somebody stops soon, as who was fenced does. ``healed``: a
    lost marker is written soon.
    """

    following: Mapping[int, OwnerStep]
    ending: bool = True
    healed: bool = True


class Seat(NamedTuple):
    """An owner in a process. ``sent``: its EndTxn was logged; ``answer``: what the coordinator has answered to it
    already.

    ``healing``: its last line was HEALED, of which there may be more, since one partition of the model stands for
    several. ``last``: no line of it comes any more. ``former``: the process has taken the id over again, and only its
    wait for markers goes on.
    """

    pid: int
    process: Process
    sent: bool = False
    answer: tuple[Any, ...] = ()
    healing: bool = False
    last: bool = False
    former: bool = False


class Situation(NamedTuple):
    """One possible state."""

    broker: Broker
    seats: tuple[Seat, ...]

    def with_seat(self, old: Seat, new: Seat | None) -> Situation:
        """Return the same situation with one seat replaced, or gone."""
        kept = [seat for seat in self.seats if seat is not old]
        return self._replace(seats=tuple(sorted([*kept, new] if new is not None else kept)))


class Frontier:
    """The situations that fit the lines so far, of one transactional id."""

    def __init__(self, allowed: Allowed, *, group: bool) -> None:
        self._allowed = allowed
        self._kafka = Kafka()
        self._routines = Routines(
            Anybody(
                Owner(Breaks(), group=group, skips_epochs=allowed.skips_epochs),
                progress_alone=allowed.progress_alone,
                offsets_at_times=allowed.offsets_at_times,
            ).routines()
        )
        self._now: set[Situation] = {Situation(Broker(), ())}
        self.most = 1

    def arrive(self, pid: int, *, soon: bool) -> None:
        """Let a process log a takeover: from another owner, or of its own id, which had expired unused.

        ``soon``: by the next line. What the dead had sent changes nothing any more then.
        """
        fresh = Seat(pid, Process("take over"))
        arrived = set()
        for situation in self._now:
            mine = [seat for seat in situation.seats if seat.pid == pid and not seat.former]
            others = [seat for seat in situation.seats if seat not in mine and not (soon and seat.last)]
            # whose markers have been seen is gone: kept, each would multiply what may be the case, for good
            waiting = [
                seat._replace(former=True) for seat in map(self._gone_on, mine) if seat.process.routine == "settle"
            ]
            arrived.add(situation._replace(seats=tuple(sorted([*others, *waiting, fresh]))))
            if self._allowed.expired_ids:
                arrived.add(situation._replace(seats=tuple(sorted([*others, *mine]))))
        self._now = arrived

    def leave(self, pid: int, ahead: Ahead) -> None:
        """Let a process log its last line. Its sent requests may still be done."""
        left = {
            situation._replace(
                seats=tuple(sorted(seat._replace(last=True) if seat.pid == pid else seat for seat in situation.seats))
            )
            for situation in self._now
        }
        self._now = {self._without_the_fenced(situation, ahead) for situation in left}

    def _without_the_fenced(self, situation: Situation, ahead: Ahead) -> Situation:
        """Return the same situation without dead processes whose identity is outdated: nothing of theirs is used any
        more, except for a lost marker.

        Kept, each would multiply what may be the case with every line of its successor.
        """
        if self._allowed.lost_markers and ahead.healed:
            return situation
        now = situation.broker.coordinator.identity
        return situation._replace(
            seats=tuple(seat for seat in situation.seats if not seat.last or _identity(seat.process) >= now)
        )

    def passes(self, pid: int, step: OwnerStep, ahead: Ahead) -> set[OwnerStep]:
        """Take one line.

        Returns nothing if it is allowed, else the steps that this process could have passed instead; the frontier stays
        then.
        """
        everything = self._closure(self._now, ahead)
        self.most = max(self.most, len(everything))
        after, instead = set(), set()
        for situation in everything:
            for seat in situation.seats:
                if seat.pid != pid or seat.last:
                    continue
                if seat.healing and step is OwnerStep.HEALED:
                    after.add(situation)
                    continue
                possible = self._next_step(seat)
                if possible is step:
                    then = situation.with_seat(seat, self._behind(seat, step))
                    if step is OwnerStep.INITIALISED:
                        then = then._replace(seats=tuple(other for other in then.seats if not other.last))
                    after.add(self._without_the_fenced(_pruned(then), ahead))
                elif possible is not None:
                    instead.add(possible)
        if after:
            self._now = after
            return set()
        return instead or {step for step in OwnerStep if step is OwnerStep.INITIALISED}

    def _next_step(self, seat: Seat) -> OwnerStep | None:
        wanted = self._routines.wants(seat.process)
        if isinstance(wanted, OwnerStep):
            return wanted if not seat.former or wanted in _OF_THE_WAIT else None
        if isinstance(wanted, End) and wanted.announced and not seat.former:
            # also a second time: it is sent again
            return OwnerStep.COMMIT_SENT if wanted.decision == COMMIT else OwnerStep.ABORT_SENT
        return None

    def _behind(self, seat: Seat, step: OwnerStep) -> Seat | None:
        seat = seat._replace(healing=step is OwnerStep.HEALED)
        if isinstance(self._routines.wants(seat.process), OwnerStep):
            last = seat.former and (step is OwnerStep.EPOCH_SKIPPED or True not in self._allowed.skips_epochs)
            return None if last else seat._replace(process=seat.process.hears(None))
        return (
            seat._replace(process=seat.process.hears(seat.answer[0]), answer=())
            if seat.answer
            else seat._replace(sent=True)
        )

    def _gone_on(self, seat: Seat) -> Seat:
        wanted = self._routines.wants(seat.process)
        return seat._replace(process=Process(*wanted)) if isinstance(wanted, Goto) else seat

    # ---- what leaves no line

    def _closure(self, situations: Iterable[Situation], ahead: Ahead) -> set[Situation]:
        seen = set(situations)
        waiting = list(seen)
        while waiting:
            for then in self._unseen(waiting.pop(), ahead):
                if then not in seen:
                    seen.add(then)
                    waiting.append(then)
        return seen

    def _unseen(self, situation: Situation, ahead: Ahead) -> Iterator[Situation]:
        for seat in situation.seats:
            yield from self._at_work(situation, seat, ahead)
        yield from self._cluster(situation, ahead)

    def _at_work(self, situation: Situation, seat: Seat, ahead: Ahead) -> Iterator[Situation]:
        wanted = self._routines.wants(seat.process)
        if isinstance(wanted, Goto):
            yield situation.with_seat(seat, self._gone_on(seat))
        elif isinstance(wanted, (Stop, Done)) or (seat.last and isinstance(wanted, (OwnerStep, Choose))):
            yield situation.with_seat(seat, None)
        elif isinstance(wanted, Choose):
            for option in wanted.options:
                yield situation.with_seat(seat, seat._replace(process=seat.process.hears(option)))
        elif not isinstance(wanted, (OwnerStep, ReadCheckpoint)) and not seat.answer:
            for reply, broker in self._answers(
                situation.broker, wanted, ahead, may_fail=ahead.following.get(seat.pid) is OwnerStep.ABORT_SENT
            ):
                behind = situation._replace(broker=broker)
                if reply is None:
                    yield behind
                elif isinstance(wanted, End) and wanted.announced and not seat.sent:
                    # the log may be behind the network, not before it
                    yield behind.with_seat(seat, None if seat.last else seat._replace(answer=(reply,)))
                else:
                    yield behind.with_seat(seat, seat._replace(process=seat.process.hears(reply), sent=False))

    def _answers(self, broker: Broker, request: Any, ahead: Ahead, *, may_fail: bool) -> Iterator[tuple[Any, Broker]]:
        for reply, after, _ in self._kafka.answers(broker, request):
            for settled in self._with_markers(after, ahead):
                yield reply, settled
                if may_fail and isinstance(request, (Produce, Add)):
                    yield FAILED, settled
        if may_fail and isinstance(request, (Produce, Add)):
            yield FAILED, broker  # a task dies, the time is up, the user aborts
        if isinstance(request, StableOffset) and self._allowed.progress_alone:
            yield _ANOTHER_OFFSET, broker
        if isinstance(request, StableOffset):
            yield PENDING, broker

    def _with_markers(self, broker: Broker, ahead: Ahead) -> Iterator[Broker]:
        """Markers land at once, or never: a log cannot tell whether they came later, since whoever depends on them
        waits for them.
        """
        now = broker.coordinator
        if now.state != PREPARE or now.former is None:
            yield broker
            return
        complete = broker._replace(coordinator=now._replace(state=COMPLETE, pending=()))
        for lost in range(len(now.pending) + 1 if self._allowed.lost_markers and ahead.healed else 1):
            for away in combinations(now.pending, lost):
                settled = complete
                for index in now.pending:
                    if index not in away:
                        settled = self._kafka.land(settled, index, now.former, now.decision)
                yield settled

    def _cluster(self, situation: Situation, ahead: Ahead) -> Iterator[Situation]:
        broker, now = situation.broker, situation.broker.coordinator
        if now.state == ONGOING:
            for expired in self._with_markers(self._kafka.prepare(broker, ABORT), ahead):
                yield situation._replace(broker=expired)
        if self._allowed.expired_ids and now.known and now.state in (EMPTY, COMPLETE) and situation.seats:
            unknown = now._replace(known=False, state=EMPTY, decision="", former=None, added=(), pending=())
            yield situation._replace(broker=broker._replace(coordinator=unknown))
        if self._allowed.strangers and ahead.ending and now.former != _STRANGER and situation.seats:
            for reply, after, _ in self._kafka.answers(broker, Init()):
                for settled in self._with_markers(after, ahead):
                    taken = (
                        settled._replace(coordinator=settled.coordinator._replace(former=_STRANGER))
                        if reply is not None
                        else settled
                    )
                    yield situation._replace(broker=taken)


@lru_cache(maxsize=50_000)
def _identity(process: Process) -> Identity:
    """Return the newest identity that a process knows, its own or a later one. Without any, return one that is never
    outdated.
    """
    return max(_identities(process), default=_UNKNOWN)


def _identities(value: Any) -> Iterator[Identity]:
    if isinstance(value, Identity):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _identities(part)


def _pruned(situation: Situation) -> Situation:
    """Return the same situation without what nothing can depend on any more: the records before the newest committed
    one, and all that is settled.
    """
    broker = situation.broker
    progress = broker.partitions[PROGRESS]
    newest = reading(progress.log).newest
    if newest is not None and FOREIGN not in progress.log:
        at = max(
            at
            for at, entry in enumerate(progress.log)
            if isinstance(entry, Record) and entry.identity == newest.identity
        )
        if not any(not seen.outcome for seen in reading(progress.log[:at]).records):
            progress = progress._replace(log=progress.log[at:])
    opened = {rows.identity for partition in broker.partitions for rows in partition.open}
    partitions = tuple(
        (progress if index == PROGRESS else partition)._replace(
            behind=tuple(row for row in partition.behind if row[0] in opened)
        )
        for index, partition in enumerate(broker.partitions)
    )
    return situation._replace(
        broker=broker._replace(partitions=partitions, truth=tuple(row for row in broker.truth if row[0] in opened))
    )
