"""Headers, timestamps of sources, the clock and named nodes in random topologies, beside Kafka Streams' answers."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.streams.nodes.sources import TimestampExtraction
from semel.streams.topology.record_order import RecordOrder
from tests.streams.oracle.answers import NEW, differing, driven, kept
from tests.streams.oracle.cases import case

CASES = list(kept(NEW))
PARTS = 10
#: Three repartition topics of one task get records of equal time: which comes first is not promised.
EQUAL_TIMES = {182}
#: Steps of which there must be many.
WORDS = (("op", "named"), ("kind", "clock"))


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "semel.streams")  # random records are dropped by the hundred


def test_kafka_streams_answers_the_same_whatever_the_batches() -> None:
    assert len(CASES) == 1_000
    steps = [step for one in CASES for step in one["steps"]]
    assert sum("extractor" in step for step in steps) > 150
    assert min(sum(step[key] == value for step in steps if key in step) for key, value in WORDS) > 150
    assert differing(CASES, range(0, len(CASES), PARTS), 12) == set()


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(1, PARTS))
def test_kafka_streams_answers_the_same_in_all_cases(part: int) -> None:
    assert differing(CASES, range(part, len(CASES), PARTS), 12) <= EQUAL_TIMES


def test_control_other_timestamps_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimestampExtraction, "__call__", lambda _, rows: rows)
    assert len(differing(CASES, range(60), 12)) > 5


def test_control_without_headers_there_are_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.streams.testing.header_pairs", lambda _: ())
    assert len(differing(CASES, range(30), 12)) > 5


def test_control_whole_batches_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordOrder, "of", lambda _: RecordOrder(frozenset(), frozenset()))
    assert len(differing(CASES, range(120), 12)) > 5


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(10_000, 1_000_000), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_any_cut_is_a_record_at_a_time(seed: int, cuts: list[int]) -> None:
    asked = case(seed, "new")
    assert driven(asked, cuts) == driven(asked) == driven(asked, [len(asked["records"])])
