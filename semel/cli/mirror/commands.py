"""``semel mirror FILE``: copy topics from one cluster to another, by a file of MirrorMaker 2."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from semel.cli.help import application, examples
from semel.cli.mirror.adopt import adopt
from semel.cli.mirror.live import live
from semel.cli.mirror.offsets import offsets
from semel.cli.mirror.pause import pause, resume, stop
from semel.cli.mirror.resolve import resolve
from semel.cli.mirror.status import status
from semel.cli.mirror.translate import translate
from semel.cli.options import print_table
from semel.cli.processes import Conf, MetricsPort, serving_metrics, spark_settings, until_asked_to_end
from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.extras import needs_extras
from semel.mirror.background.heartbeats import emitting
from semel.mirror.config.flow_config import FlowConfig, MirrorConfig
from semel.mirror.config.properties import read_properties
from semel.mirror.config.rest import MirrorRest
from semel.mirror.metrics import MirrorCollector
from semel.mirror.offsets.groups import check_checkpoints_topic
from semel.mirror.own_topics import OwnTopic, heartbeat_topics, own_topics
from semel.mirror.positions import Positions, flow_id
from semel.mirror.rights import check_rights
from semel.mirror.status import shown_positions
from semel.mirror.topics import preview
from semel.settings import split_list
from semel.settings.unused import warn_of_unused
from semel.spark_session import spark_session
from semel.wire.client import Client

if TYPE_CHECKING:
    from semel.mirror.flow import Flow

__all__ = ["app"]

log = logging.getLogger("semel.cli")

_RUN = "run"


class _RunIsMeant(TyperGroup):
    """A group in which ``semel mirror FILE`` without the name of a command runs it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the name that was left out."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


app = application(
    cls=_RunIsMeant,
    no_args_is_help=True,
    help="Copy topics from one cluster to another, each record once.",
    epilog=examples("semel mirror mm2.properties  # the same as: semel mirror run mm2.properties"),
)
File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A file of MirrorMaker 2: clusters, A->B.enabled, A->B.topics, ...")
]
Clusters = Annotated[str, typer.Option("--clusters", help="Use only the flows into these clusters: B[,C].")]


