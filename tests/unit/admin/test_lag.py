"""Positions of a progress record: what a lag is counted from."""

from __future__ import annotations

from semel.admin.lag import paused, positions
from semel.transaction.progress.record import KafkaSource, OpaqueSource, Progress, TopicEnd


def test_of_sources_that_read_one_partition_the_lowest_counts() -> None:
    one = KafkaSource("cluster", {"in": TopicEnd("id", {0: 7, 1: 3})})
    two = KafkaSource("cluster", {"in": TopicEnd("id", {0: 5, 1: 4}), "more": TopicEnd("other", {0: 1})})
    assert positions(Progress(sources=(one, OpaqueSource("files"), two))) == {
        ("in", 0): 5,
        ("in", 1): 3,
        ("more", 0): 1,
    }


def test_what_one_source_leaves_out_counts_only_where_no_other_reads_it() -> None:
    one = KafkaSource("cluster", {"in": TopicEnd("id", {0: 2, 1: 3}, None, frozenset({0, 1}))})
    two = KafkaSource("cluster", {"in": TopicEnd("id", {0: 5})})
    assert positions(Progress(sources=(one, two))) == {("in", 0): 5, ("in", 1): 3}
    assert paused(Progress(sources=(one, two))) == {("in", 1): 3}


def test_without_progress_there_is_none() -> None:
    assert positions(None) == {}
    assert positions(Progress(batch=3)) == {}
