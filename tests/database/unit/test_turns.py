"""Units run side by side, and what runs alone is overtaken by none of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import semel
from semel.database.turns import Turns
from tests.support.waiting import wait_for

PATIENCE_S = 20.0


def test_each_has_a_worker_of_its_own_and_gives_it_back() -> None:
    turns = Turns("p", [1, 2, 3])
    together = threading.Barrier(3, timeout=PATIENCE_S)

    def unit() -> int:
        with turns.one() as worker:
            together.wait()
            return worker

    with ThreadPoolExecutor(3) as pool:
        for _ in range(5):
            assert sorted(pool.map(lambda _: unit(), range(3))) == [1, 2, 3]


def test_what_runs_alone_waits_for_units_and_is_overtaken_by_none() -> None:
    turns = Turns("p", [1, 2])
    order: list[str] = []
    begun, asked = threading.Event(), threading.Event()

    def first() -> None:
        with turns.one():
            begun.set()
            asked.wait(PATIENCE_S)
            order.append("unit")

    def alone() -> None:
        with turns.all() as workers:
            order.append(f"alone with {len(workers)}")

    def later() -> None:
        with turns.one():
            order.append("later")

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(first)]
        assert begun.wait(PATIENCE_S)
        running.append(pool.submit(alone))
        wait_for(lambda: turns._alone_next == 1, "it waits to run alone")
        running.append(pool.submit(later))  # a worker is free, and it waits all the same
        asked.set()
        for one in running:
            one.result(PATIENCE_S)
    assert order == ["unit", "alone with 2", "later"]


@pytest.mark.parametrize("outer", ["one", "all"])
@pytest.mark.parametrize("inner", ["one", "all"])
def test_a_turn_in_a_turn_of_one_thread_is_refused_and_harms_nothing(outer: str, inner: str) -> None:
    turns = Turns("p", [1, 2])

    def nested() -> None:
        with getattr(turns, inner)():
            pass

    with getattr(turns, outer)(), pytest.raises(semel.ConfigError, match=r"ILLEGAL_STATE.*open already in this thread"):
        nested()
    with turns.all() as workers:
        assert sorted(workers) == [1, 2]


def test_an_error_in_a_turn_gives_the_worker_back() -> None:
    turns = Turns("p", [1])
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), turns.one():
            1 / 0  # noqa: B018
    with turns.one() as worker:
        assert worker == 1
