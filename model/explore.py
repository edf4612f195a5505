"""Going through the states: all of them in breadth, so that what is found has a shortest trace, or at random, by a
seed.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from model.broker import Wrong
from model.check import ends, wrong_at_the_end
from model.faults import Move, moves
from model.task_scope.scene import Tasks, TaskScope
from model.two_phase import Prepares, TwoPhase
from model.world import Program, Setting, first_world
from semel.steps import Step

__all__ = ["AnySetting", "Found", "Result", "explore", "system_of", "walk", "walk_once"]

AnySetting = Setting | Prepares | Tasks

#: A walk that goes on for longer than this many moves is given up and reported.
_LONGEST = 1_500


class System(Protocol):
    """The explored system: a first state, the possible moves of each state, and the properties that must hold."""

    setting: Any

    def first(self) -> Any:
        """Return the state before anything has happened."""

    def moves(self, world: Any) -> list[tuple[Move, Any]]:
        """All that may happen in this state, always in the same order, with the state after it."""

    def ends(self, world: Any) -> tuple[str, ...]:
        """Return how each owner ended."""

    def wrong_at_the_end(self, world: Any) -> str | None:
        """Return what is wrong in a state in which only faults could still happen."""


class _Owners:
    """The owners of one transactional id."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._program = Program(setting)

    def first(self) -> Any:
        return first_world(self.setting)

    def moves(self, world: Any) -> list[tuple[Move, Any]]:
        return moves(self._program, world)

    def ends(self, world: Any) -> tuple[str, ...]:
        return ends(world)

    def wrong_at_the_end(self, world: Any) -> str | None:
        return wrong_at_the_end(self._program, world)


def system_of(setting: AnySetting) -> System:
    """Return the system of a setting: the owners of one id, prepared transactions and a database, or task scope."""
    if isinstance(setting, Tasks):
        return TaskScope(setting)
    return TwoPhase(setting) if isinstance(setting, Prepares) else _Owners(setting)


@dataclass(frozen=True)
class Found:
    """A wrong state, and the moves that lead there."""

    problem: str
    trace: tuple[Move, ...]


@dataclass
class Result:
    """The result of a run. ``complete``: every state of the setting was seen. ``ends``: how the owners ended, and how
    often.

    ``steps``: how often random walks passed each step.
    """

    setting: AnySetting
    states: int = 0
    moves: int = 0
    seconds: float = 0.0
    complete: bool = False
    walks: int = 0
    ends: Counter[tuple[str, ...]] = field(default_factory=Counter)
    steps: Counter[Step] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)


def explore(setting: AnySetting, *, most_states: int = 10_000_000, seconds: float = 3_600.0) -> Result:
    """All states, breadth first, until something is found, or one of the limits is met."""
    system, result, began = system_of(setting), Result(setting), time.monotonic()
    first = system.first()
    # a state is known by its hash of 64 bits; how it was reached is its parent and which move of that it was
    parents: dict[int, tuple[int, int] | None] = {hash(first): None}
    queue = deque([first])
    while queue and not result.found and len(parents) < most_states and time.monotonic() - began < seconds:
        world = queue.popleft()
        here, by_itself = hash(world), False
        for number, (move, after) in enumerate(system.moves(world)):
            result.moves += 1
            by_itself = by_itself or not move.fault
            if isinstance(after, Wrong):
                result.found.append(Found(str(after), _trace(system, first, parents, here, number)))
                break
            there = hash(after)
            if there not in parents:
                parents[there] = (here, number)
                queue.append(after)
        else:
            if not by_itself:
                result.ends[system.ends(world)] += 1
                problem = system.wrong_at_the_end(world)
                if problem:
                    result.found.append(Found(problem, _trace(system, first, parents, here, None)))
    result.states, result.seconds = len(parents), time.monotonic() - began
    result.complete = not queue and not result.found
    return result


def _trace(
    system: System, first: Any, parents: dict[int, tuple[int, int] | None], here: int, last: int | None
) -> tuple[Move, ...]:
    numbers = [] if last is None else [last]
    while (step := parents[here]) is not None:
        here = step[0]
        numbers.append(step[1])
    trace, world = [], first
    for number in reversed(numbers):
        move, after = system.moves(world)[number]
        trace.append(move)
        if not isinstance(after, Wrong):
            world = after
    return tuple(trace)


def walk(setting: AnySetting, *, seed: int, seconds: float, most_walks: int = 10_000_000) -> Result:
    """Random walks, until something is found, or one of the limits is met.

    The same seed gives the same walks, in the same order.
    """
    system, result, began = system_of(setting), Result(setting), time.monotonic()
    while not result.found and result.walks < most_walks and time.monotonic() - began < seconds:
        found = walk_once(system, seed, result.walks, result)
        result.walks += 1
        if found is not None:
            result.found.append(_shortened(system, found))
    result.seconds = time.monotonic() - began
    return result


def walk_once(system: System, seed: int, number: int, result: Result) -> Found | None:
    """Walk ``number`` of a seed, from the start to where nothing more happens by itself."""
    chance = random.Random(f"{seed} {system.setting.name} {number}")
    faults = chance.choice((0.03, 0.08, 0.2, 0.4))
    world = system.first()
    trace: list[Move] = []
    while True:
        found = system.moves(world)
        by_themselves, by_fault = [n for n in found if not n[0].fault], [n for n in found if n[0].fault]
        if not by_themselves:
            problem = system.wrong_at_the_end(world)
            if problem:
                return Found(problem, tuple(trace))
            if not by_fault or chance.random() < 0.5:
                result.ends[system.ends(world)] += 1
                return None
        if len(trace) > _LONGEST:
            return Found("it goes on for ever", tuple(trace))
        move, after = chance.choice(
            by_fault if by_fault and (not by_themselves or chance.random() < faults) else by_themselves
        )
        trace.append(move)
        result.moves += 1
        result.steps.update(move.steps)
        if isinstance(after, Wrong):
            return Found(str(after), tuple(trace))
        world = after


def _shortened(system: System, found: Found) -> Found:
    """Leave out moves of a random trace, one after the other, as long as the same kind of problem is still met."""
    trace = list(found.trace)
    at = len(trace) - 1
    while at >= 0:
        shorter = trace[:at] + trace[at + 1 :]
        problem = _met(system, shorter)
        if problem is not None and problem.partition(":")[0] == found.problem.partition(":")[0]:
            trace, found = shorter, Found(problem, tuple(shorter))
        at = min(at - 1, len(trace) - 1)
    return found


def _met(system: System, trace: list[Move]) -> str | None:
    """Return what a sequence of moves leads to, or None if it is not possible or nothing is wrong."""
    world = system.first()
    for move in trace:
        after = next((after for known, after in system.moves(world) if known[:4] == move[:4]), None)
        if after is None:
            return None
        if isinstance(after, Wrong):
            return str(after)
        world = after
    if any(not move.fault for move, _ in system.moves(world)):
        return None
    return system.wrong_at_the_end(world)
