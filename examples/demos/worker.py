"""A worker of Connect as the demos run it: its files, a wait for what it does, and its death with all of Spark."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from semel.sandbox.processes import children
from semel.testing.crash import SPARK
from semel.testing.program import Program

__all__ = ["command", "end", "kill", "wait"]

_PATIENCE_S, _POLL_S = 240.0, 0.3


def command(folder: Path, files: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Write the properties of a worker, the first, and of its connectors. Return the command that runs them."""
    argv = [sys.executable, "-c", "from semel.cli import main; main()", "connect"]
    for name, properties in files.items():
        path = folder / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in properties.items()))
        argv.append(str(path))
    return argv


def wait(worker: Program, condition: Callable[[], bool]) -> None:
    """Wait for a condition. End the demo if the worker ends, or if it takes too long."""
    end = time.monotonic() + _PATIENCE_S
    while not condition():
        if worker.process.poll() is not None or time.monotonic() > end:
            sys.exit(f"the worker did not get on. It says:\n{worker.tail()}")
        time.sleep(_POLL_S)


def kill(worker: Program) -> None:
    """End the worker and its Spark with SIGKILL."""
    for pid, line in children(worker.process.pid):
        if SPARK in line:
            os.kill(pid, signal.SIGKILL)
    worker.process.kill()
    worker.process.wait()


def end(worker: Program) -> None:
    """End the worker as Ctrl-C does."""
    worker.process.send_signal(signal.SIGINT)
    worker.wait(60)
