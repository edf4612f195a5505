"""The words of the third release in random topologies, beside what Kafka Streams' own test driver answered."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.streams.nodes.cogroup import CogroupFold
from semel.streams.topology.record_order import RecordOrder
from tests.streams.oracle.answers import THIRD, differing, driven, kept, of_inputs_together
from tests.streams.oracle.cases import case

CASES = list(kept(THIRD))
PARTS = 20
#: Several repartition topics of one task get records of equal time: which comes first is not promised.
EQUAL_TIMES = {160, 513}
#: A record meets a session that has closed: with the day that the judge keeps them it is found, and here it is not.
CLOSED_SESSIONS = {567, 585, 633, 989}
#: Words of which there must be many.
WORDS = ("cogroup", "global_join", "global_left_join", "foreign_join")


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "semel.streams")  # random records are dropped by the hundred


def test_kafka_streams_answers_the_same_whatever_the_batches() -> None:
    assert len(CASES) == 1_000
    steps = [step["op"] for one in CASES for step in one["steps"]]
    assert min(steps.count(word) for word in WORDS) > 100
    closing = [step for one in CASES for step in one["steps"] if step.get("close") and "windows" not in step]
    assert len(closing) > 100
    assert differing(CASES, range(0, len(CASES), PARTS), 12) <= EQUAL_TIMES | CLOSED_SESSIONS


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(1, PARTS))
def test_kafka_streams_answers_the_same_in_all_cases(part: int) -> None:
    assert differing(CASES, range(part, len(CASES), PARTS), 12) <= EQUAL_TIMES | CLOSED_SESSIONS


def test_control_groups_whose_functions_are_mixed_up_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CogroupFold._calls

    def first_function(fold: CogroupFold, rows: object) -> object:
        return ((record, fold._functions[0][0]) for record, _ in whole(fold, rows))

    monkeypatch.setattr(CogroupFold, "_calls", first_function)
    assert len(differing(CASES, range(40), 12)) > 5


def test_control_responses_to_earlier_values_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.streams.nodes.tables.foreign_join.value_hash", lambda _: bytes(16))
    assert len(differing(CASES, range(120), 12)) > 5


def test_control_whole_batches_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordOrder, "of", lambda _: RecordOrder(frozenset(), frozenset()))
    assert len(differing(CASES, range(60), 12)) > 5


@pytest.mark.parametrize("seed", range(5, len(CASES), 50))
def test_kafka_streams_answers_the_same_where_inputs_come_together(seed: int) -> None:
    answers = of_inputs_together(CASES[seed])
    assert answers is None or answers[0] == answers[1]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(10_000, 1_000_000), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_any_cut_is_a_record_at_a_time(seed: int, cuts: list[int]) -> None:
    asked = case(seed, "third")
    assert driven(asked, cuts) == driven(asked) == driven(asked, [len(asked["records"])])
