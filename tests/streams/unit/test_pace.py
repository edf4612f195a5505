"""The pace of a worker: what a sub-topology gets at a time, by what it takes for a row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from semel.streams import App, Processor
from semel.streams.dsl.stream import Stream
from semel.streams.worker.pace import BY_RECORD, WHOLE_BATCHES, Pace, pace_of, slice_s

CONF = {"bootstrap.servers": "localhost:1"}


def slices(most: int, aim_s: float, row_s: float, rows: int) -> list[int]:
    """Return the slices that so many rows are worked on in."""
    pace, found = Pace(most, aim_s), []
    while rows:
        found.append(min(pace.rows, rows))
        rows -= found[-1]
        pace.took(found[-1], found[-1] * row_s)
    return found


@pytest.mark.parametrize(
    ("row_s", "longest_s"),
    [(1e-7, 0.1), (1e-3, 0.1), (5e-3, 0.1), (0.1, 1.6), (3, 48)],
)
def test_the_interval_is_kept_whatever_a_row_takes(row_s: float, longest_s: float) -> None:
    """The first slice is small enough for any function that the defaults of Kafka can bear."""
    found = slices(WHOLE_BATCHES, slice_s(100, 300_000), row_s, 200_000 if row_s < 1e-5 else 5_000)
    assert max(found) * row_s <= longest_s + 1e-9
    assert all(count * row_s <= 0.1 + row_s for count in found[1:-1])


def test_whole_batches_for_quick_work_and_few_rows_more_for_a_single_slow_slice() -> None:
    assert slices(WHOLE_BATCHES, 0.1, 1e-7, 300_000)[:6] == [16, 128, 1024, 8192, 65_536, 65_536]
    pace = Pace(1_000, 0.1)
    for seconds in (0.001, 0.001, 0.001, 10, 0.001):
        pace.took(pace.rows, seconds)
    assert pace.rows == 80  # 1,000 took 10 s, so 10; these were quick
    pace.took(1, 0.001)  # few rows that were quick make no slice smaller
    assert pace.rows == 80


def test_a_short_interval_makes_no_slice_of_one_row() -> None:
    assert slice_s(5, 300_000) == 0.05
    assert slice_s(100_000, 10_000) == 2.5


def test_functions_of_single_records_get_as_many_as_in_kafka_streams() -> None:
    app = App("paces", **CONF)
    app.stream("batches").map_batches(lambda rows: rows).group_by("key").count().to_stream().to("out")
    records = App("paces", **CONF)
    builds: list[Callable[[Stream], object]] = [
        lambda one: one.map(lambda record: ("a", 1)),
        lambda one: one.map_values(lambda record: 1),
        lambda one: one.flat_map(lambda record: []),
        lambda one: one.filter(lambda record: True),
        lambda one: one.filter_not(lambda record: True),
        lambda one: one.select_key(lambda record: 1),
        lambda one: one.branch(lambda record: True),
        lambda one: one.group_by_key().reduce(max),
        lambda one: one.process(Processor),
    ]
    for number, build in enumerate(builds):
        build(records.stream(f"topic-{number}"))
    users = records.table("users")
    records.stream("joined").join(users, max)
    most = {pace_of(part, app.settings).most for part in app.topology.sub_topologies()}
    assert most == {WHOLE_BATCHES}
    assert {pace_of(part, app.settings).most for part in records.topology.sub_topologies()} == {BY_RECORD}
    set_to = App("paces", **CONF, **{"max.poll.records": 7})
    set_to.stream("in")
    assert pace_of(set_to.topology.sub_topologies()[0], set_to.settings).most == 7
