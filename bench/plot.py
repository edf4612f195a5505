"""The picture: how many times as fast as each peer, and what a transaction adds to a micro-batch; with range, target
and aim.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from bench.figures import Figure, Unit

__all__ = ["draw"]

_MET, _NOT_MET, _INFORMS = "#2a7f62", "#b5473c", "#9aa5b1"


def draw(figures: Sequence[Figure], path: Path) -> None:
    """Write the picture as PNG."""
    kinds = {unit: [figure for figure in figures if figure.unit is unit] for unit in Unit}
    panels = [(unit, chosen) for unit, chosen in kinds.items() if chosen]
    matplotlib.rcParams["font.size"] = 8
    canvas = Canvas(figsize=(9, 0.9 + 0.3 * sum(len(chosen) for _, chosen in panels)), layout="constrained", dpi=110)
    axes = canvas.subplots(len(panels), 1, squeeze=False, height_ratios=[len(chosen) + 1 for _, chosen in panels])
    for (unit, chosen), axis in zip(panels, axes[:, 0], strict=True):
        _panel(axis, chosen)
        axis.set_title("times as fast as" if unit is Unit.TIMES else "milliseconds that exactly-once adds", loc="left")
    canvas.savefig(path)


def _panel(axis: Axes, figures: Sequence[Figure]) -> None:
    for row, figure in enumerate(figures):
        colour = _INFORMS if figure.target is None else _MET if figure.reaches(figure.target) else _NOT_MET
        axis.barh(row, figure.median, height=0.6, color=colour, alpha=0.85)
        axis.plot([figure.low, figure.high], [row, row], color="black", linewidth=1, marker="|", markersize=5)
        if figure.target is not None:
            axis.vlines(figure.target, row - 0.42, row + 0.42, color="black", linewidth=1.4)
        if figure.aim is not None:
            axis.vlines(figure.aim, row - 0.42, row + 0.42, color="black", linewidth=1.4, linestyles="dotted")
        axis.annotate(
            figure.shown(figure.median),
            (max(figure.high, figure.median, 0), row),
            (4, 0),
            textcoords="offset points",
            va="center",
        )
    axis.set_yticks(range(len(figures)), [f"{figure.work} / {figure.peer}" for figure in figures])
    axis.invert_yaxis()
    axis.margins(x=0.12)
    axis.spines[["top", "right"]].set_visible(False)
