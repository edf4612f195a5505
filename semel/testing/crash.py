"""Crash points: end, freeze or hold a real process at the moment when it passes a named step (DESIGN section 5).

``SEMEL_STEPS=semel.testing.crash:observe`` hooks :mod:`semel.steps`. Two more variables hold the plan:

- ``SEMEL_CRASH``: points separated by commas, each ``STEP[:N][=ACTION]``, such as ``OwnerStep.COMMIT_SENT:2=kill``. A
  point strikes the process that passes that step the N-th time, counted over all processes and restarts that share
  the directory. Actions: see :class:`Action`.
- ``SEMEL_CRASH_DIR``: the directory where passings are counted and logged. A passing is counted by a file that only one
  process can create. So exactly one of several simultaneous processes is struck, and after a restart a spent point
  stays spent.

Every passed step is logged in ``steps.jsonl`` of that directory (:mod:`semel.testing.step_log`), the deadly one before
its strike. :class:`CrashPlan` builds the variables for a child process or for Spark, waits, and thaws;
``run_until_done`` restarts a program until it ends well.

Be careful: in Spark's local mode the executor is the driver's process, so ``executor`` kills the driver there.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from semel.sandbox.processes import alive, children, parents, stopped
from semel.steps import Step
from semel.testing.spark.fork_client import STARTED_AS
from semel.testing.step_log import Passed, append, read, step_name

__all__ = ["SPARK", "Action", "CrashPlan", "CrashPoint", "Passed", "observe"]

_LOG = "steps.jsonl"
_POLL_S = 0.01
#: No test holds a process of a dead program for as long as this.
_ORPHAN_S = 900.0
#: Held from the count to the strike. Otherwise a point that is counted in one thread is spent, and never strikes, when
#: another thread of the same process is struck in between.
_striking = threading.Lock()
#: A text in the command line of each of Spark's Java processes: no other java process is ever touched.
SPARK = "org.apache.spark"


class Action(Enum):
    """The action at a crash point."""

    KILL = "kill"  # SIGKILL to this process; inside an executor this is the Python worker alone
    STOP = "stop"  # SIGSTOP to this process; CrashPlan.release sends SIGCONT
    HANG = "hang"  # wait inside the step until CrashPlan.release
    EXECUTOR = "executor"  # SIGKILL to the nearest Java process of Spark above this Python worker, then to the worker
    DRIVER = "driver"  # in the driver: SIGKILL to its Java process, above or below this one, then to this process


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Strike at the ``n``-th passing of ``step``.

    ``step`` is a member of an enumeration of :mod:`semel.steps`, or its text.
    """

    step: Step | str
    n: int = 1
    action: Action = Action.KILL

    @property
    def name(self) -> str:
        """The name of the step: ``OwnerStep.COMMIT_SENT``."""
        return step_name(self.step)

    def __str__(self) -> str:
        return f"{self.name}:{self.n}={self.action.value}"

    @classmethod
    def parse(cls, text: str) -> CrashPoint:
        """Read ``STEP[:N][=ACTION]``."""
        head, _, action = text.strip().partition("=")
        name, _, number = head.partition(":")
        actions = {member.value: member for member in Action}
        if (
            name.count(".") != 1
            or (number and not number.isdigit())
            or number == "0"
            or (action and action not in actions)
        ):
            raise ValueError(
                f"SEMEL_CRASH holds {text!r}, which is not STEP[:N][={'|'.join(actions)}], as in"
                " OwnerStep.COMMIT_SENT:2=kill"
            )
        return cls(name, int(number or 1), actions[action or "kill"])


# ---- inside the process that is struck


def observe(step: Step, detail: str = "") -> None:
    """Log the step, count it, and strike if a point of the plan is met. ``SEMEL_STEPS`` names this function."""
    directory = os.environ.get("SEMEL_CRASH_DIR")
    if not directory:
        raise ValueError(
            "SEMEL_STEPS names semel.testing.crash:observe, but SEMEL_CRASH_DIR names no directory to count the steps"
            " in"
        )
    append(Path(directory) / _LOG, step, detail)
    points = [CrashPoint.parse(text) for text in os.environ.get("SEMEL_CRASH", "").split(",") if text.strip()]
    met = [point for point in points if point.name == step_name(step)]
    if not met:
        return
    with _striking:
        passing = _count(Path(directory), step_name(step), max(point.n for point in met))
        struck = [point for point in met if point.n == passing]
        for point in struck:
            _strike(Path(directory), point)
    for point in struck:
        if point.action is Action.HANG:
            _hang(Path(directory) / f"{point}.go")


