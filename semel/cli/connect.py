"""``semel connect``: a worker of Kafka Connect, with connectors in Python, on Spark."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from semel.errors import ConfigError, Fenced, Retriable

if TYPE_CHECKING:
    from semel.connect.worker import Worker
    from semel.runtime.launcher import Launcher

app = typer.Typer(add_completion=False)

_POLL_S = 0.2
#: How often the records of a running task are told.
_TELL_S = 10.0


@app.command()
def connect(
    worker: Annotated[Path, typer.Argument(metavar="WORKER.properties", help="The worker's properties.")],
    connectors: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[CONNECTOR.properties...]", help="The properties of each connector; they act as PUT."),
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", help="Spark's master, as for spark-submit; local[64,4] unless set.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark, as for spark-submit.")
    ] = None,
    py_files: Annotated[
        str | None, typer.Option("--py-files", help="Files that executors need, separated by commas.")
    ] = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="Start Spark while another worker of the group still leads.")
    ] = False,
) -> None:
    """Run source connectors until Ctrl-C. With exactly.once.source.support=enabled each record arrives once.

    semel connect test CLASS CONNECTOR.properties reads a source that has an end into a Kafka of its own, kills its
    tasks at each step, and ends with status 1 unless each record arrived once.

    Takes the properties files of Kafka Connect. With config.storage.topic and status.storage.topic, REST creates and
    changes connectors.
    """
    try:
        from semel.connect.config import read_properties
        from semel.connect.worker import Worker
        from semel.runtime.launcher import Launcher, spark_session
    except ImportError as missing:
        raise ConfigError(
            f"semel connect needs {missing.name}, which is not installed. Nothing was started. Run, in semel's"
            " checkout: pip install '.[spark,connect]'",
            tag="CONNECT_EXTRA",
        ) from None

    console = Console(soft_wrap=True)
    settings, files = _settings(conf or []), [path for path in (py_files or "").split(",") if path]
    # the driver looks at the connectors before it starts Spark
    places = [str(Path(path).absolute().parent) if path.endswith(".py") else path for path in files]
    sys.path[:0] = places
    if str(worker) == "test":
        _test(console, [str(one) for one in connectors or ()], read_properties, places)
        return
    made = Worker(read_properties(worker), [read_properties(path) for path in connectors or ()])
    made.prepare()
    _work(console, made, lambda: Launcher(spark_session("semel connect", master, settings, files)), warm=warm)


def _work(console: Console, worker: Worker, start_spark: Callable[[], Launcher], *, warm: bool) -> None:
    """Lead or stand by, until Ctrl-C or until nothing runs any more."""
    asked_to_end = threading.Event()
    launcher: Launcher | None = None

    def listen() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: asked_to_end.set())

    listen()
    config, shown = worker.config, _Shown(console)
    console.print(
        f"worker of group {config.group_id}: offsets in {config.offsets_topic},"
        f" exactly once {'enabled' if config.exactly_once else 'disabled: records may come twice'};"
        f" {'starting Spark' if worker.leads else _standing_by(worker)}"
    )
    for address in worker.addresses:
        console.print(f"REST listens on {address}{_reach(address)}")
    try:
        led = worker.leads
        while worker.running and not asked_to_end.is_set():
            if launcher is None and (worker.due or warm):
                launcher = start_spark()
                listen()  # after Spark, which sets one of its own
            if worker.due and launcher is not None:
                if not led:
                    console.print(f"this worker leads group {config.group_id} now")
                led = _lead(console, worker, launcher, shown)
            elif led and not worker.leads:
                led = False
                console.print(f"another worker leads this group now; {_standing_by(worker)}")
            asked_to_end.wait(_POLL_S)
    finally:
        worker.stop()
    if not asked_to_end.is_set():
        console.print("nothing runs any more", style="red")
        raise typer.Exit(1)
    if launcher is not None:
        launcher.stop()
    console.print("stopped")


def _lead(console: Console, worker: Worker, launcher: Launcher, shown: _Shown) -> bool:
    """Start all tasks. False where another worker has come in between, or the cluster does not answer now."""
    try:
        worker.start(launcher, shown.change, shown.message)
    except (Fenced, Retriable) as error:
        console.print(Text(f"this worker does not lead yet: {error}"))
        return False
    return True


def _standing_by(worker: Worker) -> str:
    return f"standing by: {worker.leader_url or 'another worker'} leads"


def _test(console: Console, given: list[str], read: Callable[[Path], dict[str, str]], places: list[str]) -> None:
    """``semel connect test CLASS CONNECTOR.properties``."""
    if len(given) != 2:
        raise typer.BadParameter("give the connector's class and its properties", param_hint="test")
    try:
        from semel.testing.connector import check_connector
    except ImportError as missing:
        raise ConfigError(
            f"semel connect test needs {missing.name}, which is not installed. Nothing was started. Run, in semel's"
            " checkout: pip install '.[spark,connect,testing]'",
            tag="CONNECT_EXTRA",
        ) from None
    os.environ["PYTHONPATH"] = os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")])
    found = check_connector({**read(Path(given[1])), "connector.class": given[0]}, console.print)
    console.print(f"killed at {', '.join(step.value for step in found.struck) or 'no step'}")
    if found.unreached:
        console.print(f"too short a source to be killed at {', '.join(step.value for step in found.unreached)}")
    for what, records in (("lost", found.lost), ("doubled", found.doubled)):
        for (topic, key, value), count in list(records.items())[:5]:
            console.print(Text(f"{what} {count} times: {topic} {key} {value!s:.200}", style="red"))
    lost, doubled = sum(found.lost.values()), sum(found.doubled.values())
    console.print(f"{found.expected:,} records: {lost} lost, {doubled} doubled")
    if not found.exact or not found.struck:
        raise typer.Exit(1)


def _reach(address: str) -> str:
    """Who can reach a listener, where that is not all of the network."""
    return ", for this machine alone" if address.startswith(("http://127.", "http://[::1]")) else ""


def _settings(given: list[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    wrong = next((name for name, equals, _ in pairs if not equals or not name), None)
    if wrong is not None:
        raise typer.BadParameter(f"{wrong!r} is not NAME=VALUE", param_hint="--conf")
    return {name: value for name, _, value in pairs}


class _Shown:
    """What the terminal shows: each change of a task, and how far it is now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._last: dict[str, tuple[str, ...]] = {}
        self._told: dict[str, tuple[float, int]] = {}

    def change(self, status: Any) -> None:
        """Print a new state, once."""
        state = (status.state.name, status.where, status.reason)
        with self._lock:
            if self._last.get(status.name) == state:
                return
            self._last[status.name] = state
            self._told.pop(status.name, None)
            where = f" on {status.where}" if status.where else ""
            self._console.print(
                Text(f"{status.name} {status.state.name}{where}{f': {status.reason}' if status.reason else ''}")
            )
            if status.trace and status.state.name == "FAILED":
                self._console.print(Text(status.trace.rstrip(), style="dim"))

    def message(self, name: str, message: Mapping[str, Any]) -> None:
        """Print how many records a task has written since it started, now and then."""
        now, records = time.monotonic(), int(message["records"])
        with self._lock:
            at, before = self._told.get(name, (0.0, 0))
            if records > before and now - at >= _TELL_S:
                self._told[name] = now, records
                self._console.print(
                    Text(f"{name} {records:,} records in {int(message['polls']):,} polls since its start")
                )
