"""Runs contenders in turn, so that whatever else the machine does meets all of them, after one round that is not
counted.

Every second round goes backwards: A B, B A, A B. Java compiles for minutes, and whoever always came last would always
meet the faster one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["Contender", "interleave"]


@dataclass(frozen=True, slots=True)
class Contender:
    """One side of a comparison. ``run`` gets the number of the round, 0 for the one that is not counted, and returns
    its measurement.
    """

    name: str
    run: Callable[[int], float]


def interleave(
    work: str, contenders: Sequence[Contender], rounds: range, *, unit: str, console: Console
) -> dict[str, list[float]]:
    """Return the measurements of each contender in each round except number 0, which is not counted.

    Shows a bar on a terminal, and a line for each run.
    """
    measured: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(work, total=len(rounds) * len(contenders))
        for number in rounds:
            for contender in contenders if number % 2 else reversed(contenders):
                bar.update(task, description=f"{work}: {contender.name}")
                value = contender.run(number)
                if number:
                    measured[contender.name].append(value)
                counted = f"round {number}" if number else "warm-up"
                console.print(
                    f"{work:<32} {counted:<9} {contender.name:<44} {value:>12,.1f} {unit}",
                    style="dim",
                    highlight=False,
                    soft_wrap=True,
                )
                bar.advance(task)
    return measured
