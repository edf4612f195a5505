"""What the demo has to say at its end: the table, and the code."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from semel.demo import pipeline
from semel.demo.show import DemoResult

__all__ = ["as_promised", "print_report", "table_of"]


def print_report(console: Console, outcomes: Sequence[DemoResult]) -> None:
    """Print the table of both runs, and the lines that a user would write."""
    console.print(table_of(outcomes))
    control = outcomes[-1]
    if as_promised(outcomes):
        console.print(
            f"semel: every order exactly once. At least once, killed in the same way: {control.history.duplicated:,}"
            " orders doubled."
        )
    console.print(
        "Most of the seconds are starts of Spark. When an executor is lost, semel runs the batch again in the same"
        " start; the control's query ends, and Spark starts once more."
    )
    console.print(
        "The control is the same pipeline with delivery=at_least_once, killed at the same steps. The code of both:"
    )
    if console.is_terminal:
        console.print(Syntax(users_code(), "python", background_color="default", word_wrap=True))
    else:  # a file has no width that lines would have to be broken at
        console.print(users_code(), soft_wrap=True, markup=False, highlight=False)


def table_of(outcomes: Sequence[DemoResult]) -> Table:
    """Both runs, a line each."""
    table = Table(title="what an independent read_committed reader sees", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("", "written", "lost", "duplicated", "torn batches", "kills survived", "starts", "seconds"):
        longest = max(map(len, column.split()), default=0)  # a word that is cut is worse than a header of two lines
        table.add_column(column, justify="right" if column else "left", min_width=longest)
    for outcome in outcomes:
        h = outcome.history
        style = "green" if h.exact else "red"
        cells = (h.written, h.lost, h.duplicated, h.torn, outcome.kills, outcome.starts)
        table.add_row(
            outcome.name,
            *(f"{cell:,}" if cell is not None else "not checked" for cell in cells),
            f"{outcome.seconds:.0f}",
            style=style,
        )
    return table


def users_code() -> str:
    """The fifteen lines of the pipeline, without what makes them a program."""
    source = inspect.getsource(pipeline)
    code = source.split("# --- the user's code\n")[1].split("# --- the end of it")[0]
    lines = [line for line in code.splitlines() if line.strip() and '"""' not in line]
    return textwrap.dedent("\n".join(lines))


def as_promised(outcomes: Sequence[DemoResult]) -> bool:
    """semel lost, doubled and tore nothing.

    The control lost nothing, and did double: a demo that could not fail would show nothing.
    """
    ours, control = outcomes
    return ours.history.exact and control.history.duplicated > 0 and control.history.lost == 0
