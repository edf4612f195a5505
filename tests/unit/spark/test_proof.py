"""What counts as computed twice, by what Spark keeps of its jobs. Jobs and stages are written here as Spark showed them."""

from __future__ import annotations

import pytest

from semel.errors import AbortAndRetry
from semel.spark.facts import Job, Ran
from semel.spark.proof import STALE, refuse_computed_twice

BASE, LEFT, RIGHT, LAST = (frozenset(rdds) for rdds in ({1, 2}, {3, 4}, {5, 6}, {7, 8}))
Told = list[tuple[Job, list[Ran]]]


def job(number: int, *ran: Ran) -> tuple[Job, list[Ran]]:
    return Job(number, running=False, stages=tuple(one.stage for one in ran), completed=sum(one.completed > 0 for one in ran), failed=0), list(ran)


def done(stage: int, rdds: frozenset[int]) -> Ran:
    """A stage that Spark has found done."""
    return Ran(stage, 0, 0, rdds)


#: One shuffle that two branches share, a job for each stage, as with adaptive execution.
ADAPTIVE: Told = [
    job(0, Ran(0, 0, 4, BASE)),
    job(1, done(1, BASE), Ran(2, 0, 4, LEFT)),
    job(2, done(3, BASE), Ran(4, 0, 4, RIGHT)),
    job(3, done(5, BASE), done(6, LEFT), done(7, RIGHT), Ran(8, 0, 8, LAST)),
]
ONE_JOB: Told = [job(0, Ran(0, 0, 4, BASE), Ran(1, 0, 4, LEFT), Ran(2, 0, 4, RIGHT), Ran(3, 0, 8, LAST))]


@pytest.mark.parametrize("told", [ADAPTIVE, ONE_JOB, []], ids=["adaptive", "one job", "none"])
def test_each_stage_once(told: Told) -> None:
    refuse_computed_twice(told, set(), False)


def test_two_shuffles_of_one_rdd_in_one_job() -> None:
    refuse_computed_twice([job(0, Ran(0, 0, 4, BASE), Ran(1, 0, 4, BASE), Ran(2, 0, 2, LAST))], set(), False)


def test_a_stage_that_two_jobs_wait_for_at_once() -> None:
    shared = Ran(0, 0, 4, BASE)
    refuse_computed_twice([job(0, shared, Ran(1, 0, 4, LEFT)), job(1, shared, Ran(2, 0, 4, RIGHT))], set(), False)


def test_a_second_attempt_of_any_stage() -> None:
    with pytest.raises(AbortAndRetry, match=r"SEMEL_UNPROVEN.*stage 1 in front of the writing one ran again"):
        refuse_computed_twice([job(0, Ran(0, 0, 4, BASE), Ran(1, 1, 1, LEFT), Ran(2, 0, 8, LAST))], set(), False)


def test_a_later_job_that_computes_the_same_in_a_stage_of_its_own() -> None:
    again = [*ADAPTIVE[:3], job(3, Ran(5, 0, 2, BASE), Ran(6, 0, 2, LEFT), done(7, RIGHT), Ran(8, 0, 8, LAST))]
    with pytest.raises(AbortAndRetry, match=r"SEMEL_UNPROVEN.*stage 5 has computed again"):
        refuse_computed_twice(again, set(), False)


def test_a_later_job_that_computes_what_an_earlier_one_has_found_done() -> None:
    """The earlier one has read it: what was there before the attempt, and was lost between the two."""
    told = [job(4, done(9, BASE), Ran(10, 0, 4, LEFT)), job(5, Ran(11, 0, 2, BASE), Ran(12, 0, 4, RIGHT))]
    with pytest.raises(AbortAndRetry, match=r"SEMEL_UNPROVEN.*stage 11 has computed again"):
        refuse_computed_twice(told, {BASE}, False)


@pytest.mark.parametrize(
    ("told", "before", "lost"),
    [
        ([job(5, done(9, BASE), done(10, LEFT), Ran(11, 0, 8, LAST))], {BASE, LEFT}, True),
        ([job(5, Ran(9, 0, 1, BASE), done(10, LEFT), Ran(11, 0, 8, LAST))], {BASE, LEFT}, False),
    ],
    ids=["lost in the try before", "lost between the two"],
)
def test_what_the_try_before_has_left_and_lost_a_part_of(told: Told, before: set[frozenset[int]], lost: bool) -> None:
    with pytest.raises(AbortAndRetry, match=rf"SEMEL_{STALE}.*stages \[9, 10\]"):
        refuse_computed_twice(told, before, lost)


@pytest.mark.parametrize(
    ("told", "before", "lost"),
    [
        ([job(5, done(9, BASE), done(10, LEFT), Ran(11, 0, 8, LAST))], {BASE, LEFT}, False),
        ([job(5, Ran(9, 0, 1, BASE), Ran(11, 0, 8, LAST))], {BASE}, True),
        (ADAPTIVE, {frozenset({20, 21}), frozenset({22})}, True),
    ],
    ids=["nothing was lost", "one shuffle alone", "another try's"],
)
def test_what_the_try_before_has_left_and_does_no_harm(told: Told, before: set[frozenset[int]], lost: bool) -> None:
    refuse_computed_twice(told, before, lost)
