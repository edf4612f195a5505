"""A comparison: pairs, median, range, verdict."""

from __future__ import annotations

import pytest
from rich.console import Console

from bench.figures import Figure, Unit, differences, ratios
from bench.rounds import Contender, interleave


def test_a_ratio_is_made_pair_by_pair() -> None:
    figure = ratios("sink", "peer", [10.0, 30.0, 20.0], [10.0, 10.0, 40.0], target=1.0, aim=1.5)
    assert figure.values == (1.0, 3.0, 0.5)
    assert (figure.low, figure.median, figure.high) == (0.5, 1.0, 3.0)
    assert (figure.ours, figure.theirs) == (20.0, 10.0)


def test_a_difference_is_made_pair_by_pair() -> None:
    figure = differences("batch", "peer", [110.0, 150.0, 90.0], [100.0, 100.0, 100.0], target=25.0, aim=10.0)
    assert figure.values == (10.0, 50.0, -10.0)
    assert figure.shown(figure.median) == "+10.0 ms"
    assert figure.shown(None) == ""


def test_pairs_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratios("sink", "peer", [1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("unit", "value", "verdict"),
    [
        (Unit.TIMES, 0.99, "not met"),
        (Unit.TIMES, 1.0, "met"),
        (Unit.TIMES, 1.5, "met, and the aim"),
        (Unit.MILLISECONDS, 25.1, "not met"),
        (Unit.MILLISECONDS, 25.0, "met"),
        (Unit.MILLISECONDS, 9.0, "met, and the aim"),
    ],
)
def test_more_is_better_for_ratios_and_less_for_milliseconds(unit: Unit, value: float, verdict: str) -> None:
    target, aim = (1.0, 1.5) if unit is Unit.TIMES else (25.0, 10.0)
    assert Figure("w", "p", unit, (value,), 1.0, 1.0, target, aim).verdict == verdict
    assert Figure("w", "p", unit, (value,), 1.0, 1.0).verdict == ""


def test_contenders_run_in_turn_and_the_first_round_is_not_counted() -> None:
    ran: list[tuple[str, int]] = []

    def contender(name: str, value: float) -> Contender:
        def run(number: int) -> float:
            ran.append((name, number))
            return value + number

        return Contender(name, run)

    measured = interleave(
        "w", [contender("a", 10), contender("b", 20)], range(3), unit="rows/s", console=Console(quiet=True)
    )
    assert ran == [("b", 0), ("a", 0), ("a", 1), ("b", 1), ("b", 2), ("a", 2)]
    assert measured == {"a": [11, 12], "b": [21, 22]}
