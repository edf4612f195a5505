"""What the sink makes of Spark's offset log: where each source of a batch starts and ends."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from semel.errors import DataLoss
from semel.spark.jvm.values import SourceInfo
from semel.spark.sink.micro_batch import SourceBatch, source_batch
from semel.spark.source_offset import SourceOffset, TopicOffset, dump
from semel.transaction.progress.record import KafkaSource, OpaqueSource, TopicEnd

OURS = SourceInfo(None, "0", True)
FILES = SourceInfo(None, "0", False)
NAMED_FILES = SourceInfo("files", "files", False)


def text(began: Mapping[int, int], end: Mapping[int, int], *, topic: str = "in", id: str = "t") -> str:
    return dump(SourceOffset("c", {topic: TopicOffset(id, began, end)}))


def at(ends: dict[int, int], *, topic: str = "in", id: str = "t", name: str | None = None) -> KafkaSource:
    return KafkaSource("c", {topic: TopicEnd(id, ends)}, name)


def test_batch_0_starts_where_its_end_says_that_it_began() -> None:
    assert source_batch(OURS, 0, None, text({0: 5}, {0: 9})) == SourceBatch(None, at({0: 5}), at({0: 9}), at({0: 5}))


def test_later_batch_starts_at_the_end_before() -> None:
    found = source_batch(OURS, 7, text({0: 5}, {0: 9}), text({0: 5}, {0: 12}))
    assert found == SourceBatch(None, at({0: 9}), at({0: 12}), at({0: 5}))


def test_partition_that_the_end_before_lacks_starts_where_it_began() -> None:
    found = source_batch(OURS, 7, text({0: 5}, {0: 9}), text({0: 5, 1: 3}, {0: 12, 1: 30}))
    assert found.start == at({0: 9, 1: 3})


def test_topic_that_the_end_before_lacks_starts_where_it_began() -> None:
    both = dump(SourceOffset("c", {"in": TopicOffset("t", {0: 5}, {0: 9}), "new": TopicOffset("n", {0: 1}, {0: 2})}))
    found = source_batch(OURS, 7, text({0: 5}, {0: 9}), both)
    assert found.start == KafkaSource("c", {"in": TopicEnd("t", {0: 9}), "new": TopicEnd("n", {0: 1})})


def test_partition_or_topic_that_only_the_end_before_has_is_kept_in_the_start() -> None:
    found = source_batch(OURS, 7, text({0: 5, 1: 0}, {0: 9, 1: 4}), text({0: 5}, {0: 12}))
    assert found.start == at({0: 9, 1: 4})
    found = source_batch(OURS, 7, text({0: 5}, {0: 9}, topic="old"), text({0: 5}, {0: 12}))
    assert isinstance(found.start, KafkaSource)
    assert found.start.topics == {"old": TopicEnd("t", {0: 9}), "in": TopicEnd("t", {0: 5})}


def test_topic_created_again_keeps_its_old_id_in_the_start() -> None:
    found = source_batch(OURS, 7, text({0: 5}, {0: 9}, id="old"), text({0: 0}, {0: 2}, id="new"))
    assert (found.start, found.end) == (at({0: 9}, id="old"), at({0: 2}, id="new"))


def test_new_source_of_ours_starts_where_it_began_in_any_batch() -> None:
    info = SourceInfo("two", "two", True)
    found = source_batch(info, 7, None, text({0: 5}, {0: 9}))
    assert found.start == found.began == at({0: 5}, name="two")


def test_sources_that_are_not_ours_are_their_text() -> None:
    assert source_batch(FILES, 7, "a", "b") == SourceBatch(None, OpaqueSource("a"), OpaqueSource("b"), None)
    assert source_batch(FILES, 0, None, "b") == SourceBatch(None, None, OpaqueSource("b"), None)
    assert source_batch(NAMED_FILES, 7, "a", "b") == SourceBatch(
        "files", OpaqueSource("a", "files"), OpaqueSource("b", "files"), None
    )


def test_source_without_an_offset_keeps_its_position_and_one_with_a_name_is_not_there() -> None:
    assert source_batch(FILES, 7, None, None) == SourceBatch(None, OpaqueSource("-"), OpaqueSource("-"), None)
    assert source_batch(FILES, 0, None, None) == SourceBatch(None, None, OpaqueSource("-"), None)
    assert source_batch(NAMED_FILES, 7, None, None) == SourceBatch("files", None, None, None)
    assert source_batch(SourceInfo("two", "two", True), 7, None, None) == SourceBatch("two", None, None, None)


def test_text_that_is_not_ours_names_the_entry() -> None:
    with pytest.raises(DataLoss, match="offsets/7"):
        source_batch(OURS, 7, text({0: 5}, {0: 9}), "{}")
    with pytest.raises(DataLoss, match="offsets/6"):
        source_batch(OURS, 7, "{}", text({0: 5}, {0: 9}))
