"""Every kind of damage is found, and a history without damage has none: a checker that cannot fail proves nothing."""

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Message

from semel.errors import ConfigError
from semel.testing.history import History, assert_exactly_once, check, compare, expect
from semel.testing.records import Field


def seen(rows: list[tuple[str, int, int]], topic: str = "out", **more: list[str]) -> pa.Table:
    """Rows of (id, partition, offset), as `read` gives them."""
    return pa.table(
        {
            "topic": pa.array([topic] * len(rows), pa.string()),
            "partition": pa.array([row[1] for row in rows], pa.int32()),
            "offset": pa.array([row[2] for row in rows], pa.int64()),
            "id": pa.array([row[0] for row in rows], pa.string()),
            **{name: pa.array(column, pa.string()) for name, column in more.items()},
        }
    )


def in_one_partition(ids: str) -> pa.Table:
    return seen([(each, 0, offset) for offset, each in enumerate(ids)])


def damage(history: History) -> dict[str, int]:
    kinds = ("lost", "duplicated", "unexpected", "reordered", "torn")
    return {kind: getattr(history, kind) for kind in kinds if getattr(history, kind)}


def test_an_undamaged_history_is_exact() -> None:
    history = compare(
        in_one_partition("abcdef"), seen([(each, 0, offset) for offset, each in enumerate("abcdef")], "in")
    )
    assert history.exact
    assert history.written == 6
    assert (history.lost, history.duplicated, history.unexpected, history.reordered, history.torn) == (0, 0, 0, 0, None)


@pytest.mark.parametrize(
    ("there", "found"),
    [
        ("abcdf", {"lost": 1}),
        ("", {"lost": 6}),
        ("abcdeff", {"duplicated": 1}),
        ("aabbabcdef", {"duplicated": 4}),
        ("abcdefz", {"unexpected": 1}),
        ("abcdefzz", {"unexpected": 2}),
        ("bacdef", {"reordered": 1}),
        ("fabcde", {"reordered": 5}),
        ("abcabcdef", {"duplicated": 3}),  # a replay in order is a duplicate, and not out of order as well
        ("abdcce", {"lost": 1, "duplicated": 1, "reordered": 1}),
    ],
)
def test_each_kind_of_damage_in_one_partition(there: str, found: dict[str, int]) -> None:
    history = compare(in_one_partition(there), seen([(each, 0, offset) for offset, each in enumerate("abcdef")], "in"))
    assert damage(history) == found
    assert not history.exact


def test_order_is_compared_for_each_pair_of_source_and_output_partition() -> None:
    source = seen([("a0", 0, 0), ("a1", 0, 1), ("a2", 0, 2), ("b0", 1, 0), ("b1", 1, 1)], "in")
    # rows of two source partitions may mix in any way, and nothing orders one output partition against another
    mixed = seen([("b0", 0, 0), ("a0", 0, 1), ("b1", 0, 2), ("a2", 0, 3), ("a1", 1, 0)])
    assert compare(mixed, source).exact
    swapped = seen([("b1", 0, 0), ("a0", 0, 1), ("b0", 0, 2), ("a1", 0, 3), ("a2", 1, 0)])
    history = compare(swapped, source)
    assert damage(history) == {"reordered": 1}
    assert history.examples["reordered"] == ["b0"]


def test_order_is_by_offset_and_not_by_the_order_in_which_partitions_happened_to_be_read() -> None:
    source = seen([("a", 0, 5), ("b", 0, 9), ("c", 0, 11)], "in")
    assert compare(seen([("c", 0, 7), ("a", 0, 1), ("b", 0, 3)]), source).exact
    assert compare(seen([("a", 0, 7), ("b", 0, 1), ("c", 0, 9)]), source).reordered == 1


def test_topics_of_one_name_prefix_are_not_one_partition() -> None:
    source = seen([("a", 0, 0), ("b", 0, 1)], "in")
    both = pa.concat_tables([seen([("b", 0, 0)], "out"), seen([("a", 0, 1)], "out-2")])
    assert compare(both, source).exact


def test_torn_batches_by_what_was_expected_of_them() -> None:
    batches = expect({1: ["a", "b"], 2: ["c", "d"], 3: ["e", "f"]})
    whole_or_not_there = compare(in_one_partition("abef"), batches)
    assert whole_or_not_there.torn == 0
    assert whole_or_not_there.lost == 2
    half = compare(in_one_partition("abcef"), batches)
    assert (half.torn, half.lost) == (1, 1)
    assert half.examples["torn"] == ["2"]


def test_a_duplicate_does_not_hide_that_a_batch_is_torn() -> None:
    assert compare(in_one_partition("aab"), expect({1: ["a", "x"], 2: ["b"]})).torn == 1


