"""Ports for brokers, chosen so that neither another sandbox nor a passing connection takes them.

They are below the range of outgoing connections: a node that was killed finds its port free when it starts again.
Sandboxes of one user lock a file per port, and the operating system releases the lock with the process. Another program
may still take a port between the choice and the broker's bind. The broker then fails, and the sandbox chooses again.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

from semel.errors import ConfigError

__all__ = ["Ports", "is_free"]

_LOWEST, _HIGHEST = 20_000, 31_999
_TRIES = 500


def is_free(port: int) -> bool:
    """Return True if a server could listen on this port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Ports:
    """Free ports, held until :meth:`release`."""

    def __init__(self, count: int) -> None:
        self._locks: list[IO[str]] = []
        self.numbers: list[int] = []
        folder = Path(tempfile.gettempdir()) / f"semel-ports-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        candidates = random.sample(range(_LOWEST, _HIGHEST), _TRIES)
        while len(self.numbers) < count and candidates:
            self._try(folder, candidates.pop())
        if len(self.numbers) < count:
            self.release()
            raise ConfigError(
                f"no {count} free ports among {_TRIES} tried between {_LOWEST} and {_HIGHEST}. Nothing was started."
                " Stop what holds them, or give ports yourself.",
                tag="NO_FREE_PORT",
            )

    def _try(self, folder: Path, port: int) -> None:
        lock = (folder / f"{port}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return
        if not is_free(port):
            lock.close()
            return
        self._locks.append(lock)
        self.numbers.append(port)

    def release(self) -> None:
        """Release the ports for other sandboxes."""
        for lock in self._locks:
            lock.close()
        self._locks.clear()
