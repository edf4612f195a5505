"""A program in its own process, and a program that is started again each time a crash plan has killed it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from semel.sandbox.processes import children
from semel.testing.crash import SPARK, Action, CrashPlan

__all__ = ["Program", "run_until", "run_until_done"]

_POLL_S = 0.5


class Program:
    """A running program. As a context manager it ends with SIGKILL, together with the Java of Spark that it started.

    Its output is appended to ``log``. ``environment`` is the whole environment of the process.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.argv = list(argv)
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                self.argv, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        # a driver whose Python is killed leaves its Java running
        for pid, command in children(self.process.pid):
            if SPARK in command:
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def wait(self, timeout: float) -> int:
        """Wait until it has ended, and return its status.

        Raise :class:`AssertionError`, with its output, if that takes longer than ``timeout`` seconds.
        """
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.argv} did not end within {timeout} s:\n{self.tail()}") from None

    def tail(self) -> str:
        """Return the end of its output."""
        return self.log.read_text(errors="replace")[-6000:]

    def said(self, text: str) -> int:
        """Return how often this text is in its output."""
        return self.log.read_text(errors="replace").count(text)


def run_until(
    argv: Sequence[str],
    plan: CrashPlan,
    condition: Callable[[], bool],
    most: int,
    *,
    environment: Mapping[str, str] | None = None,
    timeout: float = 600,
) -> int:
    """Run a program that does not end by itself, as :func:`run_until_done`, until ``condition()`` holds and every point
    has struck.

    The condition is called a few times a second while the program runs, and must not wait. Then the program is ended by
    SIGKILL, with the Java of its Spark. A condition that can hold before the last crash proves nothing. Run the program
    once more after it, and wait for something that only a restarted program does. Return the number of restarts. Raise
    :class:`AssertionError` as :func:`run_until_done`; ``timeout`` is for all runs together.
    """
    _check_releases(plan)
    end = time.monotonic() + timeout
    for restarts in range(most + 1):
        before = _struck(plan)
        with Program(argv, _variables(plan, environment), plan.directory / f"run-{restarts}.log") as program:
            while program.process.poll() is None:
                if condition() and len(_struck(plan)) == len(plan.points):
                    return restarts
                if time.monotonic() > end:
                    missing = sorted({str(point) for point in plan.points} - _struck(plan))
                    raise AssertionError(
                        f"the condition did not come true within {timeout} s; never struck: {missing}\n{program.tail()}"
                    )
                time.sleep(_POLL_S)
            _check_struck(program, before, plan)
    raise _too_often(argv, plan, most)


def run_until_done(
    argv: Sequence[str],
    plan: CrashPlan,
    most: int,
    *,
    environment: Mapping[str, str] | None = None,
    timeout: float = 600,
) -> int:
    """Run a program under a plan, and restart it each time the plan has struck and it ended, until it ends with status
    0. Return the number of restarts.

    Raise :class:`AssertionError`, with the program's output, if it fails although no point has struck in that run. The
    same is raised if it needs more than ``most`` restarts, runs longer than ``timeout`` seconds, or ends well before
    every point has struck. ``environment`` is added to this process's. The output of each run is in ``run-0.log``,
    ``run-1.log``, … of the plan's directory.
    """
    _check_releases(plan)
    for restarts in range(most + 1):
        before = _struck(plan)
        with Program(argv, _variables(plan, environment), plan.directory / f"run-{restarts}.log") as program:
            status = program.wait(timeout)
            print(f"run {restarts}: status {status}, struck {sorted(_struck(plan) - before)}", flush=True)
            if status == 0:
                plan.check_all_struck()
                return restarts
            _check_struck(program, before, plan)
    raise _too_often(argv, plan, most)


def _check_releases(plan: CrashPlan) -> None:
    if any(point.action in (Action.STOP, Action.HANG) for point in plan.points):
        raise ValueError("nothing would release a stopped or held process here: use Program and CrashPlan.wait")


def _variables(plan: CrashPlan, environment: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, **(environment or {}), **plan.environment()}


def _struck(plan: CrashPlan) -> set[str]:
    return {str(point) for point in plan.points if plan.struck(point)}


def _check_struck(program: Program, before: set[str], plan: CrashPlan) -> None:
    """Raise unless a point has struck in this run: a program that ends by itself is not restarted."""
    if _struck(plan) == before:
        raise AssertionError(
            f"{program.argv} ended with {program.process.returncode}, and not by a crash point:\n{program.tail()}"
        )


def _too_often(argv: Sequence[str], plan: CrashPlan, most: int) -> AssertionError:
    return AssertionError(f"{list(argv)} was killed more than {most} times by {', '.join(map(str, plan.points))}")
