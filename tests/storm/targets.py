"""Whom the storm may strike: processes found through the tree of what it started itself, never by a name alone."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from semel.sandbox.processes import children
from semel.testing.crash import SPARK

__all__ = ["SEMEL", "driver_of", "executors_of", "frozen", "kill", "workers_of"]

#: The command, as it is installed.
SEMEL = [sys.executable, "-c", "from semel.cli import main; main()"]
_EXECUTOR = "CoarseGrainedExecutorBackend"
_DAEMON = "semel.testing.spark.daemon"


def driver_of(pid: int) -> list[int]:
    """A driver's Java, and the program itself. The Java comes first: it is found only as long as its program lives."""
    return [*(child for child, command in children(pid) if SPARK in command), pid]


def executors_of(pid: int) -> list[int]:
    """The Java of the executors that this driver program's Java has started."""
    return sorted(child for java in driver_of(pid)[:-1] for child, command in children(java) if _EXECUTOR in command)


def workers_of(pid: int) -> list[int]:
    """The Python workers of this driver program's executors, or of its own Java: what their daemons have forked."""
    javas = [*executors_of(pid), *driver_of(pid)[:-1]]
    daemons = (child for java in javas for child, command in children(java) if _DAEMON in command)
    return sorted(worker for daemon in daemons for worker, _ in children(daemon))


def kill(pids: Sequence[int]) -> None:
    """SIGKILL to each that is there."""
    _send(pids, signal.SIGKILL)


@contextmanager
def frozen(pids: Sequence[int]) -> Iterator[None]:
    """Stopped by SIGSTOP for that long. Who dies meanwhile stays dead."""
    _send(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _send(pids, signal.SIGCONT)


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
