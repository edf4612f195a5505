"""``semel mirror offsets``: the next offset to copy of each partition, shown or set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from semel.cli.mirror.flow_of import Source, Target, flow_of
from semel.cli.options import AsJson, MirrorFile, check_can_ask, confirm, print_json, print_table
from semel.config import ClientConfig
from semel.mirror.adoption.origins import GivenOrigin
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.operation.offsets import reset_positions, set_positions
from semel.mirror.positions import flow_id, last_known
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["offsets"]


def offsets(
    file: MirrorFile,
    source: Source,
    target: Target,
    to: Annotated[
        Path | None, typer.Option("--set", metavar="PATH", help="Set the offsets of a JSON file; the others stay.")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Copy all topics, or --topic, from the beginning.")] = False,
    topic: Annotated[str, typer.Option("--topic", help="Only this topic, by its name on the source.")] = "",
    as_json: AsJson = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Show the next offset to copy of each partition, or set it.

    The flow must be stopped before you set offsets: `semel mirror stop`. Records may then be copied again, or left out.
    The file has the form that `--json` prints.
    """
    config = flow_of(file, source, target)
    if to is not None and (reset or topic):
        raise typer.BadParameter("the file names the topics: give --set alone", param_hint="--set")
    changes = reset or to is not None
    check_can_ask(as_json=as_json, asks=changes and not yes)
    console = Console(soft_wrap=True)
    with Client(ClientConfig.parse(config.source)) as here, Client(ClientConfig.parse(config.target)) as there:
        if changes:
            given = None if to is None else GivenOrigin.read(to).rows
            question = "Records may be copied again, or left out. Is that what you want?"
            confirm(console, question, "Nothing was changed.", yes=yes)
            if given is None:
                reset_positions(here, there, config, topic)
            else:
                set_positions(here, there, config, given)
        _print(console, config, _positions(there, config, topic), as_json=as_json)


def _positions(target: Client, config: FlowConfig, topic: str) -> dict[TopicPartition, int]:
    known = last_known(target, flow_id(config.policy.source, config.policy.target))
    at = known.at if known is not None else {}
    return {p: one.offset for p, one in sorted(at.items()) if topic in ("", p[0])}


def _print(console: Console, config: FlowConfig, positions: dict[TopicPartition, int], *, as_json: bool) -> None:
    if as_json:
        print_json([{"topic": t, "partition": index, "offset": offset} for (t, index), offset in positions.items()])
        return
    table = Table(config.title, "next offset", box=None, header_style="bold", padding=(0, 2))
    for (topic, index), offset in positions.items():
        table.add_row(f"{topic}-{index}", str(offset))
    print_table(console, table)
