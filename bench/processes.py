"""What the processors did for each kind of process, as Linux counts it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from bench.rig import Rig

__all__ = ["Processors"]

_TICKS = os.sysconf("SC_CLK_TCK")


class Processors:
    """The processors' time of the driver, of Spark's Java, of its Python workers and of the broker."""

    KINDS: ClassVar = ("driver", "Spark's Java", "Python workers", "broker")

    def __init__(self, rig: Rig) -> None:
        jvm = rig.spark._jvm
        assert jvm is not None
        self._java = int(jvm.java.lang.ProcessHandle.current().pid())
        self._broker = rig.sandbox.nodes[0].pid

    def seconds(self) -> dict[str, float]:
        """Return the seconds since each process began, those of ended children included."""
        workers = sum(_seconds(pid) for pid in _below(self._java))
        own = (
            _seconds(os.getpid(), children=False),
            _seconds(self._java, children=False),
            workers,
            _seconds(self._broker),
        )
        return dict(zip(self.KINDS, own, strict=True))


def _seconds(pid: int, *, children: bool = True) -> float:
    try:
        numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended, and counts with its parent
        return 0.0
    return sum(map(int, numbers[11 : 15 if children else 13])) / _TICKS


def _below(parent: int) -> list[int]:
    """Return the processes below one in the tree."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    below, found = [parent], list[int]()
    while below:
        children = [pid for pid, of in parents.items() if of in below]
        found += children
        below = children
    return found
