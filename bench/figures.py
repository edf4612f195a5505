"""A comparison and what it came to: one value for each pair of runs, their median and range, and whether the target is
met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

__all__ = ["WHOLE", "Figure", "Unit", "differences", "ratios"]

#: How the works begin that are whole micro-batches, from topic to topic.
WHOLE = "whole micro-batch"


class Unit(StrEnum):
    """The unit of a figure's values."""

    TIMES = "x"
    MILLISECONDS = "ms"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report. ``values`` are of the pairs, in order: our rate divided by the peer's, or the
    milliseconds that ours takes more.

    ``ours`` and ``theirs`` are medians of what was measured: rows per second, or milliseconds. Without a target the
    line only informs.
    """

    work: str
    peer: str
    unit: Unit
    values: tuple[float, ...]
    ours: float
    theirs: float
    target: float | None = None
    aim: float | None = None

    @property
    def median(self) -> float:
        """The middle one of the pairs."""
        return median(self.values)

    @property
    def low(self) -> float:
        """The least of the pairs."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The greatest of the pairs."""
        return max(self.values)

    def reaches(self, goal: float | None) -> bool | None:
        """Return whether the median is at least as good as a target or an aim, or None without one."""
        if goal is None:
            return None
        return self.median >= goal if self.unit is Unit.TIMES else self.median <= goal

    @property
    def verdict(self) -> str:
        """``met``, ``met, and the aim``, ``not met``, or nothing."""
        if self.target is None:
            return ""
        if self.reaches(self.aim):
            return "met, and the aim"
        return "met" if self.reaches(self.target) else "not met"

    def shown(self, value: float | None) -> str:
        """Return a value of this figure as it is printed."""
        if value is None:
            return ""
        return f"{value:.2f}x" if self.unit is Unit.TIMES else f"{value:+.1f} ms"

    def measured(self, value: float) -> str:
        """Return the measured value of one side as it is printed."""
        return f"{value:,.0f}/s" if self.unit is Unit.TIMES else f"{value:.1f} ms"


def ratios(
    work: str,
    peer: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    target: float | None = None,
    aim: float | None = None,
) -> Figure:
    """Rates, pair by pair: above 1 ours is the faster one."""
    values = tuple(mine / other for mine, other in zip(ours, theirs, strict=True))
    return Figure(work, peer, Unit.TIMES, values, median(ours), median(theirs), target, aim)


def differences(
    work: str,
    peer: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    target: float | None = None,
    aim: float | None = None,
) -> Figure:
    """Milliseconds, pair by pair: what ours takes more."""
    values = tuple(mine - other for mine, other in zip(ours, theirs, strict=True))
    return Figure(work, peer, Unit.MILLISECONDS, values, median(ours), median(theirs), target, aim)
