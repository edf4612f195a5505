"""Cutting ranges for minPartitions: the arithmetic of Spark's KafkaOffsetRangeCalculator, and that nothing is lost or
read twice by it.
"""

from __future__ import annotations

import pickle
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.read.ranges import NO_END, Range, id_text, parse_id, split

ID = id_text(uuid.UUID(int=7))


def ranges(*sizes: int) -> list[Range]:
    return [Range("t", ID, index, 100 * index, 100 * index + size) for index, size in enumerate(sizes)]


def cuts(found: list[Range]) -> list[tuple[int, int, int]]:
    return [(one.partition, one.start - 100 * one.partition, one.end - 100 * one.partition) for one in found]


@pytest.mark.parametrize("wanted", [None, 1, 2, 3])
def test_enough_ranges_are_left_as_they_are(wanted: int | None) -> None:
    assert split(ranges(10, 0, 20, 5), wanted) == ranges(10, 0, 20, 5)[:1] + ranges(10, 0, 20, 5)[2:]


@pytest.mark.parametrize(
    ("sizes", "wanted", "expected"),
    [
        ([10], 2, [(0, 0, 5), (0, 5, 10)]),
        ([10], 4, [(0, 0, 2), (0, 2, 4), (0, 4, 7), (0, 7, 10)]),
        ([1], 4, [(0, 0, 1)]),
        ([100, 1], 3, [(0, 0, 50), (0, 50, 100), (1, 0, 1)]),
        ([1, 100], 3, [(0, 0, 1), (1, 0, 50), (1, 50, 100)]),
        ([20, 20], 5, [(0, 0, 6), (0, 6, 13), (0, 13, 20), (1, 0, 6), (1, 6, 13), (1, 13, 20)]),
        # Seven small ones take a part each; the large one gets the five parts that are left, and not its share of all.
        (
            [99, 1, 1, 1, 1, 1, 1, 1],
            12,
            [(0, 0, 19), (0, 19, 39), (0, 39, 59), (0, 59, 79), (0, 79, 99), *((i, 0, 1) for i in range(1, 8))],
        ),
    ],
)
def test_large_ranges_are_cut_by_their_share(
    sizes: list[int], wanted: int, expected: list[tuple[int, int, int]]
) -> None:
    assert cuts(split(ranges(*sizes), wanted)) == expected


@given(st.lists(st.integers(0, 90), max_size=20), st.one_of(st.none(), st.integers(1, 60)))
def test_every_offset_is_in_exactly_one_part_and_in_order(sizes: list[int], wanted: int | None) -> None:
    whole = ranges(*sizes)
    parts = split(whole, wanted)
    assert [(p.partition, o) for p in parts for o in range(p.start, p.end)] == [
        (w.partition, o) for w in whole for o in range(w.start, w.end)
    ]
    assert all(part.size > 0 for part in parts)


def test_a_range_travels_and_names_itself() -> None:
    one = Range("orders", ID, 3, 5, 9)
    assert pickle.loads(pickle.dumps(one)) == one
    assert (str(one), one.bounded, one.topic_partition) == ("orders-3 [5, 9)", True, ("orders", 3))
    assert str(Range("orders", ID, 3, 5, NO_END)) == "orders-3 [5, …)"


def test_topic_ids_are_written_as_kafka_writes_them() -> None:
    topic_id = uuid.UUID("d3a1f0b2-0000-4000-8000-fbff00000001")
    assert len(id_text(topic_id)) == 22
    assert parse_id(id_text(topic_id)) == topic_id
    with pytest.raises(ConfigError, match="no topic id"):
        parse_id("short")
