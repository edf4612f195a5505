"""An application on Spark executors: each worker is a long-running process, launched again when it dies.

A worker has the ``group.instance.id`` of its number. So the one that comes after a killed one fences it at once, gets
its tasks without a rebalance, and on the same machine finds its state. On another machine the state is restored from
the changelogs. Of two drivers of one application the later one takes over: the workers of the earlier one end, fenced.
"""

from __future__ import annotations

from collections.abc import Callable

from semel.errors import ConfigError, Retriable
from semel.processes.launcher import Launcher
from semel.processes.process import Process
from semel.processes.supervisor import State, Status, Supervisor
from semel.streams.app import App
from semel.streams.app_file import AppFile
from semel.streams.worker.worker import Worker

__all__ = ["Executors", "run_worker"]

_ENTRY = "semel.streams.worker.executors:run_worker"
#: How long a worker may take to commit what it has worked on, and to close its stores.
_GRACEFUL_S = 30.0


class Executors:
    """Runs ``tasks`` workers of the application in this file."""

    def __init__(
        self, launcher: Launcher, file: AppFile, app: App, tasks: int, on_change: Callable[[Status], None]
    ) -> None:
        self._supervisor = Supervisor(launcher, on_change=on_change)
        prefix = app.settings.group_instance_id or "worker"
        for number in range(tasks):
            name = f"{prefix}-{number}"
            self._supervisor.start(name, _ENTRY, {"file": file.name, "text": file.text, "instance": name})

    @property
    def running(self) -> bool:
        """True if Spark runs, and a worker that has not failed."""
        states = [status.state for status in self._supervisor.statuses]
        return not self._supervisor.spark_gone.is_set() and any(
            state not in (State.FAILED, State.STOPPED) for state in states
        )

    def stop(self) -> None:
        """Let all workers commit what is done, and end them."""
        self._supervisor.stop(_GRACEFUL_S)
        self._supervisor.close()


def run_worker(process: Process) -> None:
    """Be a worker: the entry of its process."""
    given = process.settings
    app = AppFile(given["file"], given["text"]).load()
    _take_place(app, given["instance"])
    try:
        Worker.run(app, process.stopping)
    except ConfigError as error:
        if error.tag != "STATE_LOCKED":
            raise
        raise Retriable(  # the process before it, which Spark has not ended yet
            f"{error.message} It starts again until that is so.", tag="STATE_LOCKED"
        ) from error


def _take_place(app: App, instance: str) -> None:
    """Workers on one machine need an instance id and a folder each."""
    app.properties |= {"group.instance.id": instance, "state.dir": str(app.settings.state_dir / instance)}
