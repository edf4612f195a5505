"""A process for the tests of the runtime, and a driver program that keeps some of it running."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from semel.errors import Retriable
from semel.runtime.process import Process


def beat(process: Process) -> None:
    """Leave a file for each process, and tell its pid and what was in the settings until it is asked to end."""
    directory = Path(process.settings["directory"])
    (directory / f"{process.settings['name']}-{os.getpid()}").touch()
    while not process.stopping.wait(0.05):
        process.tell({"pid": os.getpid(), "secret": process.settings.get("secret")})


def deaf(process: Process) -> None:
    """Never look whether it should end."""
    beat_once(process)
    while True:
        time.sleep(0.1)


def beat_once(process: Process) -> None:
    """Leave the file, and end."""
    (Path(process.settings["directory"]) / f"{process.settings['name']}-{os.getpid()}").touch()


def fail(process: Process) -> None:
    """Raise what says nothing of running it again."""
    raise ValueError("no such table")


def ask_again(process: Process) -> None:
    """Ask to be run again, twice."""
    beat_once(process)
    if len(list(Path(process.settings["directory"]).iterdir())) < 3:
        raise Retriable("not yet. Nothing was read. Wait.")


def pids(directory: Path, name: str = "") -> list[int]:
    """All processes that have been there, in the order in which they came."""
    files = sorted(directory.glob(f"{name}*-*"), key=lambda path: path.stat().st_mtime_ns)
    return [int(path.name.rpartition("-")[2]) for path in files]


def main(directory: str, names: str) -> None:
    """Keep processes running for ever."""
    from semel.runtime.launcher import Launcher, spark_session
    from semel.runtime.supervisor import Status, Supervisor

    def see(status: Status) -> None:
        print(json.dumps([status.name, status.state.name, status.where, status.reason]), flush=True)

    supervisor = Supervisor(Launcher(spark_session("beating", None, {})), on_change=see)
    for name in names.split(","):
        supervisor.start(name, "tests.connect.support.beating:beat", {"directory": directory, "name": name})
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
