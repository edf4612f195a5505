"""The words of the second release in random topologies, beside what Kafka Streams' own test driver answered."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.streams.nodes.waiting import Waiting
from semel.streams.topology.record_order import RecordOrder
from tests.streams.oracle.answers import SECOND, differing, driven, kept, of_inputs_together
from tests.streams.oracle.cases import case

CASES = list(kept(SECOND))
PARTS = 10


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "semel.streams")  # random records are dropped by the hundred


def test_kafka_streams_answers_the_same_whatever_the_batches() -> None:
    assert len(CASES) == 1_000
    assert differing(CASES, range(0, len(CASES), PARTS), 12) == set()


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(1, PARTS))
def test_kafka_streams_answers_the_same_in_all_cases(part: int) -> None:
    assert differing(CASES, range(part, len(CASES), PARTS), 12) == set()


@pytest.mark.exhaustive
def test_kafka_streams_answers_the_same_record_by_record() -> None:
    assert differing(CASES, range(3, len(CASES), PARTS), 1) == set()


def test_control_joins_that_forget_who_waits_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Waiting, "closed", lambda *_, **__: [])
    assert len(differing(CASES, range(60), 12)) > 5


def test_control_whole_batches_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordOrder, "of", lambda _: RecordOrder(frozenset(), frozenset()))
    assert len(differing(CASES, range(60), 12)) > 5


@pytest.mark.parametrize("seed", range(5, len(CASES), 40))
def test_kafka_streams_answers_the_same_where_inputs_come_together(seed: int) -> None:
    answers = of_inputs_together(CASES[seed])
    assert answers is None or answers[0] == answers[1]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(10_000, 1_000_000), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_any_cut_is_a_record_at_a_time(seed: int, cuts: list[int]) -> None:
    asked = case(seed, "second")
    assert driven(asked, cuts) == driven(asked) == driven(asked, [len(asked["records"])])
