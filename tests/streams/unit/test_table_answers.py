"""The words of tables in random topologies, beside what Kafka Streams' own test driver answered."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.streams.nodes.tables.old_values import OldValues
from semel.streams.topology.record_order import RecordOrder
from tests.streams.oracle.answers import TABLES, differing, driven, kept, of_inputs_together
from tests.streams.oracle.cases import case
from tests.streams.oracle.topologies import build

CASES = list(kept(TABLES))
PARTS = 8
#: Two repartition topics of one task get records of equal time: which comes first is not promised.
EQUAL_TIMES = {398, 914}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "semel.streams")  # random records are dropped by the hundred


def test_kafka_streams_answers_the_same_whatever_the_batches() -> None:
    assert len(CASES) == 1_000
    words = [step["op"] for one in CASES for step in one["steps"]]
    assert min(words.count(word) for word in ("table_filter", "table_filter_not", "table_fold", "table_join")) > 150
    assert differing(CASES, range(0, len(CASES), PARTS), 12) == set()


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(1, PARTS))
def test_kafka_streams_answers_the_same_in_all_cases(part: int) -> None:
    assert differing(CASES, range(part, len(CASES), PARTS), 12) <= EQUAL_TIMES


@pytest.mark.exhaustive
def test_kafka_streams_answers_the_same_record_by_record() -> None:
    assert differing(CASES, range(3, len(CASES), PARTS), 1) <= EQUAL_TIMES


def test_control_without_old_values_there_are_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(_: OldValues) -> None:
        """Ask for nothing."""

    monkeypatch.setattr("semel.streams.nodes.tables.values.OldValues.ask", forgets)
    with pytest.raises((KeyError, AssertionError)):
        assert len(differing(CASES, range(60), 12)) < 5


def test_control_whole_batches_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordOrder, "of", lambda _: RecordOrder(frozenset(), frozenset()))
    assert len(differing(CASES, range(120), 12)) > 5


@pytest.mark.parametrize("seed", range(5, len(CASES), 50))
def test_kafka_streams_answers_the_same_where_inputs_come_together(seed: int) -> None:
    answers = of_inputs_together(CASES[seed])
    assert answers is None or answers[0] == answers[1]


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["k0", "k1"]), st.none() | st.integers(0, 9))),
    kind=st.sampled_from(["join", "left_join", "outer_join"]),
)
def test_two_tables_whose_rows_alternate_meet_by_their_keys(rows: list[tuple[str, str, int | None]], kind: str) -> None:
    steps = [{"op": "table", "id": number, "topic": topic, "name": topic} for number, topic in enumerate("ab")]
    steps += [
        {"op": "table_join", "id": 2, "of": 0, "with": 1, "kind": kind},
        {"op": "table_filter", "id": 3, "of": 2, "n": 2, "is": 0},
        {"op": "to_stream", "id": 4, "of": 3},
        {"op": "to", "of": 4, "name": "out"},
    ]
    asked = {"steps": steps, "records": [[*row, number + 1] for number, row in enumerate(rows)]}
    (part,) = build(steps).topology.sub_topologies()
    assert RecordOrder.of(part.nodes).joining
    assert driven(asked, [7, 25], together=True) == driven(asked)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(10_000, 1_000_000), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_any_cut_is_a_record_at_a_time(seed: int, cuts: list[int]) -> None:
    asked = case(seed, "tables")
    assert driven(asked, cuts) == driven(asked) == driven(asked, [len(asked["records"])])
