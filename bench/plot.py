"""The picture: how many times as fast as the usual way, and how long a micro-batch takes. The table has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from bench.figures import WHOLE, Figure, Unit

__all__ = ["draw"]

_FASTER, _SLOWER, _OTHER = "#2a7f62", "#b5473c", "#9aa5b1"
_BAR = 0.6


def draw(figures: Sequence[Figure], path: Path) -> None:
    """Write the picture as PNG: one panel for each kind of figure that there is."""
    batches = [figure for figure in figures if figure.work.startswith(WHOLE)]
    ratios = [figure for figure in _beside_the_usual(figures) if figure not in batches]
    panels = [(panel, chosen) for panel, chosen in ((_ratios, ratios), (_batches, batches)) if chosen]
    rows = [len(chosen) * (1 if panel is _ratios else 2) + 1 for panel, chosen in panels]
    matplotlib.rcParams["font.size"] = 9
    canvas = Canvas(figsize=(9, 0.6 + 0.27 * sum(rows)), layout="constrained", dpi=110)
    axes = canvas.subplots(len(panels), 1, squeeze=False, height_ratios=rows) if panels else None
    for (panel, chosen), axis in zip(panels, axes[:, 0] if axes is not None else (), strict=True):
        panel(axis, chosen)
        axis.invert_yaxis()
        axis.margins(x=0.14)
        axis.spines[["top", "right"]].set_visible(False)
    canvas.savefig(path)


def _beside_the_usual(figures: Sequence[Figure]) -> list[Figure]:
    """Return those that have a target, or are the first of their work. The others only explain one, in the table."""
    first = {figure.work: figure for figure in reversed(figures)}
    return [
        figure
        for figure in figures
        if figure.unit is Unit.TIMES and (figure.target is not None or figure is first[figure.work])
    ]


def _ratios(axis: Axes, figures: Sequence[Figure]) -> None:
    for row, figure in enumerate(figures):
        axis.barh(row, figure.median - 1, _BAR, left=1, color=_FASTER if figure.median >= 1 else _SLOWER)
        _label(
            axis, max(figure.median, 1), row, f"{figure.median:.0f}" if figure.median >= 10 else f"{figure.median:.2f}"
        )
    axis.set_xscale("log")
    axis.set_xticks([], minor=True)
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if _spans(figures, tick)]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.axvline(1, color="black", linewidth=1)
    axis.set_yticks(range(len(figures)), [f"{figure.work} / {figure.peer}" for figure in figures])
    axis.set_title("times as fast as the usual way (green: semel is faster)", loc="left")


def _spans(figures: Sequence[Figure], tick: float) -> bool:
    values = [1.0, *(figure.median for figure in figures)]
    return min(values) / 2 <= tick <= max(values) * 2


def _batches(axis: Axes, figures: Sequence[Figure]) -> None:
    """Rates are batches a second: shown is how long one takes."""
    for row, figure in enumerate(figures):
        for place, name, rate in ((-0.2, "semel, exactly once", figure.ours), (0.2, figure.peer, figure.theirs)):
            milliseconds = 1000 / rate
            colour = _FASTER if place < 0 else _OTHER
            axis.barh(row + place, milliseconds, 0.38, color=colour, label=name if row == 0 else None)
            _label(axis, milliseconds, row + place, f"{milliseconds:.0f}")
    axis.set_yticks(range(len(figures)), [figure.work.removeprefix(WHOLE).strip(", ") for figure in figures])
    axis.set_title("ms a micro-batch, topic to topic (shorter is better)", loc="left")
    axis.legend(frameon=False, loc="best")


def _label(axis: Axes, at: float, row: float, text: str) -> None:
    axis.annotate(text, (at, row), (4, 0), textcoords="offset points", va="center")
