"""Random topologies and records, beside what Kafka Streams' own test driver answered (``make oracle-streams``)."""

from __future__ import annotations

import logging
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.streams.topology.record_order import RecordOrder
from semel.streams.worker import task
from tests.streams.oracle.answers import driven, judged, kept
from tests.streams.oracle.cases import case
from tests.streams.oracle.topologies import build

CASES = list(kept())
PARTS = 20
#: Cases with a punctuator, which have one sub-topology.
LATE = [one["seed"] for one in CASES if any(step.get("kind") == "tick" for step in one["steps"])]
#: Rows of one time in two repartition topics of a task: Kafka Streams promises no order of them, and semel none either.
TIES = {1982}
#: Cases with records of several topics, and streams that are merged or joined.
MERGED = [
    one["seed"]
    for one in CASES
    if len({row[0] for row in one["records"]}) > 1 and {"merge", "join"} & {step["op"] for step in one["steps"]}
]


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


def together(seed: int, cuts: list[int]) -> bool:
    """Return whether Kafka Streams' answer comes of slices of several topics."""
    parts = build(CASES[seed]["steps"]).topology.sub_topologies()
    if any(len(part.sources) > 1 and any(source.internal for source in part.sources) for part in parts):
        return True  # its repartition topics are read in between
    answers = [driven(CASES[seed], cuts, together=True), judged(CASES[seed])]
    if any(len(part.sources) > 1 and RecordOrder.of(part.nodes).by_key for part in parts):
        for answer in answers:  # rows of other keys may change places
            for rows in answer["topics"].values():
                rows.sort(key=lambda row: row[0] or "")
    return answers[0] == answers[1]


@pytest.mark.parametrize("part", range(5))
def test_kafka_streams_answers_the_same_where_inputs_come_together(part: int) -> None:
    assert [seed for seed in MERGED[part::5] if not together(seed, [7, 25])] == []


def test_control_inputs_that_meet_in_another_order_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "in_order", lambda _, batches: [one for one in batches if one.num_rows])
    assert sum(not together(seed, [7, 25]) for seed in MERGED[::2]) > 2


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
