"""``semel mirror resolve``: how a flow resumes after a loss."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from semel.cli.mirror.flow_of import Source, Target, flow_of
from semel.cli.options import MirrorFile, confirm
from semel.config import ClientConfig
from semel.mirror.resolution import preview
from semel.mirror.resolution import resolve as carry_out
from semel.wire.client import Client

__all__ = ["resolve"]


def resolve(
    file: MirrorFile,
    source: Source,
    target: Target,
    topic: Annotated[str, typer.Option("--topic", help="The topic's name on the source.")],
    skip: Annotated[bool, typer.Option("--skip", help="Resume with the rows that still exist.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Copy the topic again, into a target topic without visible rows.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Choose how a flow resumes after a loss.

    The command shows what it will do, and asks. A mirror that runs this flow may end with `Fenced`: `semel mirror stop`
    before and `semel mirror resume` afterwards keep it running.
    """
    if skip == restart:
        raise typer.BadParameter("give one of --skip and --restart", param_hint="--skip")
    config = flow_of(file, source, target)
    console = Console(soft_wrap=True)
    with Client(ClientConfig.parse(config.source)) as here, Client(ClientConfig.parse(config.target)) as there:
        for line in preview(here, there, config, topic, restart=restart).lines:
            console.print(line, highlight=False)
        confirm(console, "Is that what you want?", "Nothing was changed.", yes=yes)
        carry_out(here, there, config, topic, restart=restart)
    console.print(f"done: {config.title} continues so: start or resume it")
