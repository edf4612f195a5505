"""``semel demo``: a pipeline that survives kills."""

from __future__ import annotations

import typer
from rich.console import Console

from semel.cli.help import application, examples
from semel.extras import needs_extras

app = application()


@app.command(epilog=examples("semel demo", "semel demo --orders 50000"))
def demo(orders: int = typer.Option(200_000, min=1_000, help="The number of orders to write.")) -> None:
    """Kill a pipeline with semel and one without, and count the rows.

    The demo starts its own Apache Kafka and Spark, and kills both pipelines with SIGKILL. It takes a few minutes. Fewer
    orders save little time, because most of it is the start of Spark.

    The status is 1 if semel lost or doubled a row. It is also 1 if the pipeline without semel lost a row or doubled
    none: then the kills proved nothing.
    """
    with needs_extras("the demo", "spark,testing"):
        from semel.demo.report import as_promised, print_report
        from semel.demo.show import show

    console = Console()
    outcomes = show(console, orders)
    print_report(console, outcomes)
    if not as_promised(outcomes):
        console.print("[red]That is not what should have come out.[/]")
        raise typer.Exit(1)