def _count(directory: Path, name: str, last: int) -> int | None:
    """Return the number of this passing over all processes. None after ``last``: later ones are not counted."""
    for number in range(1, last + 1):
        try:
            os.close(os.open(directory / f"{name}.{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        except FileExistsError:
            continue
        return number
    return None


def _strike(directory: Path, point: CrashPoint) -> None:
    """Say that the point has struck, and end or freeze its victims. A point that holds does not hold here."""
    me = os.getpid()
    java = _spark_processes(point.action)
    _announce(directory, point, [*java, me])
    if point.action is Action.HANG:
        return
    for pid in java:
        os.kill(pid, signal.SIGKILL)
    os.kill(me, signal.SIGSTOP if point.action is Action.STOP else signal.SIGKILL)


def _hang(released: Path) -> None:
    """Wait until the file is there. A worker whose program was ended long ago ends: no test will release it."""
    end = time.monotonic() + _ORPHAN_S
    while not released.exists():
        if os.getppid() == 1 and time.monotonic() > end:
            os._exit(1)
        time.sleep(_POLL_S)


def _announce(directory: Path, point: CrashPoint, victims: Sequence[int]) -> None:
    # rename it into place: a reader sees the whole file or none
    draft = directory / f"{point}.draft"
    draft.write_text(json.dumps(list(victims)))
    draft.rename(directory / f"{point}.struck")


def _spark_processes(action: Action) -> list[int]:
    me = os.getpid()
    started = int(os.environ.get(STARTED_AS, me))
    above = [pid for pid, command in parents(started) if SPARK in command][:1]
    if action is Action.EXECUTOR:
        pids = above
    elif action is Action.DRIVER:
        pids = above or [pid for pid, command in children(me) if SPARK in command]
    else:
        return []
    if not pids:
        raise RuntimeError(
            f"the crash action {action.value!r} needs a Java process of Spark around process {me}, and there is none"
        )
    return pids


def _forget_lock() -> None:
    global _striking
    _striking = threading.Lock()


# A forked process has none of the threads that may hold it.
os.register_at_fork(after_in_child=_forget_lock)


# ---- outside


class CrashPlan:
    """The crash points of one run of a test.

    The state is in ``directory``: empty, or the state that an earlier process under this plan left.
    """

    def __init__(self, directory: Path, *points: CrashPoint) -> None:
        if len(set(map(str, points))) != len(points):
            raise ValueError("two crash points of a plan are the same: only one of them could strike")
        self.directory = directory
        self.points = points
        directory.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """Return the variables for a child process: add them to its environment."""
        return {
            "SEMEL_STEPS": "semel.testing.crash:observe",
            "SEMEL_CRASH": ",".join(map(str, self.points)),
            "SEMEL_CRASH_DIR": str(self.directory.absolute()),
        }

    def spark_conf(self) -> dict[str, str]:
        """Return Spark settings that give the variables to the executors' Python workers. The driver takes
        :meth:`environment`.
        """
        return {f"spark.executorEnv.{name}": value for name, value in self.environment().items()}

    @property
    def log(self) -> Path:
        """The log of all steps that were passed (:mod:`semel.testing.step_log`)."""
        return self.directory / _LOG

    def struck(self, point: CrashPoint) -> bool:
        """Return True if this point has struck."""
        return (self.directory / f"{point}.struck").exists()

    def victims(self, point: CrashPoint) -> list[int]:
        """Return the process ids that this point struck. The process that passed the step is the last."""
        return [int(pid) for pid in json.loads((self.directory / f"{point}.struck").read_text())]

    def wait(self, point: CrashPoint, timeout: float) -> list[int]:
        """Wait until the point has struck and its victims are dead (stopped, or held), and return them.

        Raise :class:`TimeoutError` if it has not struck in time.
        """
        _wait_until(
            lambda: self.struck(point) and all(_overcome(pid, point.action) for pid in self.victims(point)),
            timeout,
            f"crash point {point} has not struck within {timeout} s; passed so far:"
            f" {[p.step for p in self.passed()][-20:]}",
        )
        return self.victims(point)

    def release(self, point: CrashPoint) -> None:
        """Continue a stopped or held process."""
        if point.action is Action.STOP:
            os.kill(self.victims(point)[-1], signal.SIGCONT)
        elif point.action is Action.HANG:
            (self.directory / f"{point}.go").touch()
        else:
            raise ValueError(f"crash point {point} kills: there is nothing to release")

    def passed(self) -> list[Passed]:
        """Return all steps that were passed by all processes, in the order of the log."""
        return read(self.log)

    def check_all_struck(self) -> None:
        """Raise :class:`AssertionError` with the points that never struck: a run without its crash proves nothing."""
        missing = [str(point) for point in self.points if not self.struck(point)]
        if missing:
            raise AssertionError(
                f"never struck: {', '.join(missing)}; passed: {sorted({p.step for p in self.passed()})}"
            )


def _overcome(pid: int, action: Action) -> bool:
    if action is Action.HANG:
        return True
    return not alive(pid) or (action is Action.STOP and stopped(pid))


def _wait_until(condition: Callable[[], bool], timeout: float, problem: str) -> None:
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(problem)
        time.sleep(_POLL_S)
