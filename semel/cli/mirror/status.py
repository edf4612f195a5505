"""``semel mirror status``: the position and lag of each partition, and what holds it back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from semel.cli.options import AsJson, MirrorFile, print_json, print_table
from semel.config import ClientConfig
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.config.properties import read_properties
from semel.mirror.operation.wanted import FlowState
from semel.mirror.status import FlowStatus
from semel.mirror.status import status as look
from semel.settings import split_list
from semel.wire.client import Client

__all__ = ["status"]


def status(
    file: MirrorFile,
    clusters: Annotated[str, typer.Option("--clusters", help="Use only the flows into these clusters: B[,C].")] = "",
    as_json: AsJson = False,
) -> None:
    """Show the position and lag of each partition, and what stops it.

    The lag is in records and seconds. The status is 1 if a partition or group is stopped. The command writes nothing
    and needs no Spark.
    """
    config = read_properties(file, split_list(clusters))
    flows = {flow.title: _of(flow) for flow in config.flows}
    if as_json:
        rows: list[dict[str, Any]] = []
        for title, flow in flows.items():
            rows += [{"flow": title, **asdict(one)} for one in flow.rows]
        print_json(rows)
    else:
        for title, flow in flows.items():
            _print(title, flow)
    if any(one.problem for flow in flows.values() for one in flow.rows):
        raise typer.Exit(1)


def _of(flow: FlowConfig) -> FlowStatus:
    with Client(ClientConfig.parse(flow.source)) as source, Client(ClientConfig.parse(flow.target)) as target:
        return look(source, target, flow)


def _print(title: str, flow: FlowStatus) -> None:
    console = Console(soft_wrap=True)
    table = Table(title, "target", "position", "lag", "seconds", "", box=None, header_style="bold", padding=(0, 2))
    for one in flow.partitions:
        held = f"{one.held_back} held back by an open transaction" if one.held_back else ""
        begun = "" if one.position is not None else "not begun"
        table.add_row(
            f"{one.topic}-{one.partition}",
            f"{one.target}-{one.partition}",
            "-" if one.position is None else str(one.position),
            "-" if one.lag is None else str(one.lag),
            "-" if one.seconds is None else f"{one.seconds:.1f}",
            ": ".join(filter(None, (one.problem, one.way_out))) or ("paused" if one.paused else held or begun),
        )
    print_table(console, table)
    if flow.wanted.state is not FlowState.RUNNING:
        console.print(f"{title} is {flow.wanted.state.value.lower()} by you: semel mirror resume", highlight=False)
    for group in flow.groups:
        console.print(f"group {group.group} does not follow: {group.problem}", highlight=False, markup=False)
