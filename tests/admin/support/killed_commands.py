"""Commands of ``semel`` that are killed at a step of the owner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from semel.steps import OwnerStep
from semel.testing.crash import CrashPlan, CrashPoint

STEPS = [
    OwnerStep.INITIALISED,
    OwnerStep.CLAIMED,
    OwnerStep.MARKERS_CHECKED,
    OwnerStep.BEGUN,
    OwnerStep.PARTITIONS_ADDED,
    OwnerStep.PROGRESS_WRITTEN,
    OwnerStep.COMMIT_SENT,
    OwnerStep.COMMIT_ANSWERED,
    OwnerStep.MARKERS_SEEN,
]

#: Runs the program as often as it is told, each time in a process of its own, with its imports done before.
PROGRAM = """
import json, os, sys
import semel.cli.progress.commands
from semel.cli import main
for line in sys.stdin:
    order = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.dup2(2, 1)
        os.environ.update(order["plan"])
        sys.argv = ["semel", *order["command"]]
        main()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@contextmanager
def killing(tmp_path: Path) -> Iterator[Callable[[OwnerStep, list[str]], None]]:
    """Yield a function that runs a command, which dies at a step."""
    variables = {**os.environ, "SEMEL_STEPS": "semel.testing.crash:observe"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        orders, ended = program.stdin, program.stdout

        def kill(step: OwnerStep, command: list[str]) -> None:
            plan = CrashPlan(tmp_path / step.name, CrashPoint(step))
            orders.write(json.dumps({"command": command, "plan": plan.environment()}) + "\n")
            orders.flush()
            assert int(ended.readline()) == -signal.SIGKILL, step

        yield kill
