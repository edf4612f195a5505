"""``python -m model``, which is ``make model``: the procedure, the controls, random walks, and step logs of real
runs.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from model import settings, two_phase_settings
from model.explore import AnySetting, Result, explore, walk
from model.replay import Refused, replay
from model.task_scope import settings as task_scope_settings
from model.trace import lines
from semel.testing.step_log import read

_SHORT = (*settings.SHORT, *two_phase_settings.SHORT, *task_scope_settings.SHORT)
_CONTROLS = (*settings.CONTROLS, *two_phase_settings.CONTROLS, *task_scope_settings.CONTROLS)
_WALKS = (*settings.WALKS, *two_phase_settings.WALKS, *task_scope_settings.WALKS)
_LOG_WIDTH = 150
#: How long one setting is walked before the next one's turn comes.
_TURN_S = 20.0
#: How long the settings that take longer may take together where no time is given. Where one is, they get half of what
#: is left.
_ALL_S = 600.0


def main(
    logs: Annotated[
        list[Path] | None, typer.Argument(help="Step logs of real runs: replayed, nothing else is done.", exists=True)
    ] = None,
    minutes: Annotated[
        float,
        typer.Option(min=0, help="Also explore what takes longer, and walk at random, for as long as this in all."),
    ] = 0.0,
    seed: Annotated[
        int | None, typer.Option(help="Of the random walks; a new one unless given. The same one walks the same ways.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Only settings whose name holds this text; with its traces.")] = None,
) -> None:
    """Check the protocol: explore it under faults, and show that deliberate breaks of it are found.

    Ends with status 1 where the procedure is found wrong, a control is not found, or a step log is refused.
    """
    console = Console()
    if not console.is_terminal:
        console.width = _LOG_WIDTH
    if logs:
        raise typer.Exit(_replayed(console, logs))
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    end = time.monotonic() + 60 * minutes
    console.print(f"seed {seed}")
    good = _shown(
        console,
        "the procedure",
        (explore(setting) for setting in _chosen(_SHORT, only)),
    )
    good &= _shown(
        console,
        "controls: each must be found",
        (explore(setting) for setting in _chosen(_CONTROLS, only)),
        controls=True,
    )
    if minutes or only:
        half = time.monotonic() + (end - time.monotonic()) / 2 if minutes else end + _ALL_S
        long = (explore(setting, seconds=max(1.0, half - time.monotonic())) for setting in _chosen(settings.LONG, only))
        good &= _shown(console, "the procedure, longer", long)
        good &= _shown(
            console,
            "random walks",
            _walks(seed, end, _chosen(_WALKS, only)),
        )
    raise typer.Exit(not good)


def _chosen(among: Iterable[AnySetting], only: str | None) -> list[AnySetting]:
    return [setting for setting in among if only is None or only in setting.name]


def _walks(seed: int, end: float, among: list[AnySetting]) -> Iterable[Result]:
    """Each setting in its turn, with a seed of its own in each round."""
    turn = 0
    while among and (turn < len(among) or time.monotonic() < end):
        yield walk(
            among[turn % len(among)],
            seed=seed + turn // len(among),
            seconds=max(1.0, min(_TURN_S, end - time.monotonic())),
        )
        turn += 1


def _shown(console: Console, title: str, results: Iterable[Result], *, controls: bool = False) -> bool:
    """Print a table of the runs, and the traces after it: for a control only if nothing was found.

    Returns whether all is as it must be.
    """
    table = Table("setting", "seen", "moves", "s", "result", title=title, title_justify="left")
    for column in table.columns[1:4]:
        column.justify = "right"
    good, wrong = True, []
    for result in results:
        fine = (
            all(found.problem.startswith(result.setting.finds or "nothing") for found in result.found)
            and bool(result.found) == controls
        )
        good &= fine
        seen = f"{result.walks:,} walks" if result.walks else f"{result.states:,} states"
        table.add_row(
            result.setting.name, seen, f"{result.moves:,}", f"{result.seconds:.1f}", _verdict(result, controls)
        )
        if not fine:
            wrong.append(result)
    if table.row_count:
        console.print(table)
    for result in wrong:
        for found in result.found:
            console.print(f"\n[red]{result.setting.name}: {found.problem}[/]")
            for line in lines(found.trace):
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    return good


def _verdict(result: Result, control: bool) -> str:
    if result.found:
        found = result.found[0]
        colour = "green" if control else "red"
        return f"[{colour}]found, {len(found.trace)} moves[/]: {found.problem}"
    if control:
        return "[red]not found[/]"
    return "[green]holds[/]" if result.complete or result.walks else "[yellow]holds as far as it was seen[/]"


def _replayed(console: Console, logs: list[Path]) -> int:
    refused = 0
    for log in logs:
        try:
            told = replay(read(log))
        except Refused as error:
            refused += 1
            console.print(f"[red]{log}[/]: {error}", highlight=False, soft_wrap=True)
        else:
            console.print(f"{log}: {told}", highlight=False, soft_wrap=True)
    return int(refused > 0)


if __name__ == "__main__":
    typer.run(main)
