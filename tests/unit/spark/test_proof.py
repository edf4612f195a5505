"""What counts as computed twice, by what Spark keeps of its jobs. Jobs and stages are written here as Spark showed them."""

from __future__ import annotations

import pytest

from semel.errors import AbortAndRetry
from semel.spark.facts import Job, Stage
from semel.spark.proof import STALE, Told, refuse_computed_twice

BASE, LEFT, RIGHT, LAST, OTHER = (frozenset(rdds) for rdds in ({1, 2}, {3, 4}, {5, 6}, {7, 8}, {40}))
TAG, TRY_BEFORE, OTHER_SINK = "semel-write-1-1", "semel-write-1-0", "semel-write-2-0"


def job(number: int, *stages: Stage, tag: str | None = TAG, succeeded: bool = True) -> Told:
    """A job of the attempt, or with another tag or none in front of it."""
    completed = [stage for stage in stages if stage.completed]
    tasks = sum(stage.completed for stage in completed)
    tags = frozenset({"spark's own", tag} if tag else {"spark's own"})
    return Job(number, False, succeeded, tuple(stage.id for stage in stages), len(completed), 0, tasks, 0, tags), list(stages)


def ran(id: int, rdds: frozenset[int], attempt: int = 0, tasks: int = 4) -> Stage:
    return Stage(id, attempt, tasks, tasks, 0, rdds)


def done(id: int, rdds: frozenset[int]) -> Stage:
    """A stage that Spark has found done."""
    return Stage(id, 0, 4, 0, 0, rdds)


def refused(told: list[Told], *, micro_batch: bool = True) -> str:
    with pytest.raises(AbortAndRetry) as caught:
        refuse_computed_twice(told, TAG, micro_batch=micro_batch)
    return str(caught.value)


def accepted(told: list[Told]) -> None:
    refuse_computed_twice(told, TAG, micro_batch=True)


def in_front(told: list[Told], tag: str | None = None) -> list[Told]:
    return [job(each.id, *stages, tag=tag) for each, stages in told]


#: One shuffle that two branches share, a job for each stage, as with adaptive execution.
ADAPTIVE = [
    job(0, ran(0, BASE)),
    job(1, done(1, BASE), ran(2, LEFT)),
    job(2, done(3, BASE), ran(4, RIGHT)),
    job(3, done(5, BASE), done(6, LEFT), done(7, RIGHT), ran(8, LAST)),
]
ONE_JOB = [job(0, ran(0, BASE), ran(1, LEFT), ran(2, RIGHT), ran(3, LAST))]
#: What reads all of it, behind those.
READS = job(9, done(20, BASE), done(21, LEFT), done(22, RIGHT), ran(23, LAST))


@pytest.mark.parametrize("told", [ADAPTIVE, ONE_JOB, [], [*in_front(ADAPTIVE), READS]], ids=["adaptive", "one job", "none", "in front"])
def test_each_stage_once(told: list[Told]) -> None:
    accepted(told)


def test_two_shuffles_of_one_rdd_in_one_job() -> None:
    accepted([job(0, ran(0, BASE), ran(1, BASE), ran(2, LAST))])


def test_a_stage_that_two_jobs_wait_for_at_once() -> None:
    shared = ran(0, BASE)
    accepted([job(0, shared, ran(1, LEFT)), job(1, shared, ran(2, RIGHT))])


def test_cached_rows_that_two_jobs_look_at() -> None:
    """Each of two scans of one cached DataFrame has a job of its own over the same RDDs, which reads no shuffle twice."""
    accepted([job(0, done(0, BASE), ran(1, LEFT)), job(1, done(0, BASE), ran(2, LEFT)), job(2, done(3, BASE), ran(4, LAST))])


def test_a_second_attempt_of_any_stage() -> None:
    assert "stage 1 in front of the writing one ran again" in refused([job(0, ran(0, BASE), ran(1, LEFT, attempt=1), ran(2, LAST))])


def test_a_later_job_that_computes_the_same_in_a_stage_of_its_own() -> None:
    again = [*ADAPTIVE[:3], job(3, ran(5, BASE, tasks=2), ran(6, LEFT, tasks=2), done(7, RIGHT), ran(8, LAST))]
    assert "stage 5 has computed again" in refused(again)


