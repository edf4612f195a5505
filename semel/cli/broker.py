"""``semel broker start | topic | status | stop``: a real Apache Kafka on this machine, left running in the
background.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from semel.cli.help import application, examples
from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.sandbox import DEFAULT_VERSION, VERSION_VARIABLE, background
from semel.sandbox.jars import install
from semel.wire.api import topics
from semel.wire.client import Client

__all__ = ["app"]

app = application(no_args_is_help=True, help="Run a real Apache Kafka on this machine, for development.")


@app.command(
    epilog=examples(
        "semel broker start",
        "semel broker start --topic orders:4 --directory ~/kafka-data",
        "semel broker start --nodes 3",
    )
)
def start(
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="The port of the first node. Further nodes use the next ports.")
    ] = 9092,
    nodes: Annotated[
        int, typer.Option(min=1, max=9, help="The number of brokers. With 3 or more, topics have 3 replicas.")
    ] = 1,
    version: Annotated[
        str, typer.Option(help="The version of Apache Kafka.", envvar=VERSION_VARIABLE)
    ] = DEFAULT_VERSION,
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic to create: NAME or NAME:PARTITIONS. Repeat it for more.")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Keep the data in this folder. Without it, they are deleted with the broker."),
    ] = None,
    two_phase_commit: Annotated[bool, typer.Option("--two-phase-commit", help="Allow two-phase commit.")] = False,
) -> None:
    """Start a broker on 127.0.0.1, and leave it running.

    The first start downloads Apache Kafka (45 MB) and keeps it in the cache folder.

    A misspelt topic name is created, not refused: that is Kafka's default for a topic that a producer names.
    """
    console = Console()
    wanted = [_topic(text) for text in topic or []]
    install(version, progress=True)
    with console.status("starting Apache Kafka ..."):
        broker = background.start(
            port=port, nodes=nodes, version=version, directory=directory, two_phase_commit=two_phase_commit
        )
        _create(broker.bootstrap_servers, wanted)
    _show(console, broker)


@app.command(epilog=examples("semel broker topic orders:4 payments"))
def topic(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME[:PARTITIONS]", help="The topics to create. An existing topic is not changed."),
    ],
) -> None:
    """Create topics on the broker that you started with `semel broker start`."""
    wanted = [_topic(text) for text in names]
    broker = background.status()
    if broker is None or not broker.running:
        raise ConfigError(
            "no broker is running. No topic was created. Start one with: semel broker start", tag="BROKER_NOT_RUNNING"
        )
    for name, new in _create(broker.bootstrap_servers, wanted).items():
        Console(soft_wrap=True).print(
            f"{name}: {'created' if new else 'is there already, and stays as it is, with the partitions that it has'}"
        )


@app.command(epilog=examples("semel broker status"))
def status() -> None:
    """Show the broker that you started with `semel broker start`.

    The status is 1 if no broker is running.
    """
    console = Console()
    broker = background.status()
    if broker is None:
        console.print("no broker is running; start one with: semel broker start")
        raise typer.Exit(1)
    _show(console, broker)
    if not broker.running:
        raise typer.Exit(1)


@app.command(epilog=examples("semel broker stop"))
def stop() -> None:
    """Stop the broker that you started with `semel broker start`."""
    broker = background.stop()
    if broker is None:
        Console().print("no broker is running")
        return
    kept = f"its data are kept in {broker.directory}" if broker.keeps_data else "its data are gone with it"
    Console(soft_wrap=True).print(f"stopped the broker at {broker.bootstrap_servers}; {kept}")


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.partition(":")
    if not name or (colon and not (partitions.isdecimal() and int(partitions) > 0)):
        raise typer.BadParameter(f"{text!r} is not NAME or NAME:PARTITIONS, as in orders:4", param_hint="--topic")
    return name, int(partitions or 1)


def _create(servers: str, wanted: Sequence[tuple[str, int]]) -> dict[str, bool]:
    """Create the topics. Return True for each new one."""
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        return {name: topics.create(client, name, partitions=partitions, config={}) for name, partitions in wanted}


def _show(console: Console, broker: background.Background) -> None:
    running = broker.running
    since = datetime.fromisoformat(broker.since)
    table = Table.grid(padding=(0, 2))
    table.add_row(
        "state", "[green]running[/green]" if running else "[red]ended by itself[/red]; clear up with: semel broker stop"
    )
    table.add_row("bootstrap servers", broker.bootstrap_servers)
    table.add_row("Apache Kafka", broker.version)
    table.add_row("process id", ", ".join(map(str, broker.pids)))
    table.add_row("since", f"{since.astimezone():%Y-%m-%d %H:%M:%S} ({_age(since)})")
    table.add_row("directory", broker.directory if broker.keeps_data else f"{broker.directory} (gone when it stops)")
    console.print(table, soft_wrap=True)


def _age(since: datetime) -> str:
    minutes = int((datetime.now(UTC) - since).total_seconds()) // 60
    return (
        f"{minutes // 1440} d {minutes % 1440 // 60} h" if minutes >= 1440 else f"{minutes // 60} h {minutes % 60} min"
    )
