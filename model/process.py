"""The conversion of a procedure, written as a generator, into a value that can be explored.

A *routine* is a generator function: it yields requests and is sent the answers, yields the steps that it passes
(:class:`~semel.steps.OwnerStep`) and is sent nothing, and returns where it goes on, or how it ended. A process is the
routine's name, its arguments and what it has heard so far; what it wants next is found by running the generator again
with those answers, once for each such value.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

from model.requests import Request
from semel.steps import OwnerStep, Step

__all__ = ["Done", "Goto", "Part", "Process", "Routine", "Routines", "Stop"]


#: As many processes are remembered; then all are forgotten, and found again where they are met again.
_REMEMBERED = 200_000


class Goto(NamedTuple):
    """The process goes on with another routine. What it has heard is forgotten: the arguments are all that it keeps."""

    routine: str
    arguments: tuple[Any, ...] = ()


class Stop(NamedTuple):
    """The owner stops and says why."""

    reason: str


class Done(NamedTuple):
    """The owner has done all its work. One field, so that no two ends are equal."""

    what: str = "done"


#: A part of a routine (``yield from``), with whatever it returns.
Part = Generator[Request | OwnerStep, Any, Any]
Routine = Callable[..., Generator[Request | OwnerStep, Any, Goto | Stop | Done]]


class Process(NamedTuple):
    """One owner at work."""

    routine: str
    arguments: tuple[Any, ...] = ()
    heard: tuple[Any, ...] = ()

    def hears(self, reply: Any) -> Process:
        """Return the same process after an answer."""
        return Process(self.routine, self.arguments, (*self.heard, reply))


class Routines:
    """The routines by their names, and a memory of what each process wants."""

    def __init__(self, routines: Mapping[str, Routine]) -> None:
        self._routines = routines
        self._known: dict[Process, Request | OwnerStep | Goto | Stop | Done] = {}

    def wants(self, process: Process) -> Request | OwnerStep | Goto | Stop | Done:
        """Return what a process does next."""
        found = self._known.get(process)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[process] = self._run(process)
        return found

    def advance(self, process: Process) -> tuple[Process | str, tuple[Any, ...]]:
        """Return the process at its next request, or how it ended, and the steps that it passes on the way."""
        steps: list[Step] = []
        while True:
            wanted = self.wants(process)
            if isinstance(wanted, Step):
                steps.append(wanted)
                process = process.hears(None)
            elif isinstance(wanted, Goto):
                process = Process(wanted.routine, wanted.arguments)
            elif isinstance(wanted, Done | Stop):
                return wanted.what if isinstance(wanted, Done) else wanted.reason, tuple(steps)
            else:
                return process, tuple(steps)

    def _run(self, process: Process) -> Request | OwnerStep | Goto | Stop | Done:
        running = self._routines[process.routine](*process.arguments)
        try:
            wanted = next(running)
            for reply in process.heard:
                wanted = running.send(reply)
        except StopIteration as ended:
            result: Goto | Stop | Done = ended.value
            return result
        return wanted
