"""The owner: PROTOCOL 2 (taking over), 3 (one transaction), 4 (what an answer means) and 5 (markers and healing).

Each procedure is a generator. It yields a request and is sent the answer, and yields an :class:`~semel.steps.OwnerStep`
when it passes that step, so that the same code is explored (:mod:`model.explore`) and accepts the step logs of real
runs (:mod:`model.replay`). What drives the owner, Spark with its checkpoint or anybody else, is elsewhere
(:mod:`model.query`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from model.mutations import Breaks
from model.process import Part, Stop
from model.progress import Reading, Seen, reading
from model.requests import (
    ABORT,
    COMMIT,
    FAILED,
    NOT_OURS,
    OFFSETS,
    OK,
    OUT0,
    OUT1,
    PENDING,
    PROGRESS,
    WRONG_STATE,
    Add,
    Choose,
    Claim,
    Decide,
    Describe,
    End,
    Identity,
    Init,
    MarkerBehind,
    OpenRows,
    Position,
    Produce,
    ReadToHigh,
    ReadToStable,
    StableOffset,
    WriteMarker,
)
from semel.steps import OwnerStep

__all__ = ["AGAIN", "Ended", "Held", "Owner", "Work"]

#: The id had expired unused while nothing was open: everything begins anew.
AGAIN = Stop("the id expired unused: all again")
#: Control ``init_again``: a fenced owner takes another identity and goes on.
INIT_AGAIN = Stop("control: InitProducerId again")
_ROUNDS = 6


class Held(NamedTuple):
    """The state of an owner between transactions.

    Its identity, the newest committed record, the partitions whose markers it has checked, and the producer ids that
    the id's owners had before.
    """

    identity: Identity
    newest: Seen | None
    checked: tuple[int, ...]
    former: tuple[int, ...]

    def having_checked(self, *partitions: int) -> Held:
        """Return the same, with more checked partitions."""
        return self._replace(checked=tuple(sorted({*self.checked, *partitions})))


class Work(NamedTuple):
    """The work of one transaction: rows by output partition, and the position in its progress record.

    Without rows no tickets are cut. ``offsets`` is whether the group's offsets go into it, if there is a group. None
    means that it is chosen in the transaction.
    """

    rows: tuple[tuple[int, tuple[int, ...]], ...]
    position: Position
    offsets: bool | None = True


class Ended(NamedTuple):
    """A transaction that the coordinator has ended, the identity to go on with, and where its markers are due.

    ``early`` is how an abort came about that this owner did not want: it had expired, or a rival was here.
    """

    identity: Identity
    decision: str
    held: Held
    partitions: tuple[int, ...]
    early: bool = False


class Owner:
    """The procedures.

    ``outputs`` are the partitions that the sink knows when it takes over; ``group`` is whether offsets are committed
    too. With ``one_writer`` the partitions' leaders add them with the first rows, and not the owner. ``skips_epochs``
    is whether an epoch is left out after each transaction, as on brokers before 4.2; both, where a log does not say it.
    """

    def __init__(
        self,
        breaks: Breaks,
        *,
        outputs: tuple[int, ...] = (OUT0, OUT1),
        group: bool = False,
        one_writer: bool = False,
        skips_epochs: tuple[bool, ...] = (False,),
    ) -> None:
        self.breaks = breaks
        self.skips_epochs = skips_epochs
        self.one_writer = one_writer
        self.outputs = outputs
        self.group = group

    # ---- taking over (PROTOCOL 2)

    def take_over(self, *, group_in_view: bool = True) -> Part:
        """Fence, then read, then see markers, then set the group right. Returns :class:`Held` or :class:`Stop`.

        ``group_in_view``: progress says what the group should show. Else its markers are seen in front of the first
        offsets.
        """
        held = yield from self._fence_and_read()
        if self.group and group_in_view and isinstance(held, Held) and held.newest is not None:
            return (yield from self._restore_group(held, held.newest))
        return held

    def _fence_and_read(self) -> Part:
        """Take steps 1 to 4. Return :class:`Held` or :class:`Stop`."""
        _, hinted = yield Describe()
        early = (yield Claim()) if self.breaks.claim_first else None
        identity = yield Init()
        yield OwnerStep.INITIALISED
        while True:
            known = reading(early if early is not None else (yield from self._read_log()))
            yield OwnerStep.CLAIMED
            yield OwnerStep.PROGRESS_READ
            if self._rival(identity, [seen.identity for seen in known.records]):
                return Stop("fenced: progress was written at our own epoch")
            partitions = self._to_look_at(known, hinted)
            stop = yield from self.see_markers(identity, partitions, known=known)
            if stop:
                return stop
            yield OwnerStep.MARKERS_CHECKED
            if not known.open or self.breaks.no_rereading or self.breaks.no_markers or self.breaks.no_healing:
                break
            early = None
        return Held(
            identity, known.newest, partitions, tuple(sorted({seen.identity.producer for seen in known.records}))
        )

    def _read_log(self) -> Part:
        if self.breaks.read_to_stable:
            return (yield ReadToStable())
        return (yield ReadToHigh() if self.breaks.read_to_high else Claim())

    def _to_look_at(self, known: Reading, hinted: tuple[int, ...]) -> tuple[int, ...]:
        records = [*known.open, *([known.newest] if known.newest else [])]
        named = {index for seen in records for index in seen.position.wrote}
        return tuple(sorted({*self.outputs, *hinted, *named, PROGRESS} - {OFFSETS}))

    def _restore_group(self, held: Held, newest: Seen) -> Part:
        """Step 5: the markers of the group's offsets. Progress is the truth, the group a view of it."""
        stop = yield from self.see_markers(held.identity, (OFFSETS,), former=held.former)
        if stop:
            return stop
        held = held.having_checked(OFFSETS)
        offset = yield StableOffset()
        if offset == PENDING:  # our own abort tells whether somebody has come since
            code, _ = yield End(held.identity, ABORT, announced=True)
            yield OwnerStep.ABORT_ANSWERED
            return Stop("the group's offsets stay pending") if code == OK else (yield from self._lost(code))
        if offset == newest.position.end:
            return held
        ended = yield from self.transact(held, Work((), newest.position._replace(wrote=())))
        if isinstance(ended, Stop):
            return ended
        settled = yield from self.settle(ended)
        return settled if isinstance(settled, Stop) or ended.decision == COMMIT else AGAIN

    # ---- one transaction (PROTOCOL 3)

    def transact(self, held: Held, work: Work) -> Part:
        """Begin, write, end.

        Returns :class:`Ended` or :class:`Stop`; the markers are still to be seen (:meth:`settle`).
        """
        yield OwnerStep.BEGUN
        outputs = tuple(index for index, _ in work.rows)
        if not outputs:  # progress and offsets alone: nobody is handed a ticket
            yield OwnerStep.WRITTEN
        added = yield from self._add(held, (*outputs, PROGRESS))
        if not isinstance(added, Held):
            return added
        yield OwnerStep.PARTITIONS_ADDED
        held = added
        code: Any = OK
        for index, rows in work.rows:
            code = yield Produce(held.identity, index, rows)
            if code == FAILED and self.breaks.no_proof:
                code = OK
            if code != OK:  # without a receipt of each task there is no proof
                return (yield from self._abort(held, outputs, early=code != FAILED))
        if outputs:
            yield OwnerStep.WRITTEN
        alone = not outputs and self.breaks.offsets_alone
        if not alone:
            code = yield Produce(held.identity, PROGRESS, work.position)
            if code != OK:
                return (yield from self._abort(held, outputs, early=code != FAILED))
            yield OwnerStep.PROGRESS_WRITTEN
        offsets = yield from self._has_offsets(work)
        if offsets:
            if OFFSETS not in held.checked:  # the request that follows is the one that adds this partition
                stop = yield from self.see_markers(held.identity, (OFFSETS,), former=held.former)
                if stop:
                    return stop
                held = held.having_checked(OFFSETS)
            code = yield Produce(held.identity, OFFSETS, work.position.end)
            if code != OK:
                return (yield from self._abort(held, outputs, early=code != FAILED))
            yield OwnerStep.OFFSETS_ADDED
        return (yield from self._commit(held, work, outputs, offsets=offsets))

    def _has_offsets(self, work: Work) -> Part:
        """Return whether the group's offsets go into a transaction. They are a view, and may come later."""
        if self.group and work.offsets is None:
            return (yield Choose((True, False)))
        return self.group and work.offsets

    def _add(self, held: Held, partitions: tuple[int, ...]) -> Part:
        """AddPartitionsToTxn, behind a look at what this ownership adds for the first time."""
        new = tuple(index for index in partitions if index not in held.checked)
        if new:
            stop = yield from self.see_markers(held.identity, new, former=held.former)
            if stop:
                return stop
            held = held.having_checked(*new)
        added = (PROGRESS,) if self.one_writer else partitions
        code = yield Add(held.identity, added)
        if code == NOT_OURS and not (yield Describe())[0]:
            # it had expired unused: taken over again, and on only if nobody came in between
            again = yield from self._fence_and_read()
            if not isinstance(again, Held):
                return again
            if again.newest != held.newest:
                return Stop("fenced: another owner used the id after it had expired")
            held = again
            code = yield Add(held.identity, added)
        # it may be mere expiry, of what a lost answer had begun: our own abort tells
        return held if code == OK else (yield from self._abort(held, (), early=True))

    def _commit(self, held: Held, work: Work, outputs: tuple[int, ...], *, offsets: bool) -> Part:
        identity = held.identity
        code, following = yield End(identity, COMMIT, announced=True)
        yield OwnerStep.COMMIT_ANSWERED
        if code == WRONG_STATE:
            return (yield from self._abort(held, outputs, early=True))
        if code != OK:
            return (yield from self._lost(code))
        newest = Seen(identity, work.position, COMMIT)
        return Ended(
            identity, COMMIT, held._replace(identity=following, newest=newest), self._due(outputs, offsets=offsets)
        )

    def _abort(self, held: Held, outputs: tuple[int, ...], *, early: bool) -> Part:
        """EndTxn(abort) with our own epoch. 0: we may go on; else another owner is there."""
        code, following = yield End(held.identity, ABORT, announced=True)
        yield OwnerStep.ABORT_ANSWERED
        if code == WRONG_STATE:
            return AGAIN  # it was committed; only taking over brings the next identity
        if code != OK:
            return (yield from self._lost(code))
        return Ended(
            held.identity, ABORT, held._replace(identity=following), self._due(outputs, offsets=self.group), early
        )

    def _due(self, outputs: tuple[int, ...], *, offsets: bool) -> tuple[int, ...]:
        return (*outputs, PROGRESS, OFFSETS) if offsets else (*outputs, PROGRESS)

    def settle(self, ended: Ended) -> Part:
        """See the markers of a transaction, then skip their epoch. Returns :class:`Held` or :class:`Stop`."""
        held = ended.held
        if self.breaks.no_wait:
            return held
        stop = yield from self.see_markers(held.identity, ended.partitions, ended=ended)
        if stop:
            return stop
        yield OwnerStep.MARKERS_SEEN
        if self.skips_epochs[0] if len(self.skips_epochs) == 1 else (yield Choose(self.skips_epochs)):
            code, following = yield End(held.identity, ABORT)
            held = held._replace(identity=following) if code == OK else held  # the next request is refused, too
            yield OwnerStep.EPOCH_SKIPPED
        return held

    def _lost(self, code: int) -> Part:
        """Stop because the identity is not ours any more (PROTOCOL 4, rows 90, 47 and 49). Return :class:`Stop`."""
        if code == NOT_OURS and not (yield Describe())[0]:
            return AGAIN  # nobody took it: it expired unused
        if self.breaks.init_again:
            return INIT_AGAIN
        yield Claim()  # progress says how our last transaction ended
        return Stop("fenced: another owner has the id")

    # ---- markers and healing (PROTOCOL 5)

    def see_markers(
        self,
        identity: Identity,
        partitions: tuple[int, ...],
        *,
        former: tuple[int, ...] = (),
        known: Reading | None = None,
        ended: Ended | None = None,
    ) -> Part:
        """Until nothing of ours is open on these partitions; a marker that is lost is written.

        Returns None or :class:`Stop`.
        """
        if self.breaks.no_markers:
            return None
        producers = {
            identity.producer,
            *former,
            *([ended.identity.producer] if ended else []),
            *(seen.identity.producer for seen in (known.records if known else ())),
        }
        asked = ended is None
        for _ in range(_ROUNDS):
            found: dict[int, tuple[Identity, ...]] = {}
            for index in partitions:
                opened = yield OpenRows(index, tuple(sorted(producers)))
                if opened:
                    found[index] = opened
            if not found:
                return None
            if self._rival(identity, [one for opened in found.values() for one in opened]):
                return Stop("fenced: rows at our own epoch")
            if ended is not None and not asked:
                # while the coordinator still writes markers it does not answer; what is open behind its answer is lost
                asked = True
                code, _ = yield End(ended.identity, ended.decision)
                if code != OK:
                    return (yield from self._lost(code))
                continue
            if self.breaks.no_healing:
                return None
            if any(
                one.producer != identity.producer and not (ended and one == ended.identity)
                for opened in found.values()
                for one in opened
            ):
                stop = yield from self._refuse_succeeded(identity)
                if stop:
                    return stop
            stop = yield from self._heal(identity, found, known, ended)
            if stop:
                return stop
        return Stop("broken: a healed partition does not stay healed")

    def _rival(self, identity: Identity, found: list[Identity]) -> bool:
        return not self.breaks.no_rival_check and any(
            one.producer == identity.producer and one.epoch >= identity.epoch for one in found
        )

    def _refuse_succeeded(self, identity: Identity) -> Part:
        """Another producer id is of an owner before us only while ours is the id's own: behind its expiry it may be our
        successor's.
        """
        now, _ = yield Describe()
        if self.breaks.no_id_check or (now is not None and now.producer == identity.producer):
            return None
        return AGAIN if now is None else Stop("fenced: another owner used the id after it had expired")

    def _heal(
        self, identity: Identity, found: Mapping[int, tuple[Identity, ...]], known: Reading | None, ended: Ended | None
    ) -> Part:
        """Write the markers that were lost, as each transaction was decided."""
        for one in sorted({one for opened in found.values() for one in opened}):
            own = ended is not None and one == ended.identity
            if own and ended is not None:
                decision: Any = ended.decision
                yield Decide(one, ended.decision)
                yield OwnerStep.DECISION_WRITTEN
            else:
                if known is None:
                    known = reading((yield Claim()))
                decision = yield from self._decision(one, known)
            if self.breaks.heal_as_abort:
                decision = ABORT
            if decision is None:
                code, _ = yield End(identity, ABORT)
                return (
                    Stop("unknown: whether a transaction was committed is lost")
                    if code == OK
                    else (yield from self._lost(code))
                )
            for index, opened in sorted(found.items()):
                if one in opened:
                    yield WriteMarker(index, one, decision)
                    yield OwnerStep.HEALED
        return None

    def _decision(self, one: Identity, known: Reading) -> Part:
        """Return the outcome of a predecessor's transaction by what it left, or None if nothing shows it (PROTOCOL
        5.3).
        """
        if one in known.decided:
            return known.decided[one]
        record = next((seen for seen in reversed(known.records) if seen.identity == one), None)
        if record is None:  # progress is written last: without it nothing was committed
            return None if any(seen.identity > one for seen in known.records) else ABORT
        if record.outcome:
            return record.outcome
        for index in record.position.wrote:
            decision = yield MarkerBehind(index, one)
            if decision:
                return decision
        return None
