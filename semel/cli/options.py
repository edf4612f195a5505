"""Options of the commands that ask a cluster: Kafka's own ``--bootstrap-server`` and ``--command-config``, and ours."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from semel.config import ClientConfig
from semel.errors import SemelError
from semel.settings.properties_file import read_properties
from semel.wire.client import Client

__all__ = [
    "AsJson",
    "Configured",
    "MirrorFile",
    "ProgressTopic",
    "Servers",
    "check_can_ask",
    "confirm",
    "connect",
    "exit_1_on_no",
    "exit_2_on_error",
    "print_error",
    "print_json",
    "print_table",
    "properties_of",
]

Servers = Annotated[str, typer.Option("--bootstrap-server", help="The cluster's brokers: host:port[,host:port].")]
Configured = Annotated[
    Path | None,
    typer.Option("--command-config", help="A file of Kafka properties: security.protocol, sasl.jaas.config, ..."),
]
MirrorFile = Annotated[Path, typer.Argument(metavar="FILE", help="The mirror's properties, in MirrorMaker 2's format.")]
ProgressTopic = Annotated[str, typer.Option("--progress-topic", help="The topic that holds progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


#: A person is waiting: give up if no broker answers within this time. Later requests have their usual timeout.
_FIRST_ANSWER_MS = 15_000


def connect(servers: str, configured: Path | None) -> Client:
    """Return a client of a cluster that has answered. Raise :class:`ConfigError` for a file that cannot be read, or
    that has faults.

    Raise :class:`~semel.errors.Retriable` if no broker answers.
    """
    client = Client(ClientConfig.parse(properties_of(servers, configured)))
    try:
        with Console(stderr=True).status(f"waiting for {servers} ..."):
            client.versions(client.deadline(min(client.config.default_api_timeout_ms, _FIRST_ANSWER_MS)))
    except BaseException:
        client.close()
        raise
    return client


def properties_of(servers: str, configured: Path | None) -> dict[str, object]:
    """Return all properties of a command. Raise :class:`ConfigError` for a file that cannot be read."""
    properties: dict[str, object] = {}
    if configured is not None:
        properties.update(read_properties(configured, "Nothing was sent.", "--command-config "))
    return {**properties, "bootstrap.servers": servers}


@contextmanager
def exit_1_on_no(console: Console, otherwise: str) -> Iterator[None]:
    """Ask the user. No, no answer at all, or Ctrl-C ends the command with status 1, and says what is ``otherwise``."""
    try:
        yield
    except typer.Abort:
        console.print(f"\n{otherwise} (--yes answers without a question.)")
        raise typer.Exit(1) from None


def confirm(console: Console, question: str, otherwise: str, *, yes: bool) -> None:
    """Ask, unless ``yes`` gives the answer. After a no, end as :func:`exit_1_on_no`."""
    if not yes:
        with exit_1_on_no(console, otherwise):
            typer.confirm(question, abort=True)


def check_can_ask(*, as_json: bool, asks: bool, instead: str = "--yes") -> None:
    """Raise the error of a command line that wants a document, and would get a question before it."""
    if as_json and asks:
        raise typer.BadParameter(f"it asks, and what it asks is no JSON: give {instead} too", param_hint="--json")


def print_error(error: SemelError) -> None:
    """Print the message of an error, without a traceback."""
    Console(stderr=True, soft_wrap=True).print(Text(str(error), style="red"))


@contextmanager
def exit_2_on_error() -> Iterator[None]:
    """End with status 2 after an error, for commands whose status reports their findings."""
    try:
        yield
    except SemelError as error:
        print_error(error)
        raise typer.Exit(2) from None


def print_table(console: Console, table: Table) -> None:
    """Print a table at its full width: a truncated name is useless."""
    needed = console.measure(table, options=console.options.update(width=sys.maxsize)).maximum
    console.width = max(console.width, needed)
    console.print(table, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one JSON document, for scripts."""
    typer.echo(json.dumps(value, indent=2))
