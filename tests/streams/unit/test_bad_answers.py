"""Bad records in random topologies, beside what Kafka Streams' own test driver answered: output, stores and letters."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.streams.state.state_store import StateStore
from tests.streams.oracle.answers import BAD, driven, judged, kept
from tests.streams.oracle.cases import Case, case
from tests.streams.oracle.topologies import build

CASES = list(kept(BAD))
PARTS = 5


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "semel.streams")  # random records are dropped by the hundred


def differs(asked: Case, cuts: list[int]) -> bool:
    """Return whether a case has another answer. In batches, letters of one batch may come in another order.

    Kafka Streams forgets a record's bytes once a sink has written it: its letter has none then. Ours has them.
    """
    answer, judge = driven(asked, cuts), judged(asked)
    letters, theirs = (sorted(one["topics"].pop("dead", []), key=_place) for one in (answer, judge))
    for mine, their in zip(letters, theirs, strict=False):
        if their[:2] == [None, None]:
            mine[:2] = their[:2]
    return (answer, letters) != (judge, theirs)


def _place(letter: list[Any]) -> tuple[str, int]:
    return letter[3], int(letter[5])


def test_kafka_streams_answers_the_same() -> None:
    assert len(CASES) == 500
    assert sum(len(one["topics"].get("dead", ())) for one in CASES) > 1_000
    assert [seed for seed in range(0, len(CASES), PARTS) if differs(CASES[seed], [1])] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(1, PARTS))
def test_kafka_streams_answers_the_same_in_all_cases(part: int) -> None:
    assert [seed for seed in range(part, len(CASES), PARTS) if differs(CASES[seed], [1])] == []


def test_kafka_streams_answers_the_same_in_batches() -> None:
    found = []
    for seed in range(1, len(CASES), PARTS):
        draw = random.Random(seed)
        if differs(CASES[seed], [draw.randint(2, 12) for _ in range(8)]):
            found.append(seed)
    assert found == []


@pytest.mark.parametrize("seed", range(2, len(CASES), 20))
def test_letters_are_the_same_where_inputs_come_together(seed: int) -> None:
    parts = build(CASES[seed]["steps"]).topology.sub_topologies()
    if not any(len(part.sources) > 1 and any(source.internal for source in part.sources) for part in parts):
        answers = driven(CASES[seed], [7, 25], together=True), driven(CASES[seed])
        letters = [sorted(one["topics"].get("dead", []), key=str) for one in answers]
        assert (letters[0], answers[0]["changelogs"]) == (letters[1], answers[1]["changelogs"])


def test_control_state_that_is_not_taken_back_gives_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateStore, "mark", lambda _: lambda: None)
    assert sum(differs(CASES[seed], [12]) for seed in range(0, len(CASES), 2)) > 5


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(10_000, 1_000_000), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_any_cut_ends_in_the_same_state(seed: int, cuts: list[int]) -> None:
    asked = case(seed, "bad")
    answers = driven(asked, cuts), driven(asked)
    assert answers[0]["changelogs"] == answers[1]["changelogs"]
    letters = [sorted(one["topics"].get("dead", []), key=str) for one in answers]
    assert letters[0] == letters[1]
