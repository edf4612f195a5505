"""``semel connect``: a worker of Kafka Connect, with connectors in Python, on Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from semel.cli.help import application, examples
from semel.cli.processes import (
    Conf,
    Master,
    MetricsPort,
    PyFiles,
    ShownProcesses,
    in_background,
    python_files,
    serving_metrics,
    spark_settings,
    until_asked_to_end,
)
from semel.errors import AbortAndRetry, Fenced, Retriable
from semel.extras import needs_extras
from semel.settings.properties_file import read_properties

if TYPE_CHECKING:
    from semel.connect.worker.worker import Worker
    from semel.processes.launcher import Launcher

app = application()

_POLL_S = 0.2
#: The interval of reports about the records of a running task.
_TELL_S = 10.0


@app.command(
    epilog=examples(
        "semel connect worker.properties orders.properties",
        "semel connect test my_connectors.Orders orders.properties \\\n    --py-files my_connectors.py",
    )
)
def connect(
    worker: Annotated[Path, typer.Argument(metavar="WORKER.properties", help="The worker's properties.")],
    connectors: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CONNECTOR.properties",
            help="The properties of each connector. They replace a stored configuration of its name.",
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    py_files: PyFiles = None,
    metrics_port: MetricsPort = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="Start Spark now, although another worker of the group leads.")
    ] = False,
) -> None:
    """Run connectors until Ctrl-C.

    The files are those of Kafka Connect. With `exactly.once.source.support=enabled`, each record of a source arrives
    once. With `config.storage.topic` and `status.storage.topic`, you can create and change connectors over REST.

    `semel connect test CLASS CONNECTOR.properties` checks a connector whose source has an end. It reads the source into
    its own Kafka, and kills the tasks at each step. The status is 1 unless each record arrived once.
    """
    with needs_extras("semel connect", "spark,connect"):
        from semel.connect.metrics import ConnectCollector
        from semel.connect.worker.worker import Worker
        from semel.processes.launcher import Launcher, session_of_processes

    console = Console(soft_wrap=True)
    settings = spark_settings(conf)
    files, places = python_files(py_files)  # the driver imports the connectors before it starts Spark
    if str(worker) == "test":
        _test(console, [str(one) for one in connectors or ()], places)
        return
    made = Worker(read_properties(worker), [read_properties(path) for path in connectors or ()])
    with serving_metrics(metrics_port, lambda: ConnectCollector(made)):
        made.prepare()
        _work(
            console, made, lambda: Launcher(session_of_processes("semel connect", master, settings, files)), warm=warm
        )


def _work(console: Console, worker: Worker, start_spark: Callable[[], Launcher], *, warm: bool) -> None:
    """Lead or stand by, until Ctrl-C or until no task runs any more."""
    asked_to_end = until_asked_to_end()
    starting: Future[Launcher] | None = None
    launcher: Launcher | None = None
    config, shown = worker.config, _Shown(console)
    console.print(
        f"worker of group {config.group_id}: offsets in {config.offsets_topic},"
        f" exactly once for sources {'enabled' if config.exactly_once else 'disabled: their records may come twice'};"
        f" {'starting Spark' if worker.leads else _standing_by(worker)}"
    )
    for address in worker.addresses:
        console.print(f"REST listens on {address}{_reach(address)}")
    try:
        led = worker.leads
        while worker.running and not asked_to_end.is_set():
            if starting is None and (worker.due or warm):
                starting = in_background(start_spark)
            if starting is not None and starting.done():
                launcher = starting.result()
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
    """Start all tasks. Return False if another worker has come in between, or the cluster does not answer now."""
    try:
        worker.start(launcher, shown.change, shown.message)
    except (AbortAndRetry, Fenced, Retriable) as error:
        console.print(Text(f"this worker does not lead yet: {error}"))
        return False
    return True


def _standing_by(worker: Worker) -> str:
    return f"standing by: {worker.leader_url or 'another worker'} leads"


def _test(console: Console, arguments: list[str], places: list[str]) -> None:
    """Run ``semel connect test CLASS CONNECTOR.properties``."""
    if len(arguments) != 2:
        raise typer.BadParameter("give the connector's class and its properties", param_hint="test")
    with needs_extras("semel connect test", "spark,connect,testing"):
        from semel.testing.connector import check_connector
    os.environ["PYTHONPATH"] = os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")])
    findings = check_connector({**read_properties(Path(arguments[1])), "connector.class": arguments[0]}, console.print)
    console.print(f"killed at {', '.join(step.value for step in findings.struck) or 'no step'}")
    if findings.unreached:
        console.print(f"too short a source to be killed at {', '.join(step.value for step in findings.unreached)}")
    for what, records in (("lost", findings.lost), ("doubled", findings.doubled)):
        for (topic, key, value), count in list(records.items())[:5]:
            console.print(Text(f"{what} {count} times: {topic} {key} {value!s:.200}", style="red"))
    lost, doubled = sum(findings.lost.values()), sum(findings.doubled.values())
    console.print(f"{findings.expected:,} records: {lost} lost, {doubled} doubled")
    if not findings.exact or not findings.struck:
        raise typer.Exit(1)


def _reach(address: str) -> str:
    """Return a note if only this machine can reach the listener."""
    return ", for this machine alone" if address.partition("://")[2].startswith(("127.", "[::1]")) else ""


class _Shown(ShownProcesses):
    """Prints each change of a task, and its number of records now and then."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._shown: dict[str, tuple[float, int]] = {}

    def changed(self, name: str) -> None:
        """Start its count again."""
        self._shown.pop(name, None)

    def message(self, name: str, message: Mapping[str, Any]) -> None:
        """Print how many records a task has written since it started, now and then."""
        now, records = time.monotonic(), int(message["records"])
        with self.lock:
            at, before = self._shown.get(name, (0.0, 0))
            if records > before and now - at >= _TELL_S:
                self._shown[name] = now, records
                self.console.print(
                    Text(f"{name} {records:,} records in {int(message['polls']):,} polls since its start")
                )
