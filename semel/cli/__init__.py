"""The command line ``semel``: a file for each command, imported on demand.

A command is a module with a typer application named ``app``: ``demo``, ``connect``, ``broker``, ``doctor``, ``mirror``,
``progress``, ``streams``, ``txn`` and ``verify``. :data:`COMMANDS` lists them, in the order of the help. ``mirror``,
``progress`` and ``txn`` are folders.

``help`` has the form of all help texts. ``options`` has the options of all commands that ask a cluster, and
``processes`` those of commands that run processes on Spark. ``local_checks`` checks this machine. What a command knows
is in the module of ``semel.admin`` with its name.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from semel._version import __version__
from semel.cli.help import application, examples
from semel.errors import SemelError

__all__ = ["COMMANDS", "app", "main"]

COMMANDS = {
    "demo": "semel.cli.demo",
    "connect": "semel.cli.connect",
    "broker": "semel.cli.broker",
    "doctor": "semel.cli.doctor",
    "mirror": "semel.cli.mirror.commands",
    "progress": "semel.cli.progress.commands",
    "streams": "semel.cli.streams",
    "txn": "semel.cli.txn.commands",
    "verify": "semel.cli.verify",
}


class _OnDemand(TyperGroup):
    """A group that imports each command of :data:`COMMANDS` when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names, for the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(importlib.import_module(COMMANDS[cmd_name]).app)
        command.name = cmd_name
        return command


app = application(
    cls=_OnDemand,
    name="semel",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "semel demo                         # kill a pipeline, and count the rows",
        "semel broker start --topic orders  # a Kafka to develop with",
        "semel doctor --bootstrap-server localhost:9092 --topic orders",
    ),
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"semel {__version__}")
        raise typer.Exit


@app.callback()
def semel(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Run exactly-once Kafka for Python on Spark.

    The commands run pipelines, connectors, mirrors and streams. They also inspect and repair what those write. Each
    command has its own help: `semel COMMAND --help`.
    """


def main() -> None:
    """Run the installed program ``semel``. An error of semel's is printed as its message, without a traceback."""
    try:
        app()
    except SemelError as error:
        from semel.cli.options import print_error

        print_error(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
