"""A log of the steps that processes pass, one line a step, that outlives a process which is killed right behind it.

``SEMEL_STEPS=semel.testing.step_log:observe`` and ``SEMEL_STEP_LOG=<file>`` log all steps of a process and of those
that inherit its variables; :mod:`semel.testing.crash` writes the same log beside its kills. Each line is one JSON
object, written by one ``write`` to a file that is only appended to: it is there, whole, though the process dies at
once, and lines of several processes do not mix. ``python -m model <file>`` tells whether the protocol allows what is in
it.

Not promised: anything of a machine that dies, since nothing is forced to disk; and which of two steps came first that
two threads of one process passed at the same moment.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from semel.steps import OwnerStep, Step

__all__ = ["Passed", "append", "observe", "read", "step_name", "transactional_id"]


@dataclass(frozen=True, slots=True)
class Passed:
    """One line.

    ``owner`` tells the owners of one transactional id in one process apart: it counts how often that id was taken over
    there (0 for other steps than an owner's); ``sequence`` counts the process's lines; ``time`` is monotonic seconds,
    the same clock for all processes of a machine, and ``clock`` is the time of day for people.
    """

    pid: int
    step: str
    detail: str
    time: float
    owner: int
    sequence: int
    clock: str


class _Process:
    """Counts of one process. A fork starts with none."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.lines = itertools.count(1)
        self.owners: Counter[str] = Counter()


_process = _Process(0)


def observe(step: Step, detail: str = "") -> None:
    """Log the step in the file that ``SEMEL_STEP_LOG`` names. ``SEMEL_STEPS`` names this function."""
    file = os.environ.get("SEMEL_STEP_LOG")
    if not file:
        raise ValueError(
            "SEMEL_STEPS names semel.testing.step_log:observe, but SEMEL_STEP_LOG names no file to log the steps in"
        )
    append(Path(file), step, detail)


def append(log: Path, step: Step, detail: str) -> None:
    """Write one line behind those that are there."""
    global _process
    if _process.pid != os.getpid():
        _process = _Process(os.getpid())
    here = _process
    own = transactional_id(step, detail)
    here.owners[own] += step is OwnerStep.INITIALISED
    line = {
        "pid": here.pid,
        "step": step_name(step),
        "detail": detail,
        "time": time.monotonic(),
        "owner": here.owners[own] if isinstance(step, OwnerStep) else 0,
        "sequence": next(here.lines),
        "clock": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, (json.dumps(line) + "\n").encode())
    finally:
        os.close(handle)


def read(log: Path) -> list[Passed]:
    """All lines, in the order in which they were written; none where there is no log."""
    return [Passed(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def transactional_id(step: Step | str, detail: str) -> str:
    """Whose step it was, by the detail of an owner's step: the id, behind which HEALED has the partition."""
    return detail.rpartition(" ")[0] or detail if step_name(step) == step_name(OwnerStep.HEALED) else detail


def step_name(step: Step | str) -> str:
    """``OwnerStep.COMMIT_SENT``."""
    return step if isinstance(step, str) else f"{type(step).__name__}.{step.name}"
