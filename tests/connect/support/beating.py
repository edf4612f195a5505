"""Processes for the tests of the runtime."""

from __future__ import annotations

import os
import time
from pathlib import Path

from semel.errors import Retriable
from semel.processes.process import Process


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


def ask(process: Process) -> None:
    """Ask the driver three things; it answers two."""
    process.tell({"answers": [process.ask({"n": number})["twice"] for number in (1, 2)]})
    process.ask({"n": 3})


def pids(directory: Path, name: str = "") -> list[int]:
    """All processes that have been there, in the order in which they came."""
    files = sorted(directory.glob(f"{name}*-*"), key=lambda path: path.stat().st_mtime_ns)
    return [int(path.name.rpartition("-")[2]) for path in files]
