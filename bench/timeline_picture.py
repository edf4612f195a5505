"""The picture of ``bench.timeline``: a panel for each run, a lane for each kind of process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from bench.spark_events import TRIGGER_PARTS

if TYPE_CHECKING:
    from bench.timeline import Run

__all__ = ["draw"]

_LANES = ("Spark's trigger", "the sink's steps", "calls of Java", "requests", "Spark's tasks", "Python workers")
_COLOURS = ("#9aa5b1", "#2a7f62", "#c58b2a", "#3c6fb5", "#7a5ba6", "#b5473c")
_BAR = 0.7
#: Of the whole width: shorter bars have no text.
_READABLE = 0.06


def draw(runs: Sequence[Run], path: Path) -> None:
    """Write the picture as PNG."""
    matplotlib.rcParams["font.size"] = 8
    canvas = Canvas(figsize=(11, 2.5 * len(runs)), layout="constrained", dpi=110)
    axes = canvas.subplots(len(runs), 1, squeeze=False)
    for run, axis in zip(runs, axes[:, 0], strict=True):
        _panel(axis, run)
    canvas.savefig(path)


def _panel(axis: Axes, run: Run) -> None:
    total = run.seconds
    for lane, name, begin, end in _bars(run):
        left, width = (begin - run.begin) * 1000, (end - begin) * 1000
        axis.barh(lane, width, _BAR, left=left, color=_COLOURS[lane], edgecolor="white", linewidth=0.4)
        if end - begin >= total * _READABLE:
            axis.annotate(
                name, (left + width / 2, lane), ha="center", va="center", color="white", fontsize=6, clip_on=True
            )
    axis.set_yticks(range(len(_LANES)), _LANES)
    axis.set_xlim(0, total * 1000)
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_title(f"{run.work} rows: {total * 1000:.0f} ms", loc="left")


def _bars(run: Run) -> list[tuple[int, str, float, float]]:
    """Return the lane, the name, and the beginning and end of each bar."""
    bars, at = list[tuple[int, str, float, float]](), run.begin
    for name in TRIGGER_PARTS:  # Spark says how long each took, and not when: they follow each other
        if name in run.trigger:
            bars.append((0, name, at, at + run.trigger[name]))
            at += run.trigger[name]
    for before, after in pairwise(run.steps(os.getpid())):
        bars.append((1, f"to {after.name.partition('.')[2].lower()}", before.begin, after.begin))
    for lane, kind in ((2, "java"), (3, "request")):
        bars += [(lane, span.name, span.begin, span.end) for span in run.of(kind)]
    bars += [(4, f"task of stage {task.stage}", task.begin, task.end) for job in run.jobs for task in job.tasks]
    for pid in sorted({span.pid for span in run.spans} - {os.getpid()}):
        for before, after in pairwise(run.steps(pid)):
            if not after.name.endswith("STARTED"):  # between two tasks a worker waits
                bars.append((5, f"to {after.name.partition('.')[2].lower()}", before.begin, after.begin))
    return bars
