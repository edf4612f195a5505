"""Feeds a target with inputs until its time is over, and says which of them it did not bear.

Input ``n`` of a seed depends on these two numbers alone, so whoever watches can make the input again that ended the
process. An input fails when something is raised that is not ours, when the processor works on it for too long, and when
it takes more memory than its target allows: what Python holds is measured for every input, what Arrow holds too, and
the kernel gives the process no more than it needs beside. Memory is measured twice before it is an input's fault:
Python's table of interned strings is made anew, with 1.9 MB at once, in whichever input fills it (json interns each
``-Infinity`` that it meets; one in 54,000 of them).
"""

from __future__ import annotations

import gc
import mmap
import resource
import signal
import struct
import time
import traceback
import tracemalloc
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

import pyarrow as pa

from tests.fuzz.targets import MIB, Target

__all__ = ["CPU_SECONDS", "Failure", "Report", "input_of", "run", "spare_memory"]

#: How long the processor may work on one input: the slowest valid one takes milliseconds.
CPU_SECONDS = 2.0
#: What the kernel gives beside what the process has. Python's tracemalloc keeps some 100 bytes and more of each thing
#: that it has followed, for good: in ten minutes more than that, so the limit moves on.
SPARE, SPARED_INPUTS = 1024 * MIB, 100_000
#: Kept, since a pool must outlive all that was allocated from it.
_POOLS: list[pa.MemoryPool] = []
_WARM = 40


class Hang(BaseException):
    """Raised into a reader that does not end."""


@dataclass(frozen=True)
class Failure:
    """One input that a target did not bear."""

    target: str
    seed: int
    number: int
    what: str
    kept: str


@dataclass
class Report:
    """What became of a run."""

    target: str
    seed: int
    inputs: int = 0
    accepted: int = 0
    seconds: float = 0.0
    peak: int = 0
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        rate = self.inputs / self.seconds if self.seconds else 0
        counted = (
            f"{self.target}: seed {self.seed}, {self.inputs} inputs ({self.accepted} accepted) in"
            f" {self.seconds:.1f} s, {rate:.0f} inputs/s"
        )
        failed = [f"  input {f.number}: {f.what}\n  kept in {f.kept}" for f in self.failures]
        return "\n".join([f"{counted}, peak {self.peak / 1024:.0f} KiB, {len(self.failures)} failures", *failed])


def input_of(target: Target, seed: int, number: int) -> bytes:
    """An input, made again."""
    return target.make(Random(f"{target.name}:{seed}:{number}"))


def spare_memory() -> None:
    """Let this process have no more memory than it has now and ``SPARE``."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + SPARE, hard))


def run(
    target: Target,
    seed: int,
    seconds: float,
    kept: Path,
    *,
    first: int = 0,
    most: int = 10,
    beat: mmap.mmap | None = None,
    limited: bool = False,
) -> Report:
    """Feed ``target`` from input ``first`` on. Failures of one kind count once; after ``most`` kinds it ends. ``beat``
    is told each input.

    ``limited`` says that the kernel watches over memory as well.
    """
    report, seen = Report(target.name, seed), set[str]()
    signal.signal(signal.SIGPROF, _hang)
    _warm_up(target, seed, beat)
    began = time.monotonic()
    gc.freeze()
    try:
        while time.monotonic() - began < seconds and len(report.failures) < most:
            number = first + report.inputs
            _tell(beat, number)
            if limited and report.inputs % SPARED_INPUTS == 0:
                spare_memory()
            data = input_of(target, seed, number)
            kind, what, peak = _fed(target, data)
            if kind == "memory":  # what an input takes, it takes each time
                kind, what, peak = _fed(target, data)
            report.inputs += 1
            report.accepted += kind == "accepted"
            report.peak = max(report.peak, peak)
            if what and kind not in seen:
                seen.add(kind)
                report.failures.append(keep(target, seed, number, data, what, kept))
    finally:
        gc.unfreeze()
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
    report.seconds = time.monotonic() - began
    return report


def _warm_up(target: Target, seed: int, beat: mmap.mmap | None) -> None:
    """What is loaded, compiled or kept at first use is no input's fault."""
    for data in target.warm():
        with suppress(Exception):
            target.read(data)
    for number in range(-_WARM, 0):
        _tell(beat, number)
        if _fed(target, input_of(target, seed, number))[0].startswith("hang"):
            return


def _tell(beat: mmap.mmap | None, number: int) -> None:
    if beat is not None:
        beat[:8] = struct.pack(">q", number)


def keep(target: Target, seed: int, number: int, data: bytes, what: str, kept: Path) -> Failure:
    """Write a failing input into a file of its own."""
    kept.mkdir(parents=True, exist_ok=True)
    path = kept / f"{target.name}-{seed}-{number}"
    path.write_bytes(data)
    return Failure(target.name, seed, number, what, str(path))


def _hang(number: int, frame: FrameType | None) -> None:
    raise Hang


def _fed(target: Target, data: bytes) -> tuple[str, str, int]:
    """The kind of what happened, and in words what was wrong with it, and the peak of memory in bytes."""
    allowed = target.slack + target.factor * len(data)
    pool = _fresh_pool()
    tracemalloc.start()
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    kind, what = "accepted", ""
    try:
        target.read(data)
    except Hang as hang:
        kind, what = (
            f"hang {_where(hang)}",
            f"the processor worked on {len(data)} bytes for {CPU_SECONDS:.0f} s, at last {_where(hang)}",
        )
    except target.allowed:
        kind = "refused"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        kind, what = (
            f"{type(error).__name__} {_where(error)}",
            f"{type(error).__name__}: {str(error)[:200]} ({_where(error)})",
        )
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    peak = max(tracemalloc.get_traced_memory()[1], pool.max_memory() or 0)
    tracemalloc.stop()
    if not what and peak > allowed:
        kind, what = (
            "memory",
            f"{peak} bytes were held for an input of {len(data)}, and {allowed} are allowed ({target.slack} +"
            f" {target.factor} x)",
        )
    return kind, what, peak


def _fresh_pool() -> pa.MemoryPool:
    """Where Arrow allocates. One that nothing was ever allocated from is as good as new."""
    if not _POOLS or (_POOLS[-1].max_memory() or 0) > 0:
        pool = pa.proxy_memory_pool(pa.system_memory_pool())
        _POOLS.append(pool)
        pa.set_memory_pool(pool)
    return _POOLS[-1]


def _where(error: BaseException) -> str:
    """The innermost line of semel that an error went through, and the innermost of all."""
    lines = traceback.extract_tb(error.__traceback__)
    ours = [line for line in lines if "/semel/" in line.filename]
    named = [
        f"{Path(line.filename).parent.name}/{Path(line.filename).name}:{line.lineno}"
        for line in (*ours[-1:], *lines[-1:])
    ]
    return ", ".join(dict.fromkeys(named)) or "nowhere"
