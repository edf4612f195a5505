"""The process that ends a broker, or removes its directory, when the process that started it is gone.

It runs as a program of its own, by its path and with the standard library alone, so that it is up in milliseconds:

- ``watch.py PARENT LOG COMMAND...`` runs the command with its output appended to LOG, prints its process id, ends with
  its exit status, and kills it when the parent is gone;
- ``watch.py PARENT --remove DIRECTORY`` removes the directory when the parent is gone, trying again while killed
  brokers still write into it.

The parent is gone when its end of our standard input is closed, which the operating system does even for SIGKILL. It is
also gone when this process has another parent: a forked child of the parent may hold that pipe open. If the watcher
itself is killed, Linux ends the broker with it. On macOS the broker runs until it is stopped by hand.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PATIENCE_S = 30.0


def _tied_to_this_process() -> Callable[[], None] | None:
    """Return a function that the child runs before the command, so that it cannot outlive this process.

    Linux watches the thread that starts the child, and this program has only one.
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    me = os.getpid()

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != me:
            os._exit(1)

    return tie


def _wait(parent: int, woken: int | None, over: Callable[[], bool]) -> None:
    """Wait until the parent is gone or ``over()`` is true. ``woken`` is a descriptor that becomes readable when that
    may have changed.
    """
    watched = [0] if woken is None else [0, woken]
    while not over() and os.getppid() == parent:
        readable, _, _ = select.select(watched, [], [], 1.0)
        if woken in readable and woken is not None:
            os.read(woken, 64)
        if 0 in readable and not os.read(0, 64):
            return


def run(parent: int, log: str, command: list[str]) -> int:
    """Run the command until it ends or the parent does."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)

    def child_changed(number: int, frame: FrameType | None) -> None:
        """Do nothing: the handler exists so that the signal is delivered, which wakes the wait."""

    signal.signal(signal.SIGCHLD, child_changed)
    with Path(log).open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_tied_to_this_process(),
        )
    os.write(1, f"{child.pid}\n".encode())
    _wait(parent, reading, lambda: child.poll() is not None)
    if child.poll() is None:
        child.kill()
    return child.wait()


def remove(parent: int, directory: Path) -> int:
    """Remove the directory once the parent is gone."""
    _wait(parent, None, lambda: False)
    deadline = time.monotonic() + _PATIENCE_S
    while directory.exists() and time.monotonic() < deadline:
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.05)
    return int(directory.exists())


def main(arguments: list[str]) -> int:
    """Run the program."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = int(arguments[0])
    if arguments[1] == "--remove":
        return remove(parent, Path(arguments[2]))
    status = run(parent, arguments[1], arguments[2:])
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
