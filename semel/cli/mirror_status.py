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
from semel.mirror.status import PartitionStatus
from semel.mirror.status import status as look
from semel.wire.client import Client

__all__ = ["status"]


def status(
    file: MirrorFile,
    clusters: Annotated[str, typer.Option("--clusters", help="Use only the flows into these clusters: B[,C].")] = "",
    as_json: AsJson = False,
) -> None:
    """Show the position and lag of each partition, and what stops it.

    The lag is in records and seconds. The status is 1 if something stops a flow. The command writes nothing and needs
    no Spark.
    """
    config = read_properties(file, [alias.strip() for alias in clusters.split(",") if alias.strip()])
    found = {flow.title: _of(flow) for flow in config.flows}
    if as_json:
        rows: list[dict[str, Any]] = [{"flow": title, **asdict(one)} for title, all in found.items() for one in all]
        print_json(rows)
    else:
        for title, all in found.items():
            _print(title, all)
    if any(one.problem for all in found.values() for one in all):
        raise typer.Exit(1)


def _of(flow: FlowConfig) -> list[PartitionStatus]:
    with Client(ClientConfig.parse(flow.source)) as source, Client(ClientConfig.parse(flow.target)) as target:
        return look(source, target, flow)


def _print(title: str, rows: list[PartitionStatus]) -> None:
    console = Console(soft_wrap=True)
    table = Table(title, "target", "position", "lag", "seconds", "", box=None, header_style="bold", padding=(0, 2))
    for one in rows:
        held = f"{one.held_back} held back by an open transaction" if one.held_back else ""
        begun = "" if one.position is not None else "not begun"
        table.add_row(
            f"{one.topic}-{one.partition}",
            f"{one.target}-{one.partition}",
            "-" if one.position is None else str(one.position),
            "-" if one.lag is None else str(one.lag),
            "-" if one.seconds is None else f"{one.seconds:.1f}",
            one.problem or held or begun,
        )
    print_table(console, table)
