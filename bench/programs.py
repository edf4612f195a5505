"""Programs that a bench runs beside it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["running"]

_END_S = 60.0


@contextmanager
def running(directory: Path, command: Sequence[str], name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program whose output goes to a file of this name; asked to end at the end."""
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
