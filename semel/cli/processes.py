"""Options and output of the commands that run processes on Spark executors."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from semel.metrics.families import Collector
from semel.metrics.server import serve

__all__ = [
    "Conf",
    "Master",
    "MetricsPort",
    "PyFiles",
    "ShownProcesses",
    "in_background",
    "on_stop_signal",
    "python_files",
    "serving_metrics",
    "spark_settings",
    "until_asked_to_end",
]

T = TypeVar("T")

log = logging.getLogger("semel.cli")

Master = Annotated[
    str | None,
    typer.Option(
        "--master", help="Spark's master, as for spark-submit. Default: local[64,4] (64 task slots, 4 tries)."
    ),
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark, as for spark-submit.")
]
PyFiles = Annotated[str | None, typer.Option("--py-files", help="Files that executors need, separated by commas.")]

MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", help="Serve metrics for Prometheus on this port of this machine.", min=0, max=65535),
]


@contextmanager
def serving_metrics(port: int | None, collector: Callable[[], Collector]) -> Iterator[None]:
    """Serve the metrics of one collector on this port, if there is one."""
    if port is None:
        yield
        return
    with serve([collector()], port) as server:
        log.info("metrics: http://127.0.0.1:%d/metrics", server.port)
        yield


def spark_settings(pairs: list[str] | None) -> dict[str, str]:
    """Return the settings of ``--conf``."""
    wrong = next((one for one in pairs or () if one.find("=") < 1), None)
    if wrong is not None:
        raise typer.BadParameter(f"{wrong!r} is not NAME=VALUE", param_hint="--conf")
    return dict(one.split("=", 1) for one in pairs or ())


def python_files(py_files: str | None) -> tuple[list[str], list[str]]:
    """Return the files of ``--py-files``, and the places where this program finds their modules, which it can import
    now.
    """
    files = [path for path in (py_files or "").split(",") if path]
    places = [str(Path(path).absolute().parent) if path.endswith(".py") else path for path in files]
    sys.path[:0] = places
    return files, places


def on_stop_signal(stop: Callable[[], object], note: str) -> None:
    """Call ``stop`` at Ctrl-C and SIGTERM from now on, which are logged with ``note``."""

    def handle(number: int, _: FrameType | None) -> None:
        stop()
        log.info("%s: %s", signal.Signals(number).name, note)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


def until_asked_to_end(*, note: str = "it stops") -> threading.Event:
    """Return an event that is set by Ctrl-C and SIGTERM from now on."""
    asked = threading.Event()
    on_stop_signal(asked.set, note)
    return asked


def in_background(work: Callable[[], T]) -> Future[T]:
    """Run this in a thread that does not keep the program alive: the program can be stopped before its end.

    Spark started there leaves the signals as they are.
    """
    made: Future[T] = Future()

    def run() -> None:
        try:
            made.set_result(work())
        except BaseException as error:  # handed to the caller of result()
            made.set_exception(error)

    threading.Thread(target=run, name="semel-in-background", daemon=True).start()
    return made


class ShownProcesses:
    """The terminal's output about processes: each change, once. ``lock`` is held while it prints."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.lock = threading.Lock()
        self._last: dict[str, tuple[str, ...]] = {}

    def change(self, status: Any) -> None:
        """Print a new state of a process."""
        state = (status.state.name, status.where, status.reason)
        with self.lock:
            if self._last.get(status.name) == state:
                return
            self._last[status.name] = state
            self.changed(status.name)
            where = f" on {status.where}" if status.where else ""
            self.console.print(
                Text(f"{status.name} {status.state.name}{where}{f': {status.reason}' if status.reason else ''}")
            )
            if status.trace and status.state.name == "FAILED":
                self.console.print(Text(status.trace.rstrip(), style="dim"))

    def changed(self, name: str) -> None:
        """Take note of a new state of a process."""
