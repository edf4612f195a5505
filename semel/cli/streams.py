"""``semel streams``: run a streams application, show its topology and state, and reset it."""

from __future__ import annotations

import logging
import sys
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from semel.cli.help import application, examples
from semel.cli.options import AsJson, confirm, print_json
from semel.cli.processes import (
    Conf,
    Master,
    MetricsPort,
    PyFiles,
    ShownProcesses,
    on_stop_signal,
    python_files,
    serving_metrics,
    spark_settings,
    until_asked_to_end,
)
from semel.extras import needs_extras
from semel.streams.metrics import StreamsCollector
from semel.streams.worker.processes import Workers, check, stop_with_parent, take_place
from semel.wire.client import Client

__all__ = ["app"]

log = logging.getLogger("semel.cli")

_POLL_S = 0.2

app = application(no_args_is_help=True, help="Run a streams application, inspect its state, or reset it.")
File = Annotated[Path, typer.Argument(metavar="APP.py", help="A Python file with one semel.streams.App.")]


@app.command(epilog=examples("semel streams run app.py", "semel streams run app.py --tasks 4"))
def run(
    file: File,
    tasks: Annotated[
        int | None,
        typer.Option(min=1, help="Run this many workers on Spark executors. More workers than partitions do not help."),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    py_files: PyFiles = None,
    metrics_port: MetricsPort = None,
    number: Annotated[int | None, typer.Option("--number", hidden=True)] = None,
) -> None:
    """Run one worker of the application until SIGTERM or Ctrl-C, or as many as its num.stream.threads says.

    Start the command several times to share the work. With `--tasks`, Spark executors run the workers. A worker that
    is killed is restarted there, and also with num.stream.threads. After a restart, it resumes at the last commit.

    The status is 0 if you stopped it, and 1 after an error.
    """
    if tasks is not None and metrics_port is not None:
        raise typer.BadParameter("it is for one worker: leave out --tasks", param_hint="--metrics-port")
    if tasks is not None:
        _run_on_executors(file, tasks, master, spark_settings(conf), py_files)
        return
    if master or conf or py_files:
        raise typer.BadParameter("these are for workers on Spark: say how many by --tasks", param_hint="--tasks")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("semel").setLevel(logging.INFO)
    streams_app = _load(file)
    threads = streams_app.settings.num_stream_threads
    if number is not None:
        take_place(streams_app, number)
        stop_with_parent(streams_app)
    elif threads > 1:
        if metrics_port is not None:
            raise typer.BadParameter("it is for one worker: set num.stream.threads to 1", param_hint="--metrics-port")
        check(streams_app)
        _run_processes(file, threads)
        return
    on_stop_signal(streams_app.stop, "what is done is committed, then it stops")
    log.info("application %r runs", streams_app.application_id)
    collector = partial(
        StreamsCollector, streams_app.application_id, streams_app.counts, lambda: streams_app.dropped_records
    )
    with serving_metrics(metrics_port, collector):
        streams_app.run()


def _run_processes(file: Path, threads: int) -> None:
    """Run this command again, for each worker."""
    program = [sys.executable, "-c", "from semel.cli import main; main()", "streams", "run", str(file), "--number"]
    workers = Workers(lambda number: [*program, str(number)], threads)
    if not workers.run(until_asked_to_end(note="all workers commit what is done, then they stop")):
        raise typer.Exit(1)


def _run_on_executors(
    file: Path, tasks: int, master: str | None, settings: dict[str, str], py_files: str | None
) -> None:
    from semel.streams.app_file import AppFile

    with needs_extras("--tasks", "spark,connect,streams"):
        from semel.processes.launcher import Launcher, session_of_processes
        from semel.streams.worker.executors import Executors
    console = Console(soft_wrap=True)
    files, _ = python_files(py_files)
    read = AppFile.read(file)
    streams_app = read.load()
    if streams_app.settings.num_stream_threads > 1:
        raise typer.BadParameter("it says how many workers run: set num.stream.threads to 1", param_hint="--tasks")
    check(streams_app)
    console.print(f"application {streams_app.application_id}: {tasks} workers; starting Spark")
    launcher = Launcher(session_of_processes(f"semel streams {streams_app.application_id}", master, settings, files))
    asked_to_end = until_asked_to_end()
    executors = Executors(launcher, read, streams_app, tasks, ShownProcesses(console).change)
    while executors.running and not asked_to_end.wait(_POLL_S):
        pass
    ended_well = asked_to_end.is_set()
    executors.stop()
    if not ended_well:
        console.print("no worker runs any more", style="red")
        raise typer.Exit(1)
    launcher.stop()
    console.print("stopped")


@app.command(epilog=examples("semel streams describe app.py", "semel streams describe app.py --mermaid"))
def describe(
    file: File,
    as_mermaid: Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid flowchart instead.")] = False,
) -> None:
    """Print the topology as Kafka Streams does, without a broker."""
    from semel.streams.topology.mermaid import mermaid

    streams_app = _load(file)
    typer.echo(mermaid(streams_app.topology) if as_mermaid else streams_app.describe())


@app.command(epilog=examples("semel streams state app.py counts", "semel streams state app.py counts --key alice"))
def state(
    file: File,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The name of a store.")],
    key: Annotated[str | None, typer.Option("--key", help="Show this key. Without it, the first keys.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="The largest number of entries to show.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the entries of a store at the last commit, read from its changelog."""
    from semel.streams.lookup import look_up

    streams_app = _load(file)
    with Client(streams_app.settings.client) as client:
        entries = list(islice(look_up(client, streams_app.topology, store, key), limit))
    if as_json:
        print_json(entries)
        return
    for entry in entries:
        typer.echo("  ".join(f"{name}={value}" for name, value in entry.items()))
    if not entries:
        typer.echo("nothing" if key is None else f"nothing for {key!r}")


@app.command(epilog=examples("semel streams reset app.py"))
def reset(file: File, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Reset the application, so that it reads its input again.

    The command deletes its internal topics, its offsets and its state on this machine. It shows them, and asks. Rows in
    output topics stay, and the application writes them again.
    """
    from semel.streams.reset import plan_reset
    from semel.streams.reset import reset as carry_out

    streams_app = _load(file)
    with Client(streams_app.settings.client) as client:
        planned = plan_reset(client, streams_app)
        console = Console(soft_wrap=True)
        console.print(f"{planned.application_id}: the group's offsets are deleted")
        for name in (*planned.topics, *map(str, planned.folders)):
            console.print(f"{name} is deleted")
        confirm(console, "Begin again?", "Nothing was deleted.", yes=yes)
        carry_out(client, planned)


def _load(file: Path) -> Any:
    from semel.streams.app_file import AppFile

    return AppFile.read(file).load()
