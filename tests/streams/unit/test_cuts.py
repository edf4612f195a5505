"""Batches are how rows travel: any cut of the rows gives what a record at a time gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.streams import App, windows
from semel.streams.dsl.grouped import GroupedStream
from semel.streams.dsl.table import Table
from semel.streams.testing import Driver

SIZE = 10
Row = tuple[str, int, int]


def adding(key: str, value: int, state: list[int] | None) -> list[int] | None:
    return None if value < 0 else (state or [0]) + [value]


def reducing(state: int, value: int) -> int | None:
    return None if value < 0 else state + value


def adding_up(state: Any, key: str, value: int) -> Any:
    """As Kafka Streams: where nothing is there, the initializer is called."""
    return adding(key, value, [100] if state is None else state)


def reduced(state: Any, key: str, value: int) -> Any:
    return value if state is None else reducing(state, value)


SHAPES: dict[str, tuple[Callable[[GroupedStream], Table], Callable[[Any, str, int], Any], bool]] = {
    "aggregate": (lambda one: one.aggregate(lambda: [100], adding, name="s"), adding_up, False),
    "reduce": (lambda one: one.reduce(reducing, "s"), reduced, False),
    "windowed": (
        lambda one: one.windowed(windows.tumbling(SIZE)).aggregate(lambda: [100], adding, name="s"),
        adding_up,
        True,
    ),
}


def truth(rows: list[Row], step: Callable[[Any, str, int], Any], windowed: bool) -> dict[Any, tuple[Any, int]]:
    """Return what each key has after all, and when it had it last."""
    found: dict[Any, tuple[Any, int]] = {}
    now = -1
    for key, value, at in rows:
        now = max(now, at)
        begin = at - at % SIZE
        if windowed and begin + SIZE <= now:
            continue
        name = (key.encode(), begin) if windowed else key.encode()
        before, time = found.get(name, (None, -1))
        found[name] = (step(before, key, value), at if before is None else max(time, at))
    return found


def run(build: Callable[[GroupedStream], Table], rows: list[Row], cuts: list[int]) -> tuple[Driver, list[Any]]:
    app = App("cuts")
    build(app.stream("in", key="string", value="json").group_by_key()).to_stream().to("out", key="bytes")
    driver = Driver(app)
    while rows:
        size = cuts.pop() if cuts else len(rows)
        driver.pipe_many("in", [(key, value, at) for key, value, at in rows[:size]])
        rows = rows[size:]
    return driver, driver.read("out", key="bytes", value="json")


ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-2, 3), st.integers(0, 30)), max_size=30)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=40, deadline=None)
@given(rows=ROWS, cuts=st.lists(st.integers(1, 8)))
def test_any_cut_is_a_record_at_a_time(shape: str, rows: list[Row], cuts: list[int]) -> None:
    build, step, windowed = SHAPES[shape]
    expected = truth(rows, step, windowed)
    driver, said = run(build, rows, cuts)
    there = {name: value for name, (value, _) in expected.items() if value is not None}
    assert {name: json.loads(value) for name, value in driver.store("s").items()} == there
    updates: dict[Any, tuple[Any, int]] = {}
    for one in said:
        name = (one.key[:-8], int.from_bytes(one.key[-8:], "big")) if windowed else one.key
        updates[name] = (one.value, one.timestamp)
    assert {name: update for name, update in updates.items() if update[0] is not None} == {
        name: (value, at) for name, (value, at) in expected.items() if value is not None
    }
    assert {name for name, update in updates.items() if update[0] is None} <= expected.keys() - there.keys()


@pytest.mark.parametrize("cuts", [[], [1, 1, 1], [1, 2], [2, 1]])
@pytest.mark.parametrize(("shape", "end"), [("aggregate", [100, 5]), ("reduce", 5), ("windowed", [100, 5])])
def test_after_none_it_begins_again(shape: str, end: Any, cuts: list[int]) -> None:
    rows = [("a", 1, 3), ("a", -1, 4), ("a", 5, 2)]
    driver, said = run(SHAPES[shape][0], rows, list(cuts))
    (stored,) = driver.store("s").values()
    assert json.loads(stored) == end
    assert (said[-1].value, said[-1].timestamp) == (end, 2)  # not 4: what was deleted has no time


def test_a_deletion_is_handed_on_as_null() -> None:
    driver, said = run(SHAPES["reduce"][0], [("a", 1, 3), ("a", -1, 4)], [1, 1])
    assert [(one.value, one.timestamp) for one in said] == [(1, 3), (None, 4)]
    assert driver.store("s") == {}
    _, said = run(SHAPES["reduce"][0], [("a", 1, 3), ("a", -1, 4), ("b", -1, 5)], [3])
    assert [(one.key, one.value) for one in said] == [(b"b", -1)]  # a reduce begins with the first value
