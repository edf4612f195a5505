"""Random topologies and records, beside what Kafka Streams' own test driver answered (``make oracle-streams``)."""

from __future__ import annotations

import logging
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.streams.topology.record_order import RecordOrder
from tests.streams.oracle.answers import driven, judged, kept
from tests.streams.oracle.cases import case

CASES = list(kept())
PARTS = 20
#: Cases with a punctuator, which have one sub-topology.
LATE = [one["seed"] for one in CASES if any(step.get("kind") == "tick" for step in one["steps"])]
#: Rows of one time in two repartition topics of a task: Kafka Streams promises no order of them, and semel none either.
TIES = {1982}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "semel.streams")  # random records are dropped by the hundred


def differing(seeds: list[int], most: int) -> list[int]:
    """Return the cases that have another answer, with records in batches of up to ``most``."""
    found = []
    for seed in seeds:
        draw = random.Random(seed)
        if driven(CASES[seed], [draw.randint(1, most) for _ in range(8)]) != judged(CASES[seed]):
            found.append(seed)
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_kafka_streams_answers_the_same_whatever_the_batches(part: int) -> None:
    assert len(CASES) == 2_000
    assert set(differing(list(range(part, len(CASES), PARTS)), 12)) <= TIES


def test_kafka_streams_answers_the_same_record_by_record() -> None:
    assert set(differing(list(range(0, len(CASES), 20)), 1)) <= TIES


def test_control_whole_batches_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordOrder, "of", lambda _: RecordOrder(frozenset(), frozenset()))
    assert len(differing(list(range(200)), 12)) > 5


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(10_000, 1_000_000), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_any_cut_is_a_record_at_a_time(seed: int, cuts: list[int]) -> None:
    asked = case(seed)
    assert driven(asked, cuts) == driven(asked) == driven(asked, [len(asked["records"])])


@settings(max_examples=40, deadline=None)
@given(seed=st.sampled_from(LATE), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_any_cut_is_a_record_at_a_time_where_processors_schedule_while_they_process(seed: int, cuts: list[int]) -> None:
    late = [{**step, "kind": "late"} if step.get("kind") == "tick" else step for step in CASES[seed]["steps"]]
    asked = {**CASES[seed], "steps": late}
    assert driven(asked, cuts) == driven(asked) == driven(asked, [len(asked["records"])])
