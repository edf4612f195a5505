"""Several workers of an application on this machine, a process each: Kafka Streams' ``num.stream.threads``.

A process that is killed is started again. One that ends with an error ends all: what it cannot work on, the others
cannot either. The workers end with the process that has started them, however it ends: each reads a pipe from it.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from semel.streams.app import App
from semel.streams.topics import prepare
from semel.wire.client import Client

__all__ = ["Workers", "check", "stop_with_parent", "take_place"]

log = logging.getLogger("semel.streams")

_POLL_S = 0.1
#: A worker that dies at once is not started more often than this.
_AGAIN_S = 1.0
#: How long a worker may take to commit what it has worked on, and to close its stores.
_GRACEFUL_S = 30.0


def check(app: App) -> None:
    """Find what would be refused, before processes start; make the application's topics.

    Raises what :class:`~semel.streams.worker.worker.Worker` raises for topics and settings.
    """
    settings = app.settings
    with Client(settings.client) as client:
        prepare(client, app.topology, settings.replication_factor)


class Workers:
    """Runs ``count`` processes. ``command`` returns that of a number. One thread uses it."""

    def __init__(self, command: Callable[[int], Sequence[str]], count: int) -> None:
        self._command = command
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._due = dict.fromkeys(range(count), 0.0)

    def run(self, stop: threading.Event) -> bool:
        """Keep them running until ``stop``. Return False if one has ended with an error: then all have ended."""
        try:
            while not stop.is_set():
                self._start_due()
                if self._has_failed():
                    return False
                stop.wait(_POLL_S)
        finally:
            self._end()
        return True

    def _start_due(self) -> None:
        now = time.monotonic()
        for number in [one for one, at in self._due.items() if at <= now]:
            del self._due[number]
            self._running[number] = subprocess.Popen(self._command(number), stdin=subprocess.PIPE)

    def _has_failed(self) -> bool:
        for number, process in list(self._running.items()):
            status = process.poll()
            if status is None:
                continue
            if status > 0:
                log.error("worker %d has ended with status %d: all workers end", number, status)
                return True
            log.warning("worker %d was ended by signal %d: it is started again", number, -status)
            del self._running[number]
            self._due[number] = time.monotonic() + _AGAIN_S
        return False

    def _end(self) -> None:
        for process in self._running.values():
            assert process.stdin is not None
            process.stdin.close()
        end = time.monotonic() + _GRACEFUL_S
        for number, process in self._running.items():
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("worker %d does not end: it is killed. What it has not committed is done again.", number)
                process.kill()
                process.wait()


def take_place(app: App, number: int) -> None:
    """Give a worker the folder and the instance id of its number."""
    settings = app.settings
    app.properties |= {"num.stream.threads": 1, "state.dir": str(settings.state_dir / str(number))}
    if settings.group_instance_id is not None:
        app.properties["group.instance.id"] = f"{settings.group_instance_id}-{number}"


def stop_with_parent(app: App) -> None:
    """Stop the application when the process that has started this one closes its pipe, or is gone."""

    def read() -> None:
        sys.stdin.buffer.read()
        app.stop()

    threading.Thread(target=read, name="semel-parent", daemon=True).start()
