"""``semel demo``: a pipeline that survives kills."""

from __future__ import annotations

import typer
from rich.console import Console

from semel.errors import ConfigError

app = typer.Typer(add_completion=False)


@app.command()
def demo(orders: int = typer.Option(200_000, min=1_000, help="How many orders to write.")) -> None:
    """Run a pipeline with semel and one at least once, kill both with SIGKILL, and count what readers see.

    Takes a few minutes; fewer orders take little less, since most of it is the start of Spark.

    Starts an Apache Kafka of its own, and Spark with its executor in a process of its own. Ends with status 1 if semel
    lost or doubled anything, or if the control lost something, or did not double.
    """
    try:
        from semel.demo.report import as_promised, print_report
        from semel.demo.show import show
    except ImportError as missing:
        raise ConfigError(
            f"the demo needs {missing.name}, which is not installed. Nothing was started. Run, in semel's checkout:"
            " pip install '.[spark,testing]'",
            tag="DEMO",
        ) from None

    console = Console()
    outcomes = show(console, orders)
    print_report(console, outcomes)
    if not as_promised(outcomes):
        console.print("[red]That is not what should have come out.[/]")
        raise typer.Exit(1)
