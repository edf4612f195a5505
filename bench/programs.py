"""What runs beside a measurement: a program, with what it says in a file of the bench's directory, or a thread."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["running", "working"]

_STOP_S = 60.0


@contextmanager
def running(directory: Path, command: Sequence[str], name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run it until the block is left."""
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def working(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Have a thread work until the block is left: the event that it is given is set then."""
    ending = threading.Event()
    thread = threading.Thread(target=work, args=[ending], daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
