"""Aggregations of several streams into one table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from semel.errors import ConfigError
from semel.streams import App, windows
from semel.streams.nodes.stream_time import GROUP, GroupTimes
from semel.streams.state.backend import Memory
from semel.streams.state.state_store import StateStore, StoreSpec
from semel.streams.testing import Driver
from tests.streams.support.topologies import said


def test_streams_of_other_serialisations_come_to_one_table() -> None:
    app = App("shop")
    orders, returns = (
        app.stream(name, key="string", value=value) for name, value in (("in", "json"), ("back", "long"))
    )
    sums = orders.group_by_key().cogroup(lambda _, order, total: total + order["cents"])
    sums = sums.cogroup(returns.group_by_key(), lambda _, cents, total: total - cents)
    sums.aggregate(lambda: 0, name="sums", value="long").to_stream().to("out", value="json")
    driver = Driver(app)
    driver.pipe("in", {"cents": 700}, key="a", timestamp=1)
    driver.pipe("back", 200, key="a", timestamp=2)
    driver.pipe("in", {"cents": 5}, key="b", timestamp=3)
    assert said(driver, "out") == [(b"a", "700", 1), (b"a", "500", 2), (b"b", "5", 3)]
    assert "COGROUPKSTREAM-MERGE-0000000004 (stores: [sums])" in app.describe()


def test_counts_are_given_as_numbers() -> None:
    app = App("counts")
    lines = app.stream("in", key="string", value="string")
    counts = lines.group_by_key().count("counts").to_stream()
    both = counts.group_by_key().cogroup(lambda _, count, total: [*total, count + 1])
    both.aggregate(list, name="both").to_stream().to("out")
    driver = Driver(app)
    driver.pipe("in", "x", key="a", timestamp=1)
    driver.pipe("in", "y", key="a", timestamp=2)
    assert said(driver, "out") == [(b"a", "[2]", 1), (b"a", "[2,3]", 2)]


def test_a_stream_makes_no_row_of_another_one_late() -> None:
    app = App("late")
    fast, slow = (app.stream(name, key="string", value="json") for name in ("fast", "slow"))
    both = fast.group_by_key().cogroup(lambda _, value, total: total + value)
    both = both.cogroup(slow.group_by_key(), lambda _, value, total: total + value).windowed(windows.tumbling(10))
    both.aggregate(lambda: 0, name="both").to_stream().to("out")
    driver = Driver(app)
    driver.pipe("fast", 1, key="a", timestamp=50)
    driver.pipe("slow", 2, key="a", timestamp=5)
    driver.pipe("fast", 3, key="a", timestamp=5)
    assert [row[1] for row in said(driver, "out")] == ["1", "2"]
    assert app.dropped_records == {"COGROUPKSTREAM-MERGE-0000000004": 1}


def test_the_stream_times_of_groups_are_restored() -> None:
    spec = StoreSpec("times")

    def times_at(store: StateStore, *rows: tuple[int, int]) -> list[int]:
        batch = pa.RecordBatch.from_pydict({GROUP: pa.array([group for group, _ in rows], pa.int32())})
        return list(GroupTimes(spec).at(batch, np.array([time for _, time in rows]), {"times": store}).tolist())

    before, after = StateStore(spec, Memory()), StateStore(spec, Memory())
    assert times_at(before, (0, 5), (1, 2), (0, 3), (1, 9)) == [5, 2, 5, 9]
    (changes,) = before.changes().to_batches()
    after.restore(changes, "id", 2)
    assert times_at(after, (0, 1), (1, 1), (1, 10)) == [5, 9, 10]


def test_what_cannot_be_grouped_together_is_refused() -> None:
    app = App("refused")
    texts, numbers = app.stream("a", key="string"), app.stream("b", key="long")
    begun = texts.group_by_key().cogroup(lambda key, value, total: total)
    with pytest.raises(ConfigError, match="equal keys would not meet"):
        begun.cogroup(numbers.group_by_key(), lambda key, value, total: total)
    with pytest.raises(ConfigError, match="put windowed\\(\\) after the last cogroup"):
        begun.windowed(windows.tumbling(5)).cogroup(texts.group_by_key(), lambda key, value, total: total)
    with pytest.raises(ConfigError, match="put windowed\\(\\) after the last cogroup"):
        texts.group_by_key().windowed(windows.tumbling(5)).cogroup(lambda key, value, total: total)
    with pytest.raises(ConfigError, match="has no merger"):
        begun.windowed(windows.session(5)).aggregate(list)
    with pytest.raises(ConfigError, match="has no initializer"):
        begun.aggregate(None)  # type: ignore[arg-type]