def test_torn_batches_by_the_size_that_records_carry() -> None:
    rows = [("a", 0, 0), ("b", 1, 0), ("c", 0, 1)]
    whole = seen(rows, batch=["7", "7", "8"], size=["2", "2", "1"])
    assert compare(whole, None).torn == 0
    half = seen([*rows, ("c", 1, 1)], batch=["7", "7", "8", "8"], size=["2", "2", "2", "2"])
    assert compare(half, None).torn == 1


def test_a_source_that_has_an_id_twice_wants_it_twice() -> None:
    source = seen([("a", 0, 0), ("a", 0, 1), ("b", 0, 2)], "in")
    assert compare(in_one_partition("aab"), source).exact
    assert damage(compare(in_one_partition("ab"), source)) == {"lost": 1}
    assert damage(compare(in_one_partition("aaab"), source)) == {"duplicated": 1}


def test_what_cannot_be_checked_is_none_and_the_table_says_so() -> None:
    history = compare(in_one_partition("aab"), None)
    assert (history.duplicated, history.lost, history.reordered, history.torn) == (1, None, None, None)
    assert not compare(in_one_partition("ab"), None).exact
    assert str(history).count("not checked") == 4


def test_the_table_shows_numbers_and_examples() -> None:
    text = str(compare(in_one_partition("abbz"), expect("abc")))
    assert "4 records seen by a read_committed reader" in text
    for row in ("lost", "duplicated", "unexpected"):
        line = next(line for line in text.splitlines() if f" {row} " in line)
        assert " 1 " in line
    assert " c " in text


def test_ids_are_compared_as_text() -> None:
    assert compare(in_one_partition("12"), expect([1, b"2"])).exact


def test_empty_against_empty_is_exact() -> None:
    assert compare(in_one_partition(""), expect([])).exact
    assert compare(seen([]), seen([], "in")).exact


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_is_counted_as_a_plain_count_would(seed: int) -> None:
    random = np.random.default_rng(seed)
    written = [f"{number}" for number in range(200)]
    kept = [each for each in written for _ in range(int(random.choice([0, 1, 1, 1, 2])))]
    partition = random.integers(0, 3, len(kept))
    rows = [(each, int(index), offset) for offset, (each, index) in enumerate(zip(kept, partition, strict=True))]
    random.shuffle(rows)
    history = compare(seen(rows), seen([(each, 0, offset) for offset, each in enumerate(written)], "in"))
    assert history.lost == len(set(written) - set(kept))
    assert history.duplicated == len(kept) - len(set(kept))
    assert history.reordered == 0


@pytest.mark.parametrize("seed", range(20))
def test_random_disorder_is_counted_as_a_loop_would(seed: int) -> None:
    random = np.random.default_rng(seed)
    source = [(f"{number}", int(random.integers(0, 4)), number) for number in range(300)]
    order = np.argsort(np.arange(300) + random.normal(0, 2, 300))
    rows = [(source[i][0], int(random.integers(0, 3)), offset) for offset, i in enumerate(order)]
    highest: dict[tuple[int, int], int] = {}
    behind = 0
    for name, partition, _ in rows:
        pair = (source[int(name)][1], partition)
        behind += int(name) < highest.get(pair, -1)
        highest[pair] = max(highest.get(pair, -1), int(name))
    assert behind > 0
    assert compare(seen(rows), seen(source, "in")).reordered == behind


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("key", "k\\xff"),
        ("value", '{"order": {"id": 7, "name": "n\u00f6"}, "x": null}'),
        ("header:batch", "12"),
        ("header:none", None),
        ("json:$.order.id", "7"),
        ("json:$.order.name", "n\u00f6"),
        ("json:$.x", None),
        ("json:$.x.y", None),
        ("json:$.nothing", None),
    ],
)
def test_a_field_is_found_where_it_was_said_to_be(place: str, text: str | None) -> None:
    value = '{"order": {"id": 7, "name": "n\u00f6"}, "x": null}'.encode()
    assert Field.parse(place).reader()(Message(key=b"k\xff", value=value, headers=[("batch", b"12")])) == text


def test_json_that_is_none_has_no_field() -> None:
    for value in (None, b"", b"{", b"7"):
        assert Field.parse("json:$.a").reader()(Message(value=value)) is None


@pytest.mark.parametrize("place", ["", "keys", "header:", "json:", "json:a", "json:$.", "json:$.a..b"])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(ConfigError, match="names no place in a record"):
        Field.parse(place)


def test_questions_without_an_answer_are_refused_before_anything_is_read() -> None:
    with pytest.raises(ConfigError, match="losses cannot be checked"):
        assert_exactly_once("127.0.0.1:1", "out")
    with pytest.raises(ConfigError, match="only one"):
        check("127.0.0.1:1", "out", expected=["a"], source="in")
    with pytest.raises(ConfigError, match="batch_size"):
        check("127.0.0.1:1", "out", batch_size="header:size")
