"""A program that is measured from outside, with what it says in a file of the bench's directory."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["running"]

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
