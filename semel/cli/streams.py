"""``semel streams``: run an application of streams, show its topology and state, and begin it again."""

from __future__ import annotations

import logging
import runpy
import signal
import sys
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

from semel.cli.options import AsJson, confirm, print_json
from semel.errors import ConfigError, SemelError, Unsupported
from semel.wire.client import Client

__all__ = ["app"]

log = logging.getLogger("semel.cli")

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Run applications of streams: App in a Python file.")
File = Annotated[Path, typer.Argument(metavar="APP.py", help="A Python file with one semel.streams.App.")]


@app.command()
def run(
    file: File,
    master: Annotated[str, typer.Option(help="Run tasks on Spark executors. Not there yet.")] = "",
) -> None:
    """Run one worker of the application, until SIGTERM or Ctrl-C. Start it more often to share the work.

    Ends with status 0 when it is stopped, and with 1 at an error. Started again, it goes on where its last commit was.
    """
    if master:
        raise Unsupported(
            "streams on Spark executors are not there yet. Nothing was started. Leave --master out, and start as many"
            " workers as you like.",
            tag="NOT_THERE_YET",
        )
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("semel").setLevel(logging.INFO)
    found = _load(file)

    def stop(number: int, _: FrameType | None) -> None:
        log.info("%s: what is done is committed, then it stops", signal.Signals(number).name)
        found.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    log.info("application %r runs", found.application_id)
    found.run()


@app.command()
def describe(file: File) -> None:
    """Show the topology, in Kafka Streams' form. Asks no broker."""
    typer.echo(_load(file).describe())


@app.command()
def state(
    file: File,
    store: Annotated[str, typer.Argument(help="The name of a store.")],
    key: Annotated[str | None, typer.Option("--key", help="This key alone; without it, the first ones.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many entries at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show what a store holds, as of the last commit, by its changelog."""
    from semel.streams.lookup import look_up

    found = _load(file)
    with Client(found.settings.client) as client:
        entries = list(islice(look_up(client, found.topology, store, key), limit))
    if as_json:
        print_json(entries)
        return
    for entry in entries:
        typer.echo("  ".join(f"{name}={value}" for name, value in entry.items()))
    if not entries:
        typer.echo("nothing" if key is None else f"nothing for {key!r}")


@app.command()
def reset(file: File, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Begin the application again from its input: its topics, its offsets and its state here are deleted.

    What it has written to other topics stays, and is written again.
    """
    from semel.streams.reset import plan_reset
    from semel.streams.reset import reset as carry_out

    found = _load(file)
    with Client(found.settings.client) as client:
        planned = plan_reset(client, found)
        console = Console(soft_wrap=True)
        console.print(f"{planned.application_id}: the group's offsets are deleted")
        for name in (*planned.topics, *([str(planned.folder)] if planned.folder else [])):
            console.print(f"{name} is deleted")
        confirm(console, "Begin again?", "Nothing was deleted.", yes=yes)
        carry_out(client, planned)


def _load(file: Path) -> Any:
    """The application of a file. Raises :class:`ConfigError` where there is not just one."""
    from semel.streams import App

    sys.path.insert(0, str(file.absolute().parent))
    try:
        names = runpy.run_path(str(file), run_name="semel_streams_app")
    except SemelError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{file} could not be loaded: {type(error).__name__}: {error}. Nothing was started. Correct it.",
            tag="APP_FILE",
        ) from error
    found = list({id(value): value for value in names.values() if isinstance(value, App)}.values())
    if len(found) != 1:
        raise ConfigError(
            f"{file} has {len(found)} applications at its top level, and must have one. Nothing was started. Write"
            ' app = App("my-app", ...), and let no other App stand beside it.',
            tag="APP_FILE",
        )
    return found[0]
