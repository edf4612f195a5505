"""Keeps a program running, as whatever runs programs in earnest does: started again after each end, whoever or
whatever ended it.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from semel.errors import ConfigError, DataLoss, Unsupported, from_text
from semel.steps import OwnerStep, Step
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import SparkCluster
from semel.testing.step_log import step_name
from tests.storm.targets import driver_of, kill

__all__ = ["SPARK", "Keeper"]

#: Workers are children of their executors here, which those of the quicker Python are not. A core each, and as little
#: memory as Spark takes.
SPARK = SparkCluster(
    "local-cluster[2,1,512]",
    {"spark.driver.memory": "768m", "spark.executor.memory": "512m", "spark.ui.showConsoleProgress": "false"},
    workers=sys.executable,
)
#: What the storm must never bring about: after these a person is asked.
_NEVER = (ConfigError, DataLoss, Unsupported)
_POLL_S = 0.2
_PAUSE_S = 1.0
_LAST_BYTES = 40_000


class Keeper:
    """One program, with its successors.

    ``argv`` is run under ``spark``, or without one as it is. ``replaceable``: a second one may be started beside it,
    which takes over, as its step ``taken`` says. ``stop`` is a file that asks it to end; without one SIGTERM does.
    ``points`` are for controls: they end it where its mistake shows, so that no control is left to chance.
    ``starts`` and ``ends`` (by signal, or by the tag of the error) are counted; ``problems`` hold
    what must not be.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        directory: Path,
        *,
        spark: SparkCluster | None = None,
        replaceable: bool = True,
        stop: Path | None = None,
        taken: Step = OwnerStep.INITIALISED,
        points: Sequence[CrashPoint] = (),
    ) -> None:
        self.name, self.replaceable = name, replaceable
        self.plan = CrashPlan(directory, *points)
        self.starts = 0
        self.ends: Counter[str] = Counter()
        self.problems: list[str] = []
        self._argv, self._spark, self._stop = list(argv), spark, stop
        self._taken = f'"{step_name(taken)}"'.encode()
        self._program: Program | None = None
        self._deposed: list[Program] = []
        self._replace, self._ending, self._abandon = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keeper-{name}")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it is kept still."""
        return self._thread.is_alive()

    @property
    def pid(self) -> int | None:
        """The program, while it runs."""
        program = self._program
        return program.process.pid if program is not None and program.process.poll() is None else None

    def taken_over(self) -> int:
        """How often an owner has taken the id of this program so far."""
        log = self.plan.directory / "steps.jsonl"
        return log.read_bytes().count(self._taken) if log.exists() else 0

    def replace(self) -> None:
        """Start a successor, and leave the program that runs as it is: whatever it does after that, it has been
        deposed.
        """
        self._replace.set()

    def ask_to_end(self) -> None:
        """Have the program end by itself; none is started again."""
        self._ending.set()

    def finish(self, timeout: float) -> None:
        """Wait for the program that was asked to end; kill whatever is left."""
        self._thread.join(timeout)
        if self.running:
            self.problems.append(f"{self.name}: it did not stop within {timeout:.0f} s")
        self.end()

    def end(self) -> None:
        """Kill what runs."""
        self._abandon.set()
        if self._thread.ident is not None:
            self._thread.join()
        for program in self._deposed:
            _end(program)

    def _tell_to_end(self, program: Program) -> None:
        if self._stop is not None:
            self._stop.touch()
        else:
            program.process.send_signal(signal.SIGTERM)

    def _keep(self) -> None:
        while not (self._abandon.is_set() or self._ending.is_set()):
            program = self._start()
            ended = self._watch(program)
            if not ended:
                continue
            _end(program)
            if self._ending.is_set() and program.process.returncode in (0, -signal.SIGTERM):
                return
            self._note(program)
            self._abandon.wait(_PAUSE_S)

    def _start(self) -> Program:
        self.starts += 1
        if self._spark is not None:
            self._program = self._spark.driver(self._argv, self.plan)
        else:
            log = self.plan.directory / f"{self.name}-{self.starts}.log"
            self._program = Program(self._argv, {**os.environ, **self.plan.environment()}, log)
        return self._program

    def _watch(self, program: Program) -> bool:
        """Until it ends, True, or has a successor."""
        told = False
        while program.process.poll() is None:
            if self._abandon.is_set():
                _end(program)
                return True
            if self._ending.is_set() and not told:
                self._tell_to_end(program)
                told = True
            if self._replace.is_set():
                self._replace.clear()
                self._deposed.append(program)
                return False
            time.sleep(_POLL_S)
        return True

    def _note(self, program: Program) -> None:
        status = program.process.returncode
        if status == 0:
            self.ends["itself"] += 1
            return
        if status < 0:
            self.ends[f"signal {-status}"] += 1
            return
        with program.log.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - _LAST_BYTES))
            said = log.read().decode(errors="replace")
        raised = from_text(said)
        self.ends[raised.tag if raised is not None else f"status {status} ({_named(said)})"] += 1
        if isinstance(raised, _NEVER):
            self.problems.append(f"{self.name}: it stopped for good, see {program.log}: {raised}")
            self._abandon.set()


def _named(said: str) -> str:
    """What it ended by, where that is not ours: the last exception that its log names, and Spark's own name for the
    case.
    """
    found = re.findall(r"(?:[\w.]+\.)?(\w+(?:Error|Exception))(?:: (\[[A-Z_.]+\]))?", said)
    return " ".join(found[-1]).strip() if found else "without a word"


def _end(program: Program) -> None:
    kill(driver_of(program.process.pid)[:-1])
    program.__exit__()
