"""Runs targets in a process of their own, and makes the input again on which it died or was never heard of again."""

from __future__ import annotations

import importlib
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.run import CPU_SECONDS, Failure, Report, input_of, keep, run
from tests.fuzz.targets import Target

__all__ = ["table", "watched"]

ROOT = Path(__file__).parents[2]
#: A process that is at one input for so long is in code that Python cannot interrupt; the machine may be busy.
SILENCE_S = 30 * CPU_SECONDS


def table(module: str) -> Mapping[str, Target]:
    """The targets that a module lists."""
    targets: Mapping[str, Target] = importlib.import_module(module).TARGETS
    return targets


def watched(
    names: Sequence[str], seed: int, seconds: float, kept: Path, module: str = "tests.fuzz.targets"
) -> list[Report]:
    """Run each target for so many seconds, all in one process unless it dies. ``module`` lists them."""
    reports: list[Report] = []
    first = 0
    while len(reports) < len(names):
        left = names[len(reports) :]
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(16))
            file.flush()
            said, died = _child(left, seed, seconds, kept, module, first, file.name)
            number, index = struct.unpack(">qq", Path(file.name).read_bytes())
        reports += said
        first = 0
        if len(reports) < len(names):
            target = table(module)[left[index]]
            report = Report(target.name, seed, inputs=max(number + 1, 0))
            report.failures.append(keep(target, seed, number, input_of(target, seed, number), died, kept))
            reports.append(report)
    return reports


def _child(
    names: Sequence[str], seed: int, seconds: float, kept: Path, module: str, first: int, beat: str
) -> tuple[list[Report], str]:
    argv = [
        sys.executable,
        "-m",
        "tests.fuzz.watch",
        json.dumps([list(names), seed, seconds, str(kept), module, first, beat]),
    ]
    # files, and no pipes: a parser that warns of each input would stand still when a pipe is full
    with (
        tempfile.TemporaryFile("w+") as output,
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(argv, cwd=ROOT, stdout=output, stderr=errors) as child,
    ):
        silent = _until_over(child, Path(beat))
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 2_000))
        problem = errors.read().decode("utf-8", "replace")
        output.seek(0)
        reports = [
            Report(**{**value, "failures": [Failure(**f) for f in value["failures"]]})
            for value in map(json.loads, output)
        ]
    if silent:
        return reports, f"the process did not end its work on it within {SILENCE_S:.0f} s"
    how = f"by {signal.Signals(-child.returncode).name}" if child.returncode < 0 else f"with status {child.returncode}"
    return reports, f"the process ended {how} {problem}"


def _until_over(child: subprocess.Popen[bytes], beat: Path) -> bool:
    """Wait for the process. True, and it is ended, if it was silent for too long."""
    last, since = b"", time.monotonic()
    while True:
        try:
            child.wait(0.5)
        except subprocess.TimeoutExpired:
            now = beat.read_bytes()
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > SILENCE_S:
                child.kill()
                return True
        else:
            return False


def _main(names: Sequence[str], seed: int, seconds: float, kept: str, module: str, first: int, beat: str) -> None:
    targets = table(module)
    with Path(beat).open("r+b") as file, mmap.mmap(file.fileno(), 16) as shared:
        for index, name in enumerate(names):
            shared[:] = struct.pack(">qq", 0, index)
            report = run(
                targets[name], seed, seconds, Path(kept), first=first if index == 0 else 0, beat=shared, limited=True
            )
            print(json.dumps(asdict(report)), flush=True)


if __name__ == "__main__":
    _main(*json.loads(sys.argv[1]))
