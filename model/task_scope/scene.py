"""Task scope, state by state: brokers that answer as measured, drivers one after the other or at once, attempts of
tasks that outlive them, lost answers, timeouts and kills between any two requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

from model.broker import Wrong
from model.faults import Move
from model.process import Process, Routines
from model.requests import ABORT, COMMIT
from model.task_scope.roles import (
    ENDED,
    OK,
    REFUSED,
    AbortPart,
    Attempt,
    Begin,
    EndOwner,
    EndPart,
    InitOwner,
    IsOpen,
    IsOwner,
    ListParts,
    LogBatch,
    Mistakes,
    NextBatch,
    NoteEnded,
    Outcome,
    Progress,
    Quiet,
    ReadProgress,
    Results,
    Roles,
    Run,
    WritePart,
)
from model.two_phase_owner import LOST
from model.world import DEAD, OFF, Start, When, is_due, owner_name

__all__ = ["TaskScope", "Tasks", "Trouble"]

OPEN = "open"
DONE = "done"


class Trouble(IntEnum):
    """The faults that may happen although all keep to the procedure."""

    CRASH = 0  # a driver crashes between two requests; its tasks live on
    ATTEMPT = 1  # a task is run once more while its first attempt is at work: speculation, or a silent executor
    TASK_DIES = 2  # an attempt dies, and Spark runs the task again
    COMMIT_LOST = 3  # nobody answers the deciding EndTxn: it was done, was not, or comes at any later moment
    EXPIRES = 4  # a part times out (bounded)


@dataclass(frozen=True)
class Tasks:
    """The explored setting."""

    name: str
    drivers: tuple[Start, ...] = (Start(),)
    faults: Mapping[Trouble, int] = field(default_factory=dict)
    batches: int = 2
    tasks: int = 2
    finds: str = ""
    breaks: Mistakes = field(default_factory=Mistakes)


class Owner(NamedTuple):
    """The prefix's id at its coordinator: its epoch, what is open, and how the transaction before ended."""

    epoch: int = -1
    open: Progress | None = None
    ended: tuple[int, str] | None = None


class Scene(NamedTuple):
    """A state. ``next_batch`` is Spark's checkpoint; ``parts`` are the transactions of attempts."""

    owner: Owner
    progress: tuple[Progress, ...]
    noted: tuple[int, ...]
    parts: tuple[tuple[Attempt, str], ...]
    next_batch: int
    drivers: tuple[Process | str, ...]
    attempts: tuple[tuple[Attempt, Process | str], ...]
    late: tuple[int, ...]
    expired: tuple[Attempt, ...]
    left: tuple[int, ...]

    def spend(self, fault: Trouble) -> Scene:
        left = self.left
        return self._replace(left=(*left[:fault], left[fault] - 1, *left[fault + 1 :]))

    def with_driver(self, driver: Process | str, index: int) -> Scene:
        return self._replace(drivers=(*self.drivers[:index], driver, *self.drivers[index + 1 :]))

    def with_attempt(self, process: Process | str, attempt: Attempt) -> Scene:
        others = (one for one in self.attempts if one[0] != attempt)
        return self._replace(attempts=tuple(sorted((*others, (attempt, process)), key=lambda one: one[0])))

    def with_part(self, attempt: Attempt, state: str) -> Scene:
        others = (one for one in self.parts if one[0] != attempt)
        return self._replace(parts=tuple(sorted((*others, (attempt, state)))))

    def state_of(self, attempt: Attempt) -> str | None:
        return dict(self.parts).get(attempt)

    def decided(self, attempt: Attempt) -> bool:
        return any(attempt in record.parts for record in self.progress)


_AGAIN = ((Trouble.ATTEMPT, "is run once more"), (Trouble.TASK_DIES, "dies, and is run again"))
#: A possible answer, the state after it, and the fault that it takes.
_Answers = Iterator[tuple[Any, Scene | Wrong, Trouble | None]]
Next = tuple[Move, Any]


