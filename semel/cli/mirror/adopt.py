"""``semel mirror adopt``: take over a flow from another program, or from what is left of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from semel.cli.mirror.flow_of import Source, Target, flow_of
from semel.cli.options import MirrorFile, confirm, print_table
from semel.config import ClientConfig
from semel.mirror.adoption.adopt import adopt as carry_out
from semel.mirror.adoption.adopt import preview
from semel.mirror.adoption.mirror_maker import CONNECTOR, MirrorMakerOrigin
from semel.mirror.adoption.origins import GivenOrigin, GroupOrigin, Origin, TimeOrigin
from semel.mirror.adoption.own_traces import OwnTraces
from semel.mirror.adoption.plan import Plan, PlannedPartition
from semel.mirror.config.flow_config import FlowConfig
from semel.wire.client import Client

__all__ = ["adopt"]

_FROM = "--from"


def adopt(
    file: MirrorFile,
    source: Source,
    target: Target,
    origin: Annotated[str, typer.Option(_FROM, metavar="ORIGIN", help="mm2, group:NAME, time:ISO, file:PATH, target.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and write nothing.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the positions that the flow has.")] = False,
    offsets_topic: Annotated[
        str, typer.Option(help="With mm2: the offsets topic of its Connect cluster, if it is no dedicated one.")
    ] = "",
    connect_group: Annotated[str, typer.Option(help="With --offsets-topic: that cluster's group.id.")] = "",
    connector: Annotated[str, typer.Option(help="With --offsets-topic: the connector's name.")] = CONNECTOR,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Take over a flow, so that it continues where another program has stopped.

    Stop that program first. The command shows where each partition begins, and asks. A mirror that runs this flow may
    end with `Fenced`, unless you have stopped the flow with `semel mirror stop`.
    """
    if bool(offsets_topic) != bool(connect_group):
        raise typer.BadParameter("give --offsets-topic and --connect-group together", param_hint="--offsets-topic")
    config = flow_of(file, source, target)
    chosen = (
        MirrorMakerOrigin(offsets_topic, connect_group, connector)
        if offsets_topic and origin == "mm2"
        else _origin(config, origin)
    )
    console = Console(soft_wrap=True)
    with Client(ClientConfig.parse(config.source)) as here, Client(ClientConfig.parse(config.target)) as there:
        plan, is_done = preview(here, there, config, chosen, replaces=replace)
        _print(console, config, plan)
        plan.check()
        if is_done:
            console.print(f"adopted already: start {config.title} now")
        if is_done or dry_run:
            return
        confirm(console, "Is that what you want?", "Nothing was changed.", yes=yes)
        done = carry_out(here, there, config, chosen, replaces=replace)
    if _rows(done) != _rows(plan):
        _print(console, config, done)
    console.print(f"done: start {config.title} now")


def _origin(config: FlowConfig, text: str) -> Origin:
    kind, _, rest = text.partition(":")
    if text == "mm2":
        return MirrorMakerOrigin.dedicated(config)
    if text == "target":
        return OwnTraces()
    if kind == "group" and rest:
        return GroupOrigin(rest)
    if kind == "time" and rest:
        return TimeOrigin.parse(rest)
    if kind == "file" and rest:
        return GivenOrigin.read(Path(rest))
    raise typer.BadParameter("give mm2, group:NAME, time:ISO, file:PATH or target", param_hint=_FROM)


def _rows(plan: Plan) -> list[tuple[str, ...]]:
    return [_row(one) for one in plan.partitions]


def _row(one: PlannedPartition) -> tuple[str, ...]:
    (topic, index), (name, there) = one.partition, one.target
    position = "-" if one.position is None or one.refused else str(one.position)
    beyond = "?" if one.beyond is None else str(one.beyond)
    return f"{topic}-{index}", f"{name}-{there}", position, one.origin, "-" if one.refused else beyond, _what(one)


def _what(one: PlannedPartition) -> str:
    if one.refused:
        return f"refused: {one.refused}"
    return "copied from its earliest offset" if one.position is None else f"continues at {one.position}"


def _print(console: Console, config: FlowConfig, plan: Plan) -> None:
    policy = config.policy
    table = Table(
        policy.source, policy.target, "position", "from", "beyond", "", box=None, header_style="bold", padding=(0, 2)
    )
    for row in _rows(plan):
        table.add_row(*row)
    print_table(console, table)
