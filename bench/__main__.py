"""``python -m bench``, which is ``make bench``."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import (
    connect,
    machine,
    micro_batches,
    mirror,
    outbox,
    plot,
    report,
    rows,
    sinks,
    sources,
    streams,
    streams_latency,
    whole_batches,
)
from bench.figures import Figure
from bench.recovery import Recovery
from bench.rig import PARTITIONS, Rig

_DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
#: Fewer pairs than these are no result to keep.
_KEPT_ROUNDS = 5
_LOG_WIDTH = 150
_PARTITIONS = (1, 4, 16, 100)


class Work(StrEnum):
    """The parts of the bench."""

    FREE = "sink-free"
    KEYED = "sink-keyed"
    SOURCE = "source"
    TLS = "tls"
    BATCHES = "micro-batches"
    WHOLE = "whole-batches"
    SIZES = "sizes"
    MANY = "many-partitions"
    RECOVERY = "recovery"
    OUTBOX = "outbox"
    STREAMS = "streams"
    LATENCY = "streams-latency"
    MIRROR = "mirror"
    CONNECT = "connect"


def main(
    sink_rows: Annotated[int, typer.Option(min=1_000, help="Rows that each run of a sink writes.")] = 4_000_000,
    source_rows: Annotated[int, typer.Option(min=1_000, help="Rows that each run of a source reads.")] = 8_000_000,
    streams_rows: Annotated[int, typer.Option(min=1_000, help="Records that each run of streams counts.")] = 1_000_000,
    mirror_records: Annotated[
        int, typer.Option(min=1_000, help="Records that each run of a mirror copies; a tenth in batches of one.")
    ] = 1_000_000,
    connect_lines: Annotated[
        int, typer.Option(min=1_000, help="Lines of a file that each run of Connect reads.")
    ] = 2_000_000,
    connect_transactions: Annotated[
        int, typer.Option(min=10, help="Transactions of each run of Connect with two lines in each.")
    ] = 500,
    rounds: Annotated[int, typer.Option(min=1, help="Counted rounds; one more is not counted.")] = _KEPT_ROUNDS,
    warm_up: Annotated[
        bool, typer.Option(help="Without the round that is not counted, the figures mean little.")
    ] = True,
    batches: Annotated[int, typer.Option(min=1, help="Micro-batches of each query that are counted.")] = 25,
    units: Annotated[int, typer.Option(min=1, help="Units of the outbox in each run.")] = 300,
    partitions: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Output partitions of micro-batches; may be repeated. [1, 4, 16, 100]"),
    ] = None,
    only: Annotated[list[Work] | None, typer.Option(help="Measure this alone; may be repeated.")] = None,
    document: Annotated[
        Path | None,
        typer.Option(help="Keep the result here, however little was measured.", exists=True, dir_okay=False),
    ] = None,
) -> None:
    """Measure semel beside what Spark and Kafka bring themselves, print the ratios, and keep them with a picture.

    Starts an Apache Kafka and a Spark of its own; leave the machine alone while it runs. What it finds is kept in
    docs/benchmarks.md if all of it was measured, in at least 5 pairs.
    """
    console = Console()
    if not console.is_terminal:
        console.width = _LOG_WIDTH
    facts, steal, recovery = machine.facts(), machine.Steal(), Recovery()
    if machine.busy():
        console.print(f"[red]This machine is busy (load {machine.load():.1f}): the figures will mean little.[/]")
    numbers = range(0 if warm_up else 1, rounds + 1)
    with Rig.up(console) as rig:
        measures: dict[Work, Callable[[], list[Figure]]] = {
            Work.FREE: lambda: sinks.measure_free(rig, sink_rows, numbers),
            Work.KEYED: lambda: sinks.measure_keyed(rig, sink_rows, numbers),
            Work.SOURCE: lambda: sources.measure(rig, source_rows, numbers),
            Work.TLS: lambda: [
                *sinks.measure_tls(rig, sink_rows, numbers),
                *sources.measure_tls(rig, source_rows, numbers),
            ],
            Work.BATCHES: lambda: micro_batches.measure(rig, partitions or _PARTITIONS, batches, numbers),
            Work.WHOLE: lambda: whole_batches.measure(rig, whole_batches.SHAPES, batches, numbers),
            Work.SIZES: lambda: sinks.measure_sizes(rig, [size for size in sinks.SIZES if size <= sink_rows], numbers),
            Work.MANY: lambda: sources.measure_many(rig, numbers),
            Work.RECOVERY: lambda: recovery.measure(rig, numbers),
            Work.OUTBOX: lambda: outbox.measure(rig, units, numbers),
            Work.STREAMS: lambda: streams.measure(rig, streams_rows, numbers),
            Work.LATENCY: lambda: streams_latency.measure(rig, numbers),
            Work.MIRROR: lambda: mirror.measure(rig, mirror_records, numbers),
            Work.CONNECT: lambda: connect.measure(rig, connect_lines, connect_transactions, numbers),
        }
        figures = [figure for work, measure in measures.items() if work in (only or list(Work)) for figure in measure()]
    facts["taken by the host"] = str(steal)
    if not only or Work.RECOVERY in only:
        facts["SIGKILL of the driver to the first commit"] = str(recovery)
    report.print_report(console, figures, facts)
    if document is None and (only or partitions or not warm_up or rounds < _KEPT_ROUNDS):
        console.print(f"Only a part was measured: {_DOCUMENT.name} stays as it is.")
        return
    document = document or _DOCUMENT
    size = {
        "rows": f"{sink_rows:,} a run of a sink, {source_rows:,} of a source, {streams_rows:,} of streams,"
        f" {mirror_records:,} of a mirror, {connect_lines:,} lines of Connect",
        "a row": f"a value of {rows.SIZE} bytes, and one of {rows.KEYS:,} keys where it has one; {PARTITIONS}"
        " partitions",
        "pairs": f"{rounds}, after one that is not counted" if warm_up else f"{rounds}",
        "outbox": f"{units} units a run, {outbox.ROWS} rows each",
        "micro-batches": f"{batches} of each query, {micro_batches.ROWS:,} rows each",
    }
    picture = document.with_suffix(".png")
    plot.draw(figures, picture)
    report.insert(document, report.markdown(figures, facts, size, picture.name))
    console.print(f"kept in {document.name} and {picture.name}")


if __name__ == "__main__":
    typer.run(main)
