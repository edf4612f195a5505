"""Tables of tables, with the cache: whatever the batches, they end in what a plain computation says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import Unsupported
from semel.streams import App, Suppressed, windows
from semel.streams.dsl.table import Table
from semel.streams.nodes.tables.old_values import OLD
from semel.streams.nodes.tables.regroup import packing_changes, unpacking_changes
from semel.streams.testing import Driver

Row = tuple[str, str, int | None]
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.none() | st.integers(0, 9)), max_size=40)


def two_tables(app: App) -> tuple[Table, Table]:
    left, right = (app.table(topic, key="string", value="json", name=topic) for topic in "ab")
    return left, right


def shop() -> App:
    """Return an application with each word of tables."""
    app = App("shop")
    left, right = two_tables(app)
    small = left.filter(lambda record: record.value < 5)
    small.to_stream().to("small")
    small.group_by(lambda record: (record.value % 2, record.value), key="json").count("counts").to_stream().to("counts")
    doubled = right.map_values(lambda record: record.value * 2)
    sums = doubled.group_by(lambda record: (str(record.value % 3), record.value)).aggregate(
        lambda: 0, lambda _, value, total: total + value, lambda _, value, total: total - value, name="sums"
    )
    sums.to_stream().to("sums")
    small.join(doubled, lambda one, other: [one, other]).to_stream().to("inner")
    small.left_join(right, lambda one, other: [one, other]).to_stream().to("left")
    joined = small.outer_join(right, lambda one, other: [one, other])
    joined.to_stream().to("outer")
    joined.group_by(lambda record: ("all", 1)).reduce(lambda a, b: a + b, lambda a, b: a - b, "joined").to_stream().to(
        "joined"
    )
    return app


def expected(rows: list[Row]) -> dict[str, Any]:
    tables: dict[str, dict[str, int]] = {"a": {}, "b": {}}
    for topic, key, value in rows:
        tables[topic].pop(key, None)
        if value is not None:
            tables[topic][key] = value
    small = {key: value for key, value in tables["a"].items() if value < 5}
    right = tables["b"]
    doubled = {key: value * 2 for key, value in right.items()}
    sums = Counter[str]()
    for value in doubled.values():
        sums[str(value % 3)] += value
    outer = {key: [small.get(key), right.get(key)] for key in small.keys() | right.keys()}
    return {
        "small": small,
        "counts": dict(Counter(str(value % 2) for value in small.values())),
        "sums": {key: value for key, value in sums.items() if value},
        "inner": {key: [value, doubled[key]] for key, value in small.items() if key in doubled},
        "left": {key: [value, right.get(key)] for key, value in small.items()},
        "outer": outer,
        "joined": {"all": len(outer)} if outer else {},
    }


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, cuts=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_any_cut_ends_in_what_is_true(rows: list[Row], cuts: list[int]) -> None:
    driver, at, turn = Driver(shop()), 0, 0
    while at < len(rows):
        topic, last = rows[at][0], at + 1
        while last < len(rows) and rows[last][0] == topic and last - at < cuts[turn % len(cuts)]:
            last += 1
        driver.pipe_many(topic, [(key, value, number) for number, (_, key, value) in enumerate(rows[at:last], at)])
        at, turn = last, turn + 1
    for topic, true in expected(rows).items():
        newest = {one.key: one.value for one in driver.read(topic, value="json")}
        zero = topic in ("counts", "sums", "joined")  # a group that is empty stays, with 0
        assert {key: value for key, value in newest.items() if value is not None and not (zero and value == 0)} == true


def test_a_key_that_was_never_there_is_not_deleted() -> None:
    app = App("filters")
    two_tables(app)[0].filter(pc.field("key") != "x").to_stream().to("out")
    driver = Driver(app)
    for value in (1, 2, None):
        driver.pipe("a", value, key="x", timestamp=1)
        driver.pipe("a", value, key="y", timestamp=1)
    assert [(one.key, one.value) for one in driver.read("out")] == [("y", "1"), ("y", "2"), ("y", None)]


def test_names_are_those_of_kafka_streams() -> None:
    app = App("names")
    left, right = two_tables(app)
    left.left_join(right, lambda one, other: one).filter_not(bool).group_by(lambda record: ("k", 1)).count()
    names = [node.name.rsplit("-", 1) for node in app.topology.nodes]
    assert [f"{name} {int(number)}" for name, number in names[4:]] == [
        "KTABLE-JOINTHIS 5",
        "KTABLE-JOINOTHER 6",
        "KTABLE-MERGE 4",
        "KTABLE-FILTER 7",
        "KTABLE-SELECT 8",
        "KSTREAM-SINK 10",
        "KSTREAM-SOURCE 11",
        "KTABLE-AGGREGATE 12",
    ]
    assert "names-KTABLE-AGGREGATE-STATE-STORE-0000000009-repartition" in app.topology.internal_topics()


def test_changes_are_written_as_kafka_streams_writes_them() -> None:
    """The old value, the new one, or the length of the new one as a varint and both; then which of the three."""
    rows = pa.RecordBatch.from_pydict({"value": ["n" * 70, None, "n"], OLD: ["old", "old", None]})
    packed = packing_changes("string")(rows)
    assert packed.to_pylist() == [b"\x8c\x01" + b"n" * 70 + b"old\x02", b"old\x00", b"n\x01"]
    columns = unpacking_changes("string")(packed)
    assert (columns["value"], columns[OLD]) == (rows["value"], rows[OLD])


def test_what_is_not_there_is_refused_by_name() -> None:
    app = App("refused")
    left, right = two_tables(app)
    waiting = left.suppress(Suppressed.until_time_limit(5))
    counted = app.stream("c", key="string").group_by_key().windowed(windows.tumbling(5)).count("windows")
    for refused in (
        lambda: waiting.filter(bool),
        lambda: waiting.join(right, max),
        lambda: waiting.group_by(lambda record: (record.key, 1)),
        lambda: counted.group_by(lambda record: (record.key, 1)),
        lambda: counted.join(right, max),
    ):
        with pytest.raises(Unsupported, match="not there yet"):
            refused()
