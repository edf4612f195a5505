"""The figures as a table on the terminal, and in a Markdown document between two marks, so that the prose around them
stays.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.figures import Figure

__all__ = ["BEGIN", "END", "insert", "markdown", "print_report"]

BEGIN = "<!-- figures: begin (written by make bench) -->"
END = "<!-- figures: end -->"

_COLUMNS = ("work", "compared with", "median", "least to most", "target", "aim", "", "semel", "the other")
_STYLES = {"met": "green", "met, and the aim": "green", "not met": "red"}


def print_report(console: Console, figures: Sequence[Figure], facts: Mapping[str, str]) -> None:
    """Print both tables."""
    table = Table(title="semel beside the others: the median of the pairs, and their range", title_justify="left")
    for index, name in enumerate(_COLUMNS):
        table.add_column(name, justify="left" if index in (0, 1, 6) else "right")
    for figure in figures:
        table.add_row(*_cells(figure), style=_STYLES.get(figure.verdict, "dim"))
    console.print(table)
    console.print("\n".join(f"{name}: {value}" for name, value in facts.items()), style="dim", highlight=False)


def _cells(figure: Figure) -> list[str]:
    return [
        figure.work,
        figure.peer,
        figure.shown(figure.median),
        f"{figure.shown(figure.low)} to {figure.shown(figure.high)}",
        figure.shown(figure.target),
        figure.shown(figure.aim),
        figure.verdict,
        figure.measured(figure.ours),
        figure.measured(figure.theirs),
    ]


def markdown(figures: Sequence[Figure], facts: Mapping[str, str], work: Mapping[str, str], picture: str) -> str:
    """Return the written part of the document: the machine and sizes, the picture, the figures.

    ``work`` says how large the runs were.
    """
    lines = [f"![the ratios and what a transaction adds]({picture})", ""]
    lines += _table(_COLUMNS, [_cells(figure) for figure in figures])
    lines += ["", *_table(("measured on", ""), [list(pair) for pair in {**facts, **work}.items()])]
    return "\n".join(lines)


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] * len(head)
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, rule, *body)]


def insert(document: Path, part: str) -> None:
    """Replace what stands between the marks. The document is as it was, or whole and new."""
    text = document.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(
            f"{document} does not have the marks {BEGIN} and {END}, once each and in this order. Nothing was written"
            " to it."
        )
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    handle, name = tempfile.mkstemp(dir=document.parent)
    with os.fdopen(handle, "w") as file:
        file.write(f"{before}{BEGIN}\n\n{part}\n\n{END}{after}")
    Path(name).chmod(document.stat().st_mode)
    Path(name).replace(document)
