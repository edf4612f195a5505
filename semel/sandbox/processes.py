"""Processes as the operating system knows them: parent, command, alive or stopped.

Linux is read by /proc, macOS by ``ps``.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["alive", "children", "command", "parents", "stopped"]


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    state: str
    command: str


def parents(pid: int) -> list[tuple[int, str]]:
    """Return the process's ancestors with their command lines, the nearest first."""
    ancestors = []
    here = _process(pid)
    while here is not None and here.parent > 0:
        above = _process(here.parent)
        if above is not None:
            ancestors.append((here.parent, above.command))
        here = above
    return ancestors


def children(pid: int) -> list[tuple[int, str]]:
    """Return the living processes that this one started, with their command lines."""
    return [(child, process.command) for child, process in _all().items() if process.parent == pid]


def command(pid: int) -> str:
    """Return the command line of a process. It is empty if the process is gone or a zombie."""
    process = _process(pid)
    return process.command if process is not None else ""


def alive(pid: int) -> bool:
    """Return True if the process can still run. A zombie is not alive."""
    process = _process(pid)
    return process is not None and process.state not in "ZX"


def stopped(pid: int) -> bool:
    """Return True if the process is frozen by SIGSTOP."""
    process = _process(pid)
    return process is not None and process.state == "T"


def _process(pid: int) -> _Process | None:
    if sys.platform != "linux":
        return _ps("-p", str(pid)).get(pid)
    try:
        # the name in brackets may hold anything, brackets and blanks too, so split after its last bracket
        state, parent = (Path("/proc") / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        line = (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return _Process(int(parent), state, line)


def _all() -> dict[int, _Process]:
    if sys.platform != "linux":
        return _ps("-ax")
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {pid: process for pid in numbers if (process := _process(pid)) is not None}


def _ps(*which: str) -> dict[int, _Process]:
    done = subprocess.run(
        ["ps", *which, "-o", "pid=,ppid=,state=,command="], capture_output=True, text=True, check=False
    )
    rows = (line.split(None, 3) for line in done.stdout.splitlines())
    return {int(row[0]): _Process(int(row[1]), row[2][0], row[3] if len(row) > 3 else "") for row in rows}
