"""The arithmetic of micro-batches: limits shared out, ranges between offsets, the rule of batch 0."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.read import Range
from semel.spark.source.batch_ranges import (
    PartitionPlan,
    apply_rate_limit,
    between,
    parts_of,
    split_into_tasks,
    topic_ranges,
)
from semel.spark.source_offset import SourceOffset, TopicOffset, initial
from semel.wire.metadata import TopicPartition

Parts = dict[TopicPartition, PartitionPlan]


def parts(*waiting: int) -> Parts:
    return {("in", index): PartitionPlan("id", 0, 10, 10 + count) for index, count in enumerate(waiting)}


def offset(began: dict[int, int], end: dict[int, int], *, topic_id: str = "id", marked: bool = False) -> SourceOffset:
    return SourceOffset("c", {"in": TopicOffset(topic_id, began, end)}, marked)


def shares(found: dict[TopicPartition, int]) -> list[int]:
    return [end - 10 for _, end in sorted(found.items())]


def test_a_limit_is_shared_out_by_what_is_waiting() -> None:
    assert shares(apply_rate_limit(parts(100, 300), 40)) == [10, 30]
    assert shares(apply_rate_limit(parts(100, 300, 0), None)) == [100, 300, 0]
    assert shares(apply_rate_limit(parts(100, 300), 400)) == [100, 300]


def test_nobody_starves_and_shares_are_rounded_down() -> None:
    assert shares(apply_rate_limit(parts(1, 1_000_000), 10)) == [1, 9]
    assert shares(apply_rate_limit(parts(10, 10, 10), 10)) == [3, 3, 3]
    assert shares(apply_rate_limit(parts(10, 10, 10), 1)) == [1, 1, 1]


def test_shares_of_huge_offsets_are_exact() -> None:
    huge = {("in", 0): PartitionPlan("id", 0, 2**60, 2**60 + 3)}
    assert apply_rate_limit(huge, 2) == {("in", 0): 2**60 + 2}


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=8), st.integers(1, 2**40))
def test_every_batch_moves_on_and_none_goes_too_far(waiting: list[int], most: int) -> None:
    found = shares(apply_rate_limit(parts(*waiting), most))
    assert all(0 <= share <= count for share, count in zip(found, waiting, strict=True))
    assert all(share > 0 for share, count in zip(found, waiting, strict=True) if count)
    assert sum(found) <= max(most, 0) + len(waiting)


def test_ranges_between_two_offsets() -> None:
    start, end = offset({0: 0, 1: 0}, {0: 5, 1: 7}), offset({0: 0, 1: 0}, {0: 9, 1: 7})
    assert between(start, end) == [Range("in", "id", 0, 5, 9)]
    assert between(end, end) == []


def test_an_initial_start_is_not_believed() -> None:
    """It may be another answer than the one whose end was logged: after a restart inside batch 0 it is."""
    logged = offset({0: 3}, {0: 9})
    for answered in (3, 0, 7, 50):
        assert between(offset({0: answered}, {0: answered}, marked=True), logged) == [Range("in", "id", 0, 3, 9)]
    assert between(initial("c", {}), logged) == [Range("in", "id", 0, 3, 9)]
    assert between(offset({0: 3}, {0: 5}), logged) == [Range("in", "id", 0, 5, 9)], (
        "control: any other start is believed"
    )


def test_a_partition_that_the_start_lacks_is_read_from_where_it_began() -> None:
    assert between(offset({0: 3}, {0: 5}), offset({0: 3, 1: 2}, {0: 5, 1: 4})) == [Range("in", "id", 1, 2, 4)]


def test_a_topic_that_was_created_anew_is_read_from_where_it_began() -> None:
    assert between(offset({0: 3}, {0: 500}), offset({0: 0}, {0: 4}, topic_id="new")) == [Range("in", "new", 0, 0, 4)]


def test_a_log_that_was_cut_gives_nothing_to_read() -> None:
    assert between(offset({0: 3}, {0: 500}), offset({0: 3}, {0: 400})) == []


def test_began_goes_from_offset_to_offset() -> None:
    before = offset({0: 3, 1: 0}, {0: 5, 1: 0})
    after = topic_ranges("c", parts_of(before), {("in", 0): 8, ("in", 1): 2})
    assert after == offset({0: 3, 1: 0}, {0: 8, 1: 2})


def test_one_task_for_each_partition_unless_more_were_asked_for() -> None:
    ranges = [Range("in", "id", 0, 0, 100), Range("in", "id", 1, 0, 7)]
    assert split_into_tasks(ranges, None, None, 1) == [(one,) for one in ranges]
    assert split_into_tasks(ranges, 2, None, 1) == [(one,) for one in ranges]
    assert [one.size for (one,) in split_into_tasks(ranges, None, 40, 1)] == [33, 33, 34, 7]
    assert [one.size for (one,) in split_into_tasks(ranges, 4, None, 1)] == [33, 33, 34, 7]
    assert len(split_into_tasks(ranges, 10, 60, 1)) >= 10


def test_small_partitions_share_a_task() -> None:
    ranges = [Range("in", "id", index, 5, 15) for index in range(600)]
    assert split_into_tasks(ranges, None, None, 10_000) == [tuple(ranges)]
    assert [len(task) for task in split_into_tasks(ranges, None, None, 2_000)] == [200, 200, 200]
    assert len(split_into_tasks(ranges, 7, None, 10_000)) == 7, "minPartitions"
    assert len(split_into_tasks(ranges, 1_200, None, 10_000)) == 1_200, "and cuts"
    large = Range("in", "id", 600, 0, 1_000_000)
    alone, *_ = (task for task in split_into_tasks([*ranges, large], None, None, 100_000) if large in task)
    assert alone == (large,)


@given(
    st.lists(st.integers(0, 300), max_size=9),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 400),
    st.integers(1, 2_000),
)
def test_dividing_neither_loses_nor_doubles_an_offset(
    sizes: list[int], least: int | None, most: int | None, worth: int
) -> None:
    ranges = [Range("in", "id", index, 5, 5 + size) for index, size in enumerate(sizes)]
    tasks = split_into_tasks(ranges, least, most, worth)
    assert all(tasks)
    assert all(sum(piece.size for piece in task) <= (most or 1 << 62) for task in tasks)
    assert all(len({piece.topic_partition for piece in task}) == len(task) for task in tasks)
    covered = [(piece.partition, at) for task in tasks for piece in task for at in range(piece.start, piece.end)]
    assert sorted(covered) == [(one.partition, at) for one in ranges for at in range(one.start, one.end)]


def test_an_epoch_goes_with_the_position_it_was_seen_with() -> None:
    """Another text is another batch for Spark: where nothing is read, a new leader changes none."""
    parts = {
        ("in", 0): PartitionPlan("id", 0, 5, 9, epoch=2, latest_epoch=4),
        ("in", 1): PartitionPlan("id", 0, 7, 7, epoch=3, latest_epoch=4),
    }
    moved = topic_ranges("c", parts, {("in", 0): 8, ("in", 1): 7})
    assert moved.topics["in"].epochs == {0: 4, 1: 3}
    assert parts_of(moved)["in", 0].epoch == 4
    assert topic_ranges("c", parts, {("in", 0): 5, ("in", 1): 7}).topics["in"].epochs == {0: 2, 1: 3}


def test_a_place_without_an_epoch_gets_one_when_the_offset_changes_anyway() -> None:
    """By itself it makes no batch."""
    parts = {
        ("in", 0): PartitionPlan("id", 0, 5, 9, latest_epoch=4),
        ("in", 1): PartitionPlan("id", 0, 7, 7, latest_epoch=6),
        ("in", 2): PartitionPlan("id", 0, 1, 1),
    }
    stays = {partition: part.position for partition, part in parts.items()}
    assert topic_ranges("c", parts, stays).topics["in"].epochs == {}
    assert topic_ranges("c", parts, stays, moves=True).topics["in"].epochs == {0: 4, 1: 6}
    assert topic_ranges("c", parts, {**stays, ("in", 0): 9}).topics["in"].epochs == {0: 4, 1: 6}


def test_a_leader_of_an_older_epoch_than_the_positions_names_nothing_new() -> None:
    part = PartitionPlan("id", 0, 5, 5, epoch=3)
    assert part.up_to(9, 2) == PartitionPlan("id", 0, 5, 5, epoch=3, latest_epoch=3)
    assert part.up_to(9, 3) == PartitionPlan("id", 0, 5, 9, epoch=3, latest_epoch=3)
    assert part.up_to(9, -1) == PartitionPlan("id", 0, 5, 9, epoch=3), "a broker that does not say"


def test_a_range_has_the_epoch_of_its_end() -> None:
    end = SourceOffset("c", {"in": TopicOffset("id", {0: 3}, {0: 9}, epochs={0: 4})})
    (one,) = between(offset({0: 3}, {0: 5}), end)
    assert one.epoch == 4
    assert {piece.epoch for (piece,) in split_into_tasks([one], 3, None, 1)} == {4}
