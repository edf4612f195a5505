"""Versioned tables and stores in random topologies, beside what Kafka Streams' own test driver answered."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.streams.state.versions import Versions
from semel.streams.topology.record_order import RecordOrder
from tests.streams.oracle.answers import VERSIONS, differing, driven, kept, of_inputs_together
from tests.streams.oracle.cases import case

CASES = list(kept(VERSIONS))
PARTS = 10


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "semel.streams")  # random records are dropped by the hundred


def test_kafka_streams_answers_the_same_whatever_the_batches() -> None:
    steps = [step["op"] for one in CASES for step in one["steps"]]
    joins = [
        step
        for one in CASES
        for step in one["steps"]
        if step["op"].endswith("join")
        and step.get("table") in {s["id"] for s in one["steps"] if s["op"] == "versioned"}
    ]
    assert len(joins) > 50
    assert steps.count("versions") > 50
    assert differing(CASES, range(0, len(CASES), PARTS), 12) == set()


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(1, PARTS))
def test_kafka_streams_answers_the_same_in_all_cases(part: int) -> None:
    assert differing(CASES, range(part, len(CASES), PARTS), 12) == set()


def test_control_without_times_there_are_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    find = Versions.find
    monkeypatch.setattr(Versions, "find", lambda self, keys, as_of: find(self, keys, [None] * len(keys)))
    assert len(differing(CASES, range(60), 12)) > 5


def test_control_whole_batches_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordOrder, "of", lambda _: RecordOrder(frozenset(), frozenset()))
    assert len(differing(CASES, range(100), 12)) > 5


@pytest.mark.parametrize("seed", range(5, len(CASES), 20))
def test_kafka_streams_answers_the_same_where_inputs_come_together(seed: int) -> None:
    answers = of_inputs_together(CASES[seed])
    assert answers is None or answers[0] == answers[1]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(10_000, 1_000_000), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_any_cut_is_a_record_at_a_time(seed: int, cuts: list[int]) -> None:
    asked = case(seed, "versions")
    assert driven(asked, cuts) == driven(asked) == driven(asked, [len(asked["records"])])
