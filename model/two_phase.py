"""Prepared transactions and a database, state by state: brokers and a database that answer as measured, owners one
after the other or at once, lost answers, late requests, timeouts and kills between any two requests.

Kafka here is a coordinator of many ids, each with one transaction after the other; partitions, markers and healing are
in :mod:`model.broker`. The database takes one COMMIT at a time on the owner row, as its lock sees to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from model.broker import Wrong
from model.faults import Move
from model.process import Process, Routines
from model.requests import ABORT, COMMIT
from model.two_phase_owner import (
    LOST,
    AskFree,
    CommitDatabase,
    EndPrepared,
    Forget,
    HasText,
    InitUnit,
    Key,
    ListOpen,
    LockOwner,
    Mistakes,
    RaiseNumber,
    RaiseOwn,
    ReadRows,
    ReadTexts,
    SendRows,
    SkipEpoch,
    StillOpen,
    TwoPhaseOwner,
)
from model.world import DEAD, OFF, Start, When, is_due, owner_name

__all__ = ["Prepares", "Trouble", "TwoPhase"]

EMPTY, OPEN = "Empty", "Ongoing"
DONE = "done"


class Trouble(IntEnum):
    """The faults that may happen although all keep to the procedure."""

    CRASH = 0  # an owner crashes between two requests
    INIT_LOST = 1  # InitProducerId is not answered; it may come at any later moment
    COMMIT_LOST = 2  # the database does not answer a COMMIT: it has done it, has not, or does it later
    END_LOST = 3  # no broker answers EndTxn in time; one that skips an epoch may come at any later moment
    EXPIRES = 4  # a transaction times out (bounded)


@dataclass(frozen=True)
class Prepares:
    """The explored setting."""

    name: str
    owners: tuple[Start, ...] = (Start(),)
    faults: Mapping[Trouble, int] = field(default_factory=dict)
    units: int = 2
    #: Brokers before 4.2: an epoch is skipped where an id goes on.
    late_markers: bool = False
    finds: str = ""
    breaks: Mistakes = field(default_factory=Mistakes)


class Transactional(NamedTuple):
    """One id at its coordinator: what is open at its newest epoch, and how the transactions before it ended. EndTxn
    and InitProducerId each raise the epoch (KIP-890).
    """

    owner: int
    k: int
    epoch: int = 0
    state: str = EMPTY
    unit: int = -1
    ended: tuple[tuple[int, str], ...] = ()


class Database(NamedTuple):
    """The committed state: the owner row, the texts, the units; and the transaction that holds the owner row."""

    number: int = 0
    holder: int = -1
    texts: tuple[Key, ...] = ()
    units: tuple[int, ...] = ()
    decided: tuple[Key, ...] = ()
    locked: LockOwner | None = None
    on_its_way: bool = False  # its COMMIT was sent, and nobody waits for the answer any more


class Scene(NamedTuple):
    """A state."""

    ids: tuple[Transactional, ...]
    database: Database
    owners: tuple[Process | str, ...]
    late: tuple[InitUnit | SkipEpoch, ...]
    expired: tuple[Key, ...]
    left: tuple[int, ...]

    def spend(self, fault: Trouble) -> Scene:
        left = self.left
        return self._replace(left=(*left[:fault], left[fault] - 1, *left[fault + 1 :]))

    def with_owner(self, index: int, owner: Process | str) -> Scene:
        return self._replace(owners=(*self.owners[:index], owner, *self.owners[index + 1 :]))

    def find(self, owner: int, k: int) -> Transactional | None:
        return next((one for one in self.ids if (one.owner, one.k) == (owner, k)), None)

    def with_id(self, changed: Transactional) -> Scene:
        others = (one for one in self.ids if (one.owner, one.k) != (changed.owner, changed.k))
        return self._replace(ids=tuple(sorted((*others, changed))))


def _held_back(world: Scene, asked: InitUnit | SkipEpoch) -> Scene:
    return world._replace(late=tuple(sorted((*world.late, asked), key=repr)))


Next = tuple[Move, Any]


class TwoPhase:
    """The rules of a setting. See :class:`model.explore.System`."""

    def __init__(self, setting: Prepares) -> None:
        self.setting = setting
        self._routines = Routines(
            TwoPhaseOwner(setting.breaks, setting.units, skips_epochs=setting.late_markers).routines()
        )
        self._rules: dict[type, Callable[[Scene, Any], Iterator[tuple[Any, Scene, Trouble | None]]]] = {
            ListOpen: self._list,
            RaiseNumber: self._raise,
            RaiseOwn: self._raise_own,
            ReadTexts: lambda scene, _: iter([(scene.database.texts, scene, None)]),
            ReadRows: lambda scene, _: iter([(len(scene.database.units), scene, None)]),
            InitUnit: self._init,
            SkipEpoch: self._skip,
            SendRows: self._send,
            StillOpen: self._still_open,
            AskFree: self._free,
            LockOwner: self._lock,
            CommitDatabase: self._commit,
            HasText: lambda scene, asked: iter([(asked.key in scene.database.texts, scene, None)]),
            EndPrepared: self._end,
            Forget: self._forget,
        }

    def first(self) -> Scene:
        """Before anything has happened."""
        left = tuple(self.setting.faults.get(fault, 0) for fault in Trouble)
        return Scene((), Database(), (OFF,) * len(self.setting.owners), (), (), left)

    def moves(self, world: Scene) -> list[Next]:
        """All that may happen."""
        return [*self._owners(world), *self._starts(world), *self._elsewhere(world)]

    def ends(self, world: Scene) -> tuple[str, ...]:
        """Return how each owner ended."""
        return tuple(owner if isinstance(owner, str) else "at work" for owner in world.owners)

    def wrong_at_the_end(self, world: Scene) -> str | None:
        """Somebody has finished, or has said why not: Kafka and the database have the same units."""
        for index, owner in enumerate(world.owners):
            if isinstance(owner, Process):
                return f"stuck: {owner_name(index)} waits for ever for {self._routines.wants(owner)}"
        if world.owners[-1] != DONE:
            said = str(world.owners[-1])
            return None if said.startswith("lost") and world.expired else f"the last owner stops: {said}"
        if world.database.units != tuple(range(self.setting.units)):
            return f"loss: the database has units {world.database.units}"
        if any(one.state == OPEN for one in world.ids):
            return "a transaction stays open, though an owner has finished"
        lost = [key for key in world.database.decided if key in world.expired]
        if lost and not any(str(owner).startswith("lost") for owner in world.owners):
            return "loss: what was decided has expired, and nobody has said so"
        return None

    # ---- owners

    def _owners(self, world: Scene) -> Iterator[Next]:
        for index, owner in enumerate(world.owners):
            if not isinstance(owner, Process):
                continue
            wanted: Any = self._routines.wants(owner)
            name = owner_name(index)
            for reply, after, fault in self._rules[type(wanted)](world, wanted):
                move = Move(name, f"{wanted}: {reply}", fault=fault is not None)
                if isinstance(after, Wrong):
                    yield move, after
                    continue
                process, steps = self._routines.advance(owner.hears(reply))
                following = after.with_owner(index, process)
                yield move._replace(steps=steps), following.spend(fault) if fault is not None else following
            spared = self.setting.owners[index].when is When.LAST
            if world.left[Trouble.CRASH] and not spared:
                yield Move(name, "crashes", fault=True), self._crashed(world, index)

    def _crashed(self, world: Scene, index: int) -> Scene:
        world = world.spend(Trouble.CRASH).with_owner(index, DEAD)
        held = world.database.locked
        if held is not None and held.owner == index and not world.database.on_its_way:
            # its connection is gone: rolled back, unless the COMMIT was sent a moment before
            world = world._replace(database=world.database._replace(on_its_way=True))
        return world

    def _starts(self, world: Scene) -> Iterator[Next]:
        for index, start in enumerate(self.setting.owners):
            if world.owners[index] != OFF:
                continue
            if is_due(start.when, world.owners, index):
                process, steps = self._routines.advance(Process("recover", (index, 0)))
                yield Move(owner_name(index), "is started", steps=steps), world.with_owner(index, process)

    # ---- what nobody waits for

    def _elsewhere(self, world: Scene) -> Iterator[Next]:
        base = world.database
        if base.locked is not None and base.on_its_way:
            yield Move("database", "the COMMIT arrives"), self._applied(world, base.locked)
            rolled = base._replace(locked=None, on_its_way=False)
            yield Move("database", "rolls back"), world._replace(database=rolled)
        for number, request in enumerate(world.late):
            rest = world._replace(late=(*world.late[:number], *world.late[number + 1 :]))
            skips = isinstance(request, SkipEpoch)
            _, after = self._skipped(rest, request) if skips else self._initialised(rest, request)
            yield Move("network", f"late: {request}"), after
            yield Move("network", f"never comes: {request}"), rest
        if world.left[Trouble.EXPIRES]:
            for one in world.ids:
                if one.state == OPEN:
                    key = Key(one.owner, one.k, one.epoch)
                    after = world.spend(Trouble.EXPIRES)._replace(expired=tuple(sorted((*world.expired, key))))
                    yield Move("coordinator", f"{key} times out", fault=True), after.with_id(self._ended(one, ABORT))

    # ---- Kafka

    def _ended(self, one: Transactional, decision: str) -> Transactional:
        epoch = one.epoch if self.setting.breaks.old_epoch else one.epoch + 1
        return one._replace(epoch=epoch, state=decision, ended=(*one.ended, (one.epoch, decision)))

    def _list(self, world: Scene, _: ListOpen) -> Iterator[tuple[Any, Any, Trouble | None]]:
        yield tuple(Key(one.owner, one.k, one.epoch) for one in world.ids if one.state == OPEN), world, None

    def _initialised(self, world: Scene, asked: Any) -> tuple[Key, Any]:
        known = world.find(asked.owner, asked.k)
        if known is None:
            known = Transactional(asked.owner, asked.k)
        else:
            if known.state == OPEN:  # whatever it held is aborted
                key = Key(known.owner, known.k, known.epoch)
                if key in world.database.decided:
                    return key, Wrong(f"torn: unit {known.unit} is in the database, and aborted in Kafka")
                known = self._ended(known, ABORT)
            known = known._replace(epoch=known.epoch + 1, state=EMPTY, unit=-1)
        return Key(known.owner, known.k, known.epoch), world.with_id(known)

    def _init(self, world: Scene, asked: InitUnit) -> Iterator[tuple[Any, Any, Trouble | None]]:
        key, after = self._initialised(world, asked)
        yield key, after, None
        if world.left[Trouble.INIT_LOST]:
            yield LOST, _held_back(world, asked), Trouble.INIT_LOST

    def _skipped(self, world: Scene, asked: Any) -> tuple[Key | None, Any]:
        key: Key = asked.key
        one = world.find(key.owner, key.k)
        following = key._replace(epoch=key.epoch + 1)
        if one is None or one.epoch not in (key.epoch, following.epoch):
            return None, world
        if one.epoch == following.epoch:  # a repeat, unless something has begun since
            return (following, world) if one.state == ABORT and one.ended[-1] == (key.epoch, ABORT) else (None, world)
        if one.state == OPEN and key in world.database.decided:
            return None, Wrong(f"torn: unit {one.unit} is in the database, and aborted in Kafka")
        return following, world.with_id(self._ended(one, ABORT))

    def _skip(self, world: Scene, asked: SkipEpoch) -> Iterator[tuple[Any, Any, Trouble | None]]:
        key, after = self._skipped(world, asked)
        yield key, after, None
        if world.left[Trouble.END_LOST]:
            yield LOST, _held_back(world, asked), Trouble.END_LOST
            yield LOST, after, Trouble.END_LOST

    def _send(self, world: Scene, asked: SendRows) -> Iterator[tuple[Any, Any, Trouble | None]]:
        one = world.find(asked.key.owner, asked.key.k)
        mine = one is not None and one.epoch == asked.key.epoch and one.state != OPEN
        yield mine, world.with_id(one._replace(state=OPEN, unit=asked.unit)) if mine and one else world, None

    def _still_open(self, world: Scene, asked: StillOpen) -> Iterator[tuple[Any, Any, Trouble | None]]:
        one = world.find(asked.key.owner, asked.key.k)
        yield one is not None and one.epoch == asked.key.epoch and one.state == OPEN, world, None

    def _free(self, world: Scene, asked: AskFree) -> Iterator[tuple[Any, Any, Trouble | None]]:
        one = world.find(asked.key.owner, asked.key.k)
        yield one is not None and one.state in (COMMIT, ABORT), world, None

    def _end(self, world: Scene, asked: EndPrepared) -> Iterator[tuple[Any, Any, Trouble | None]]:
        key = asked.key
        one = world.find(key.owner, key.k)
        if one is None:
            yield ABORT, world, None
            return
        if key.epoch == -1:  # a mistake: whatever it has now
            key = key._replace(epoch=one.epoch)
        if world.left[Trouble.END_LOST] and asked.decision == COMMIT:
            yield LOST, world, Trouble.END_LOST
        if key.epoch == one.epoch and one.state == OPEN:
            decided = key in world.database.decided
            if asked.decision == COMMIT and not decided:
                yield asked.decision, Wrong(f"torn: Kafka shows unit {one.unit}, which the database lacks"), None
            elif asked.decision == ABORT and decided:
                yield asked.decision, Wrong(f"torn: unit {one.unit} is in the database, and aborted in Kafka"), None
            else:
                yield asked.decision, world.with_id(self._ended(one, asked.decision)), None
            return
        # the coordinator, or the markers behind the rows, say how it ended
        yield dict(one.ended).get(key.epoch, ABORT), world, None

    # ---- the database

    def _raise(self, world: Scene, asked: RaiseNumber) -> Iterator[tuple[Any, Any, Trouble | None]]:
        base = world.database
        if base.locked is None:
            raised = base._replace(number=base.number + 1, holder=asked.owner)
            yield raised.number, world._replace(database=raised), None

    def _raise_own(self, world: Scene, asked: RaiseOwn) -> Iterator[tuple[Any, Any, Trouble | None]]:
        base = world.database
        if base.locked is None:
            if base.holder != asked.owner:
                yield None, world, None
            else:
                raised = base._replace(number=base.number + 1)
                yield raised.number, world._replace(database=raised), None

    def _lock(self, world: Scene, asked: LockOwner) -> Iterator[tuple[Any, Any, Trouble | None]]:
        base = world.database
        if base.locked is None:
            mine = base.number == asked.number or self.setting.breaks.no_guard
            yield mine, world._replace(database=base._replace(locked=asked)) if mine else world, None

    def _commit(self, world: Scene, asked: CommitDatabase) -> Iterator[tuple[Any, Any, Trouble | None]]:
        held = world.database.locked
        if held is None or held.key != asked.key:
            return
        yield DONE, self._applied(world, held), None
        if world.left[Trouble.COMMIT_LOST]:
            yield LOST, self._applied(world, held), Trouble.COMMIT_LOST
            rolled = world.database._replace(locked=None)
            yield LOST, world._replace(database=rolled), Trouble.COMMIT_LOST
            yield LOST, world._replace(database=world.database._replace(on_its_way=True)), Trouble.COMMIT_LOST

    def _applied(self, world: Scene, held: LockOwner) -> Any:
        base = world.database
        one = world.find(held.key.owner, held.key.k)
        known = one is not None and (one.epoch, one.state) == (held.key.epoch, OPEN)
        ended = dict(one.ended).get(held.key.epoch) if one is not None and not known else None
        if ended == ABORT and held.key not in world.expired:
            return Wrong(f"torn: unit {held.unit} is in the database, and aborted in Kafka")
        if held.unit in base.units:
            return Wrong(f"a duplicate: unit {held.unit} is in the database twice")
        return world._replace(
            database=base._replace(
                texts=tuple(sorted((*base.texts, held.key))),
                units=tuple(sorted((*base.units, held.unit))),
                decided=tuple(sorted((*base.decided, held.key))),
                locked=None,
                on_its_way=False,
            )
        )

    def _forget(self, world: Scene, asked: Forget) -> Iterator[tuple[Any, Any, Trouble | None]]:
        base = world.database
        left = tuple(key for key in base.texts if key != asked.key)
        yield True, world._replace(database=base._replace(texts=left)), None