def test_a_later_job_that_computes_what_an_earlier_one_has_found_done() -> None:
    """The earlier one has read it: what was there before the attempt, and was lost between the two."""
    told = [job(3, ran(8, BASE), tag=None), job(4, done(9, BASE), ran(10, LEFT)), job(5, ran(11, BASE, tasks=2), ran(12, RIGHT))]
    message = refused(told)
    assert "UNPROVEN" in message
    assert "stage 11 has computed again" in message


#: A shuffle of which the second branch has computed a part again.
TWICE = [*ADAPTIVE[:2], job(2, ran(3, BASE, tasks=2), ran(4, RIGHT))]


@pytest.mark.parametrize(
    "front",
    [
        in_front(TWICE),
        in_front(TWICE, TRY_BEFORE),
        [*in_front(ADAPTIVE[:1]), *in_front(TWICE[1:], TRY_BEFORE)],
        in_front([*ADAPTIVE[:2], job(2, ran(3, BASE, attempt=1), ran(4, RIGHT))]),
        in_front([job(0, ran(0, BASE, attempt=1), ran(1, LEFT, attempt=1))]),
        [job(0, ran(0, BASE), ran(1, LEFT), tag=TRY_BEFORE), job(1, ran(2, BASE, attempt=1), ran(3, LEFT), tag=TRY_BEFORE, succeeded=False)],
        in_front([*ADAPTIVE[:1], job(1, done(1, BASE), ran(2, OTHER)), job(2, ran(3, BASE, tasks=1), ran(4, LEFT))]),
    ],
    ids=["two branches", "the try before", "from both", "while it was read", "in one job", "a try that failed", "the small side of a join"],
)
def test_what_was_of_two_computations_before_the_attempt(front: list[Told]) -> None:
    message = refused([*front, READS])
    assert STALE in message
    assert "Start a new run" in message


#: What another attempt of a sink has read is used by nobody, and neither is what it made of it.
WROTE = job(3, done(5, BASE), ran(6, OTHER), tag=TRY_BEFORE)


@pytest.mark.parametrize(
    "told",
    [
        [*in_front(ADAPTIVE[:1]), job(3, ran(5, BASE, tasks=2), tag=None), job(4, done(6, BASE), ran(7, LAST))],
        [job(0, ran(0, BASE, attempt=1), tag=None), job(4, done(6, BASE), ran(7, LAST))],
        [*in_front(ADAPTIVE[:1]), WROTE, job(4, ran(7, BASE, tasks=2), tag=TRY_BEFORE), job(5, done(8, BASE), ran(9, LAST))],
        [
            *in_front(ADAPTIVE[:1]),
            job(3, ran(5, BASE, tasks=2), ran(6, OTHER, attempt=1), tag=OTHER_SINK),
            job(5, done(8, BASE), ran(9, LAST)),
        ],
        [*in_front(ADAPTIVE), job(8, ran(15, frozenset({20, 21})), ran(16, frozenset({22}), attempt=1), tag=None), READS],
        [*in_front(ADAPTIVE[:2]), job(7, done(11, BASE), ran(12, LEFT, attempt=1), tag=None), job(8, done(13, BASE), done(14, LEFT), ran(15, LAST))],
    ],
    ids=["read once it was whole", "lost while it was made", "read by the try before", "read by another sink", "used by nobody", "its last part"],
)
def test_what_was_computed_again_in_front_and_does_no_harm(told: list[Told]) -> None:
    accepted(told)


def test_what_was_made_in_front_and_is_computed_again_where_it_is_read() -> None:
    """Whether it was read when it was lost cannot be told: the batch is run again, and then it can."""
    told = [*in_front(ADAPTIVE[:1]), job(3, ran(5, BASE, tasks=2), ran(6, LAST))]
    assert "UNPROVEN" in refused(told)
    accepted([*in_front(told, TRY_BEFORE)[1:], job(4, done(7, BASE), ran(8, OTHER))])


def test_what_was_broadcast_is_in_no_lineage() -> None:
    """Both sides that were read go through the driver; so do rows that were checkpointed. In front of a batch job the same may be anybody's."""
    told = [*in_front(TWICE), job(9, ran(20, LAST))]
    assert STALE in refused(told)
    refuse_computed_twice(told, TAG, micro_batch=False)
    assert STALE in refused([*in_front(TWICE), READS], micro_batch=False)
