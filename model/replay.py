"""Step logs of real runs, accepted or refused by the procedure of the model.

There is no second copy of the order of steps: the owner's own generators (:mod:`model.owner`) run against the model's
broker, and whatever leaves no line in the log is left open (:mod:`model.possible_states`). Kills may cut an owner's
lines anywhere; several owners of one id are held against each other in the order of the log. Steps of participants and
of Spark's sink are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model.possible_states import Ahead, Allowed, Frontier
from semel.steps import OwnerStep
from semel.testing.step_log import Passed, transactional_id

__all__ = ["Allowed", "Refused", "Told", "replay"]

_CONTEXT = 8
#: By how many lines of its id a line may be late, and how far behind its cause an end or a healing is looked for.
_LATEST = 40


class Refused(Exception):
    """A line that the model forbids."""


@dataclass(frozen=True, slots=True)
class Told:
    """The result of a replay: transactional ids, owners, lines, and the largest number of situations for one line."""

    ids: int
    owners: int
    lines: int
    most: int

    def __str__(self) -> str:
        return (
            f"{self.lines} steps of {self.owners} owners of {self.ids} transactional ids are allowed (up to"
            f" {self.most} situations at once)"
        )


def replay(log: Sequence[Passed], *, allowed: Allowed | None = None) -> Told:
    """Replay a log from the first owner of each id on. Raises :class:`Refused`, naming the line and what would have
    been allowed in its place.

    ``allowed`` is what may have happened without a line; left out, markers may have been lost if the log has steps of
    healing, and nothing else. Epochs may have been skipped if the log has that step.
    """
    prefix = f"{OwnerStep.__name__}."
    lines = [line for line in log if line.step.startswith(prefix)]
    by_id: dict[str, list[Passed]] = {}
    for line in lines:
        by_id.setdefault(transactional_id(line.step, line.detail), []).append(line)
    most = max((_replay_one(own, allowed) for own in by_id.values()), default=0)
    owners = {(transactional_id(line.step, line.detail), line.pid, line.owner) for line in lines}
    return Told(len(by_id), len(owners), len(lines), most)


def _replay_one(lines: Sequence[Passed], allowed: Allowed | None) -> int:
    steps = [OwnerStep[line.step.partition(".")[2]] for line in lines]
    allowed = allowed or Allowed(lost_markers=OwnerStep.HEALED in steps)
    if OwnerStep.EPOCH_SKIPPED in steps and True not in allowed.skips_epochs:
        allowed = replace(allowed, skips_epochs=(False, True))
    # an id either shows its progress in a group or it does not
    frontier = Frontier(allowed, group=OwnerStep.OFFSETS_ADDED in steps)
    arrivals, ahead = _arrivals(lines, steps), _ahead(lines, steps)
    ends = {line.pid: at for at, line in enumerate(lines)}
    for at, (line, step) in enumerate(zip(lines, steps, strict=True)):
        for pid in arrivals.get(at, ()):
            frontier.arrive(pid, soon=pid == line.pid)
        instead = frontier.passes(line.pid, step, ahead[at])
        if instead:
            raise Refused(_refusal(lines, at, instead))
        if ends[line.pid] == at:
            frontier.leave(line.pid, ahead[at])
    return frontier.most


def _ahead(lines: Sequence[Passed], steps: Sequence[OwnerStep]) -> list[Ahead]:
    """Return what the log says from each line on."""
    ahead: list[Ahead] = []
    following: dict[int, OwnerStep] = {}
    left: dict[int, int] = {}
    healed = len(lines) + _LATEST
    for at in reversed(range(len(lines))):
        pid, step = lines[at].pid, steps[at]
        left[pid] = left.get(pid, 0) + 1
        following = {**following, pid: step}
        healed = at if step is OwnerStep.HEALED else healed
        ahead.append(Ahead(following, min(left.values()) <= _LATEST, healed - at < _LATEST))
        if step is OwnerStep.INITIALISED:  # in front of it the process has no owner, or an earlier one
            del left[pid]
            following = {other: its for other, its in following.items() if other != pid}
    return ahead[::-1]


def _arrivals(lines: Sequence[Passed], steps: Sequence[OwnerStep]) -> dict[int, list[int]]:
    """In front of which line each process may have begun to take over.

    That is in front of its INITIALISED, and where another owner has lines behind that, in front of the INITIALISED of
    the other: who was answered last may have logged it first, since a process may be frozen between the answer and its
    line.
    """
    arrivals: dict[int, list[int]] = {}
    ends = {line.pid: at for at, line in enumerate(lines)}
    for at, (line, step) in enumerate(zip(lines, steps, strict=True)):
        if step is not OwnerStep.INITIALISED:
            continue
        own = max((before + 1 for before in range(at) if lines[before].pid == line.pid), default=0)
        others = [
            before
            for before in range(max(own, at - _LATEST), at)
            if steps[before] is OwnerStep.INITIALISED and ends[lines[before].pid] > at
        ]
        arrivals.setdefault(min(others, default=at), []).append(line.pid)
    return arrivals


def _refusal(lines: Sequence[Passed], at: int, instead: set[OwnerStep]) -> str:
    line = lines[at]
    own = transactional_id(line.step, line.detail)
    before = "\n".join(
        f"  {each.clock} process {each.pid} owner {each.owner} {each.step}"
        for each in lines[max(0, at - _CONTEXT) : at + 1]
    )
    return (
        f"the protocol forbids {line.step} of process {line.pid} (line {line.sequence} of it) on id {own!r} here."
        f" It allows {', '.join(step.name for step in OwnerStep if step in instead)}. The lines up to it:\n{before}"
    )
