"""The offset JSON of our source: canonical, and refused where it is not ours."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError, DataLoss, Unsupported
from semel.spark.source_offset import SourceOffset, TopicOffset, as_dict, dump, initial, parse

CANONICAL = '{"cluster":"c","topics":{"in":{"began":{"0":5},"end":{"0":42},"id":"t"}},"v":2}'


def test_form_is_the_one_of_the_contract_with_sorted_keys_and_no_spaces() -> None:
    assert dump(SourceOffset("c", {"in": TopicOffset("t", {0: 5}, {0: 42})})) == CANONICAL


def test_initial_begins_where_it_ends_and_is_marked() -> None:
    offset = initial("c", {"in": ("t", {0: 5, 1: 0})})
    assert offset.topics["in"].began == offset.topics["in"].end == {0: 5, 1: 0}
    assert json.loads(dump(offset))["initial"] is True
    assert parse(dump(offset)) == offset
    assert "initial" not in as_dict(SourceOffset("c", {}))


def test_leader_epochs_are_those_that_are_known() -> None:
    offset = SourceOffset(
        "c", {"in": TopicOffset("t", {0: 5, 2: 0, 10: 0}, {0: 42, 2: 0, 10: 7}, epochs={10: 0, 2: 3})}
    )
    assert json.loads(dump(offset))["topics"]["in"]["epochs"] == {"10": 0, "2": 3}
    assert parse(dump(offset)) == offset
    assert parse(CANONICAL.replace('"v":2', '"v":1')) == parse(CANONICAL)


@pytest.mark.parametrize("epochs", [{"0": -1}, {"1": 0}, {"0": "2"}, {"0": 1.0}, [3], {"a": 1}])
def test_epochs_that_are_none_are_damage(epochs: object) -> None:
    value = json.loads(CANONICAL)
    value["topics"]["in"]["epochs"] = epochs
    with pytest.raises(DataLoss, match="OFFSETS_DAMAGED"):
        parse(json.dumps(value))


def test_began_and_end_of_initial_are_separate_objects() -> None:
    began = {0: 5}
    offset = initial("c", {"in": ("t", began)})
    began[0] = 6
    assert offset.topics["in"].began == offset.topics["in"].end == {0: 5}


PARTITIONS = st.dictionaries(st.integers(0, 1000), st.tuples(st.integers(0, 2**62), st.integers(0, 2**20)), max_size=12)
TOPICS = st.dictionaries(st.text(min_size=1, max_size=5), st.tuples(st.text(max_size=4), PARTITIONS), max_size=3)


@given(TOPICS, st.text(max_size=5))
def test_what_is_dumped_is_parsed_as_it_was(
    topics: dict[str, tuple[str, dict[int, tuple[int, int]]]], cluster: str
) -> None:
    offset = SourceOffset(
        cluster,
        {
            name: TopicOffset(
                id, {p: began for p, (began, _) in rows.items()}, {p: began + n for p, (began, n) in rows.items()}
            )
            for name, (id, rows) in topics.items()
        },
    )
    assert parse(dump(offset)) == offset
    assert parse(json.dumps(as_dict(offset), indent=1)) == offset, (
        "Spark prints a Python source's dictionary with its own spaces"
    )


@given(st.permutations(range(12)))
def test_text_does_not_depend_on_the_order_in_which_partitions_were_found(order: list[int]) -> None:
    found = dict.fromkeys(order, 3)
    offset = SourceOffset("c", {"in": TopicOffset("t", found, found)})
    other = SourceOffset("c", {"in": TopicOffset("t", dict(sorted(found.items())), dict(sorted(found.items())))})
    assert dump(offset) == dump(other)
    assert json.dumps(as_dict(offset)) == json.dumps(as_dict(other)), "the dictionary's own order is canonical too"


@pytest.mark.parametrize("change", [{"v": 3}, {"v": 0}, {"v": "1"}, {"v": None}, {"later": True}])
def test_other_versions_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(Unsupported, match="OFFSET_VERSION") as caught:
        parse(json.dumps({**json.loads(CANONICAL), **change}), "offsets/7")
    assert "offsets/7" in str(caught.value)


def test_an_offset_of_sparks_own_source_is_called_that() -> None:
    with pytest.raises(ConfigError, match=r"KAFKA_CHECKPOINT.*semel progress import"):
        parse('{"in":{"1":17,"0":23},"in-2":{"0":0}}')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        '{"logOffset":0}',
        '{"v":1}',
        '{"v":1,"cluster":1,"topics":{}}',
        '{"v":1,"cluster":"c","topics":[]}',
        '{"v":1,"cluster":"c","topics":{},"initial":1}',
        '{"v":1,"cluster":"c","topics":{"in":{"id":"t","end":{"0":1}}}}',
        '{"v":1,"cluster":"c","topics":{"in":{"id":"t","began":{"0":1},"end":{"1":1}}}}',
        '{"v":1,"cluster":"c","topics":{"in":{"id":"t","began":{"0":2},"end":{"0":1}}}}',
        '{"v":1,"cluster":"c","topics":{"in":{"id":"t","began":{"0":1},"end":{"0":1},"paused":[1]}}}',
        '{"v":1,"cluster":"c","topics":{"in":{"id":"t","began":{"0":-2},"end":{"0":1}}}}',
        '{"v":1,"cluster":"c","topics":{"in":{"id":"t","began":{"-1":0},"end":{"-1":1}}}}',
        '{"v":1,"cluster":"c","topics":{"in":{"id":"t","began":{"x":1},"end":{"x":1}}}}',
        '{"v":1,"cluster":"c","topics":{"in":{"id":"t","began":{"0":"1"},"end":{"0":"1"}}}}',
        '{"v":1,"cluster":"c","topics":{"in":{"id":"t","began":{"0":true},"end":{"0":true}}}}',
        '{"v":1,"cluster":"c","topics":{"in":{"id":7,"began":{"0":1},"end":{"0":1}}}}',
        '{"v":1,"cluster":"c","initial":true,"topics":{"in":{"id":"t","began":{"0":1},"end":{"0":2}}}}',
    ],
)
def test_what_is_not_ours_is_refused(text: str) -> None:
    with pytest.raises(DataLoss, match="OFFSETS_DAMAGED"):
        parse(text)