class TaskScope:
    """The rules of a setting. See :class:`model.explore.System`."""

    def __init__(self, setting: Tasks) -> None:
        self.setting = setting
        self._routines = Routines(Roles(setting.breaks, setting.batches).routines())
        self._rules: dict[type, Callable[[Scene, Any], _Answers]] = {
            ListParts: lambda scene, _: iter([(tuple(a for a, state in scene.parts if state == OPEN), scene, None)]),
            InitOwner: self._init,
            ReadProgress: self._read,
            Outcome: lambda scene, asked: iter([(any(r.epoch == asked.epoch for r in scene.progress), scene, None)]),
            NextBatch: lambda scene, _: iter([(scene.next_batch, scene, None)]),
            Results: self._results,
            IsOwner: lambda scene, asked: iter([(scene.owner.epoch == asked.run.epoch, scene, None)]),
            WritePart: lambda scene, asked: iter([(OK, scene.with_part(asked.attempt, OPEN), None)]),
            Begin: self._begin,
            IsOpen: lambda scene, asked: iter([(all(scene.state_of(p) == OPEN for p in asked.parts), scene, None)]),
            EndOwner: self._end_owner,
            EndPart: lambda scene, asked: self._end_part(scene, asked.part, asked.decision),
            AbortPart: lambda scene, asked: self._end_part(scene, asked.attempt, ABORT),
            NoteEnded: lambda scene, asked: iter(
                [(OK, scene._replace(noted=tuple(sorted({*scene.noted, asked.epoch}))), None)]
            ),
            LogBatch: lambda scene, asked: iter(
                [(OK, scene._replace(next_batch=max(scene.next_batch, asked.batch + 1)), None)]
            ),
            Quiet: self._quiet,
        }

    def first(self) -> Scene:
        """Before anything has happened."""
        left = tuple(self.setting.faults.get(fault, 0) for fault in Trouble)
        return Scene(Owner(), (), (), (), 0, (OFF,) * len(self.setting.drivers), (), (), (), left)

    def moves(self, world: Scene) -> list[Next]:
        """All that may happen."""
        return [*self._drivers(world), *self._attempts(world), *self._starts(world), *self._elsewhere(world)]

    def ends(self, world: Scene) -> tuple[str, ...]:
        """Return how each driver ended."""
        return tuple(driver if isinstance(driver, str) else "at work" for driver in world.drivers)

    def wrong_at_the_end(self, world: Scene) -> str | None:
        """Say what is wrong unless each row is visible and no part is open, or the last driver has said why not."""
        for index, driver in enumerate(world.drivers):
            if isinstance(driver, Process):
                return f"stuck: {owner_name(index)} waits for ever for {self._routines.wants(driver)}"
        if world.drivers[-1] != DONE:
            said = str(world.drivers[-1])
            return None if said.startswith("lost") and world.expired else f"the last driver stops: {said}"
        visible = sorted((a.run.batch, a.task) for a, state in world.parts if state == COMMIT)
        if visible != [(batch, task) for batch in range(self.setting.batches) for task in range(self.setting.tasks)]:
            reported = any(str(driver).startswith("lost") for driver in world.drivers)
            return None if reported and world.expired else f"loss: readers see batches and tasks {visible}"
        if any(state == OPEN for _, state in world.parts):
            return "held back: a part is open after the last start"
        return None

    # ---- drivers and attempts

    def _drivers(self, world: Scene) -> Iterator[Next]:
        for index, driver in enumerate(world.drivers):
            if not isinstance(driver, Process):
                continue
            name = owner_name(index)
            for move, after in self._steps(world, name, driver, partial(Scene.with_driver, index=index)):
                yield move, self._started(after, index)
            if world.left[Trouble.CRASH] and self.setting.drivers[index].when is not When.LAST:
                yield Move(name, "crashes", fault=True), world.spend(Trouble.CRASH).with_driver(DEAD, index)

    def _attempts(self, world: Scene) -> Iterator[Next]:
        for attempt, process in world.attempts:
            if not isinstance(process, Process):
                continue
            name = _name(attempt)
            for move, after in self._steps(world, name, process, partial(Scene.with_attempt, attempt=attempt)):
                prepared = isinstance(after, Scene) and (attempt, DONE) in after.attempts
                if prepared and world.owner.epoch != attempt.run.epoch:
                    yield move, Wrong(f"held back: {name} is prepared under a former owner")
                else:
                    yield move, after
            awaited = isinstance(world.drivers[attempt.run.driver], Process)
            again = Attempt(attempt.run, attempt.task, attempt.number + 1)
            if awaited and all(again != other for other, _ in world.attempts):
                for fault, what in _AGAIN:
                    if world.left[fault]:
                        after = world.spend(fault).with_attempt(self._attempt(again), again)
                        dead = after.with_attempt(DEAD, attempt) if fault is Trouble.TASK_DIES else after
                        yield Move(name, what, fault=True), dead

    def _steps(
        self, world: Scene, name: str, process: Process, put: Callable[[Scene, Process | str], Scene]
    ) -> Iterator[Next]:
        wanted: Any = self._routines.wants(process)
        for reply, after, fault in self._rules[type(wanted)](world, wanted):
            move = Move(name, f"{wanted}: {reply}", fault=fault is not None)
            if isinstance(after, Wrong):
                yield move, after
                continue
            following, steps = self._routines.advance(process.hears(reply))
            there = put(after, following)
            yield move._replace(steps=steps), there.spend(fault) if fault is not None else there

    def _attempt(self, attempt: Attempt) -> Process | str:
        return self._routines.advance(Process("attempt", (attempt,)))[0]

    def _started(self, after: Any, index: int) -> Any:
        """Start the tasks of a run when its driver waits for them."""
        if isinstance(after, Wrong) or not isinstance(driver := after.drivers[index], Process):
            return after
        wanted: Any = self._routines.wants(driver)
        if isinstance(wanted, Results) and all(attempt.run != wanted.run for attempt, _ in after.attempts):
            for task in range(self.setting.tasks):
                attempt = Attempt(wanted.run, task, 0)
                after = after.with_attempt(self._attempt(attempt), attempt)
        return after

    def _starts(self, world: Scene) -> Iterator[Next]:
        for index, start in enumerate(self.setting.drivers):
            if world.drivers[index] != OFF:
                continue
            if is_due(start.when, world.drivers, index):
                process, steps = self._routines.advance(Process("plan", (index,)))
                yield Move(owner_name(index), "is started", steps=steps), world.with_driver(process, index)

    # ---- Spark

    def _results(self, world: Scene, asked: Results) -> _Answers:
        """Answer any attempt of each task that has prepared. One that was refused fails the query."""
        of_run = [(attempt, said) for attempt, said in world.attempts if attempt.run == asked.run]
        if any(said == REFUSED for _, said in of_run):
            yield None, world, None
            return
        choices: list[tuple[Attempt, ...]] = [()]
        for task in range(self.setting.tasks):
            prepared = [attempt for attempt, said in of_run if attempt.task == task and said == DONE]
            choices = [(*chosen, attempt) for chosen in choices for attempt in prepared]
        for chosen in choices:
            yield chosen, world, None

    def _quiet(self, world: Scene, _: Quiet) -> _Answers:
        if all(isinstance(process, str) for _, process in world.attempts):
            yield OK, world, None

    # ---- Kafka: the owner

    def _init(self, world: Scene, _: InitOwner) -> _Answers:
        owner = world.owner
        yield owner.epoch + 1, world._replace(owner=Owner(owner.epoch + 1)), None

    def _read(self, world: Scene, _: ReadProgress) -> _Answers:
        newest = world.progress[-1] if world.progress else None
        yield (newest, newest is not None and newest.epoch in world.noted), world, None

    def _begin(self, world: Scene, asked: Begin) -> _Answers:
        if asked.epoch != world.owner.epoch:
            yield REFUSED, world, None
            return
        opened = world.owner._replace(open=Progress(asked.epoch, asked.batch, asked.parts))
        yield OK, world._replace(owner=opened), None

    def _end_owner(self, world: Scene, asked: EndOwner) -> _Answers:
        if asked.decision == COMMIT and world.left[Trouble.COMMIT_LOST]:
            yield LOST, world._replace(late=(*world.late, asked.epoch)), Trouble.COMMIT_LOST
            yield LOST, world, Trouble.COMMIT_LOST
            yield LOST, self._owner_ended(world, asked.epoch, COMMIT)[1], Trouble.COMMIT_LOST
        answer, after = self._owner_ended(world, asked.epoch, asked.decision)
        yield answer, after, None

    def _owner_ended(self, world: Scene, epoch: int, decision: str) -> tuple[str, Scene | Wrong]:
        owner = world.owner
        if owner.ended is not None and owner.ended[0] == epoch:
            return OK if owner.ended[1] == decision else ENDED, world
        if epoch != owner.epoch or (decision == COMMIT and owner.open is None):
            return REFUSED, world
        ended = world._replace(owner=Owner(epoch + 1, None, (epoch, decision)))
        if decision == ABORT or owner.open is None:
            return OK, ended
        if any(record.batch == owner.open.batch for record in world.progress):
            return OK, Wrong(f"duplicate: batch {owner.open.batch} is decided twice")
        for part in owner.open.parts:
            if world.state_of(part) == ABORT:
                return OK, Wrong(f"loss: {_name(part)} is decided, and was aborted before")
        return OK, ended._replace(progress=(*world.progress, owner.open))

    # ---- Kafka: the parts

    def _end_part(self, world: Scene, part: Attempt, decision: str) -> _Answers:
        state = world.state_of(part)
        if state != OPEN:
            yield state or ABORT, world, None
        elif decision == COMMIT and not world.decided(part):
            yield decision, Wrong(f"torn: rows of {_name(part)} are visible, and nothing has decided for them"), None
        elif decision == ABORT and world.decided(part):
            yield decision, Wrong(f"loss: {_name(part)} is decided, and aborted"), None
        else:
            yield decision, world.with_part(part, decision), None

    # ---- what nobody waits for

    def _elsewhere(self, world: Scene) -> Iterator[Next]:
        for number, epoch in enumerate(world.late):
            rest = world._replace(late=(*world.late[:number], *world.late[number + 1 :]))
            yield Move("network", f"late: EndTxn(commit) of epoch {epoch}"), self._owner_ended(rest, epoch, COMMIT)[1]
            yield Move("network", f"never comes: EndTxn(commit) of epoch {epoch}"), rest
        if world.left[Trouble.EXPIRES]:
            for attempt, state in world.parts:
                if state == OPEN:
                    after = world.spend(Trouble.EXPIRES)._replace(expired=tuple(sorted((*world.expired, attempt))))
                    move = Move("coordinator", f"{_name(attempt)} times out", fault=True)
                    yield move, self._owner_expired(after, attempt).with_part(attempt, ABORT)

    def _owner_expired(self, world: Scene, part: Attempt) -> Scene:
        """End what decides for a part: it is younger, and has less time, so it times out before the part."""
        owner = world.owner
        if owner.open is None or part not in owner.open.parts or self.setting.breaks.slow_owner:
            return world
        return world._replace(owner=Owner(owner.epoch + 1, None, (owner.epoch, ABORT)))


def _name(attempt: Attempt) -> str:
    run: Run = attempt.run
    return f"{owner_name(run.driver)}'s epoch {run.epoch} batch {run.batch} task {attempt.task}.{attempt.number}"