@app.command(_RUN, epilog=examples("semel mirror mm2.properties", "semel mirror mm2.properties --clusters B --once"))
def run(
    file: File,
    clusters: Clusters = "",
    once: Annotated[bool, typer.Option("--once", help="Copy the records that exist now, then end.")] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait, and take a flow over 10 s after its driver's last sign of life.")
    ] = False,
    master: Annotated[str, typer.Option(help="Spark's master, as for spark-submit.")] = "",
    conf: Conf = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Run the enabled flows until SIGTERM or Ctrl-C.

    `semel mirror FILE` means the same. After a restart, each flow resumes at its last commit.

    A failed flow does not stop the others. The status is 1 if all flows have failed, and 0 if you stopped the mirror or
    `--once` is done.
    """
    if once and standby:
        raise typer.BadParameter("a standby does not end by itself: give one of --once and --standby")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("semel").setLevel(logging.INFO)
    settings = spark_settings(conf)
    config = read_properties(file, split_list(clusters))
    _say(config)
    with needs_extras("the mirror", "spark", "Nothing was copied."):
        from semel.mirror.flow import Flow, run_side_by_side
    with live():
        spark = spark_session("semel mirror", master, settings)
        try:
            # a copy that ends by itself is watched by nobody
            with serving_metrics(metrics_port, MirrorCollector), emitting(() if once else config.heartbeats):
                stop = until_asked_to_end(note="the round is ended, then it stops")
                flows = [Flow(spark, flow, stop, standby=standby) for flow in config.flows]
                with _serving_rest(None if once else config.rest, flows):
                    run_side_by_side(flows, once=once)
        finally:
            spark.stop()


@contextmanager
def _serving_rest(rest: MirrorRest | None, flows: Sequence[Flow]) -> Iterator[None]:
    if rest is None:
        yield
        return
    with needs_extras("REST of the mirror", "connect", "Nothing was copied."):
        from semel.mirror.rest.app import serving_rest
    with serving_rest(rest, flows) as addresses:
        for address in addresses:
            log.info("REST listens on %s", address)
        yield


@app.command(epilog=examples("semel mirror check mm2.properties"))
def check(file: File, clusters: Clusters = "") -> None:
    """Show what the file would copy, the topics that the mirror makes for itself, and the keys that have no effect.

    The command writes nothing and needs no Spark.
    """
    config = read_properties(file, split_list(clusters))
    console = Console(soft_wrap=True)
    refused = [_check_flow(console, flow) for flow in config.flows]
    _print_own(console, heartbeat_topics(config.heartbeats))
    for key in config.accepted:
        console.print(f"{key}: changes nothing here")
    for error in filter(None, refused):
        raise error


def _check_flow(console: Console, flow: FlowConfig) -> ConfigError | None:
    """Show what becomes of its topics. Returns what would be refused before the takeover."""
    refused, positions, id = None, None, flow_id(flow.policy.source, flow.policy.target)
    with Client(ClientConfig.parse(flow.source)) as source, Client(ClientConfig.parse(flow.target)) as target:
        rows, own = preview(source, target, flow), own_topics(source, target, flow)
        try:
            check_rights(source, target, flow, id)
            check_checkpoints_topic(target, flow)
            positions = shown_positions(source, target, flow)
        except ConfigError as error:
            refused = error
    start = "" if positions is None else _start(flow, positions)
    console.print(f"{flow.title}, {'exactly once' if flow.exactly_once else 'AT LEAST ONCE'}{start}")
    table = Table(
        flow.policy.source, "partitions", flow.policy.target, "", box=None, header_style="bold", padding=(0, 2)
    )
    for row in rows:
        table.add_row(
            row.topic, str(row.partitions), row.target or "-", row.what if row.target else f"not mirrored: {row.what}"
        )
    print_table(console, table)
    _print_own(console, own)
    return refused


def _print_own(console: Console, rows: Sequence[OwnTopic]) -> None:
    """Show the topics that the mirror makes for itself, if there are some."""
    table = Table("for the mirror itself", "on", "holds", "", box=None, header_style="bold", padding=(0, 2))
    for row in rows:
        table.add_row(row.name, row.alias, row.holds, row.what)
    if rows:
        print_table(console, table)


def _start(flow: FlowConfig, positions: Positions) -> str:
    """Return the words for where a flow begins, or resumes if it has positions."""
    if not positions.at:
        return f", from the {flow.start} offset on"
    shown = f"`semel mirror status` shows the offsets of {len(positions.at)} partitions"
    return f", resumes after round {positions.round}: {shown}"


def _say(config: MirrorConfig) -> None:
    for flow in config.flows:
        log.info("%s: %s", flow.title, "exactly once" if flow.exactly_once else "AT LEAST ONCE, as the file says")
    warn_of_unused("the mirror's file", config.accepted)


app.command(
    "translate",
    epilog=examples(
        "semel mirror translate mm2.properties --source A --target B --group billing",
        "semel mirror translate mm2.properties --source A --target B \\\n    --group billing --apply",
    ),
)(translate)
app.command(
    "resolve",
    epilog=examples(
        "semel mirror resolve mm2.properties --source A --target B \\\n    --topic orders --skip",
        "semel mirror resolve mm2.properties --source A --target B \\\n    --topic orders --restart",
    ),
)(resolve)
for command in (pause, resume, stop):
    app.command(
        command.__name__,
        epilog=examples(f"semel mirror {command.__name__} mm2.properties --source A --target B"),
    )(command)
app.command(
    "offsets",
    epilog=examples(
        "semel mirror offsets mm2.properties --source A --target B",
        "semel mirror offsets mm2.properties --source A --target B --set offsets.json",
    ),
)(offsets)
app.command("status", epilog=examples("semel mirror status mm2.properties"))(status)
app.command(
    "adopt",
    epilog=examples(
        "semel mirror adopt mm2.properties --source A --target B --from mm2 --dry-run",
        "semel mirror adopt mm2.properties --source A --target B --from file:offsets.json",
    ),
)(adopt)
