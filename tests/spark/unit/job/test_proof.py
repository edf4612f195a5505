"""What counts as computed twice, by what Spark keeps of its jobs.

Jobs and stages are written here as Spark showed them.
"""

from __future__ import annotations

import pytest

from semel.errors import AbortAndRetry
from semel.spark.job.proof import STALE, JobWithStages, check_computed_once
from semel.spark.jvm.values import Job, Stage

BASE, LEFT, RIGHT, LAST, OTHER = (2, 4, 6, 8, 40)
TAG, TRY_BEFORE, OTHER_SINK = "semel-write-1-1", "semel-write-1-0", "semel-write-2-0"


def job(number: int, *stages: Stage, tag: str | None = TAG, succeeded: bool = True) -> JobWithStages:
    """A job of the attempt, or with another tag or none in front of it."""
    completed = [stage for stage in stages if stage.completed]
    tasks = sum(stage.completed for stage in completed)
    tags = frozenset({"spark's own", tag} if tag else {"spark's own"})
    return Job(number, False, succeeded, tuple(stage.id for stage in stages), len(completed), 0, tasks, 0, tags), list(
        stages
    )


def ran(id: int, rdd: int, attempt: int = 0, tasks: int = 4) -> Stage:
    """One that writes a shuffle, but for what answers the job."""
    return Stage(id, attempt, tasks, tasks, 0, rdd, 0 if rdd == LAST else 10)


def done(id: int, rdd: int) -> Stage:
    """A stage that Spark has found done."""
    return Stage(id, 0, 4, 0, 0, rdd, 0)


def forgotten(id: int) -> Stage:
    return Stage(id, 0, 0, 0, 0, -1, 0)


def refused(told: list[JobWithStages], *, micro_batch: bool = True, kept: int = -1) -> str:
    with pytest.raises(AbortAndRetry) as caught:
        check_computed_once(told, TAG, micro_batch=micro_batch, kept=lambda: kept)
    return str(caught.value)


def accepted(told: list[JobWithStages], *, micro_batch: bool = True, kept: int = -1) -> None:
    check_computed_once(told, TAG, micro_batch=micro_batch, kept=lambda: kept)


def in_front(told: list[JobWithStages], tag: str | None = None) -> list[JobWithStages]:
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


@pytest.mark.parametrize(
    "told", [ADAPTIVE, ONE_JOB, [], [*in_front(ADAPTIVE), READS]], ids=["adaptive", "one job", "none", "in front"]
)
def test_each_stage_once(told: list[JobWithStages]) -> None:
    accepted(told)


def test_two_shuffles_of_one_rdd_in_one_job() -> None:
    accepted([job(0, ran(0, BASE), ran(1, BASE), ran(2, LAST))])


def test_a_stage_that_two_jobs_wait_for_at_once() -> None:
    shared = ran(0, BASE)
    accepted([job(0, shared, ran(1, LEFT)), job(1, shared, ran(2, RIGHT))])


def test_cached_rows_that_two_jobs_look_at() -> None:
    """Each of two scans of one cached DataFrame has a job of its own over the same RDDs, which reads no shuffle
    twice.
    """
    accepted(
        [job(0, done(0, BASE), ran(1, LEFT)), job(1, done(0, BASE), ran(2, LEFT)), job(2, done(3, BASE), ran(4, LAST))]
    )


def test_a_second_attempt_of_any_stage() -> None:
    assert "stage 1, before the writing one, ran again" in refused(
        [job(0, ran(0, BASE), ran(1, LEFT, attempt=1), ran(2, LAST))]
    )


def test_a_later_job_that_computes_the_same_in_a_stage_of_its_own() -> None:
    again = [*ADAPTIVE[:3], job(3, ran(5, BASE, tasks=2), ran(6, LEFT, tasks=2), done(7, RIGHT), ran(8, LAST))]
    assert "stage 5 has computed again" in refused(again)


def test_a_later_job_that_computes_what_an_earlier_one_has_found_done() -> None:
    """The earlier one has read it: what was there before the attempt, and was lost between the two."""
    told = [
        job(3, ran(8, BASE), tag=None),
        job(4, done(9, BASE), ran(10, LEFT)),
        job(5, ran(11, BASE, tasks=2), ran(12, RIGHT)),
    ]
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
        [
            job(0, ran(0, BASE), ran(1, LEFT), tag=TRY_BEFORE),
            job(1, ran(2, BASE, attempt=1), ran(3, LEFT), tag=TRY_BEFORE, succeeded=False),
        ],
        in_front([*ADAPTIVE[:1], job(1, done(1, BASE), ran(2, OTHER)), job(2, ran(3, BASE, tasks=1), ran(4, LEFT))]),
    ],
    ids=[
        "two branches",
        "the try before",
        "from both",
        "while it was read",
        "in one job",
        "a try that failed",
        "the small side of a join",
    ],
)
def test_what_was_of_two_computations_before_the_attempt(front: list[JobWithStages]) -> None:
    message = refused([*front, READS])
    assert STALE in message
    assert "restart the query (keep_running does)" in message


#: What another attempt of a sink has read is used by nobody, and neither is what it made of it.
WROTE = job(3, done(5, BASE), ran(6, OTHER), tag=TRY_BEFORE)


@pytest.mark.parametrize(
    "told",
    [
        [*in_front(ADAPTIVE[:1]), job(3, ran(5, BASE, tasks=2), tag=None), job(4, done(6, BASE), ran(7, LAST))],
        [job(0, ran(0, BASE, attempt=1), tag=None), job(4, done(6, BASE), ran(7, LAST))],
        [
            *in_front(ADAPTIVE[:1]),
            WROTE,
            job(4, ran(7, BASE, tasks=2), tag=TRY_BEFORE),
            job(5, done(8, BASE), ran(9, LAST)),
        ],
        [
            *in_front(ADAPTIVE[:1]),
            job(3, ran(5, BASE, tasks=2), ran(6, OTHER, attempt=1), tag=OTHER_SINK),
            job(5, done(8, BASE), ran(9, LAST)),
        ],
        [*in_front(ADAPTIVE), job(8, ran(15, 21), ran(16, 22, attempt=1), tag=None), READS],
        [
            *in_front(ADAPTIVE[:2]),
            job(7, done(11, BASE), ran(12, LEFT, attempt=1), tag=None),
            job(8, done(13, BASE), done(14, LEFT), ran(15, LAST)),
        ],
    ],
    ids=[
        "read once it was whole",
        "lost while it was made",
        "read by the try before",
        "read by another sink",
        "used by nobody",
        "its last part",
    ],
)
def test_what_was_computed_again_in_front_and_does_no_harm(told: list[JobWithStages]) -> None:
    accepted(told)


def test_what_was_made_in_front_and_is_computed_again_where_it_is_read() -> None:
    """Whether it was read when it was lost cannot be told: the batch is run again, and then it can."""
    told = [*in_front(ADAPTIVE[:1]), job(3, ran(5, BASE, tasks=2), ran(6, LAST))]
    assert "UNPROVEN" in refused(told)
    accepted([*in_front(told, TRY_BEFORE)[1:], job(4, done(7, BASE), ran(8, OTHER))])


def test_what_was_broadcast_is_in_no_lineage() -> None:
    """Both sides that were read go through the driver; so do rows that were checkpointed.

    In front of a batch job the same may be anybody's.
    """
    told = [*in_front(TWICE), job(9, ran(20, LAST))]
    assert STALE in refused(told)
    accepted(told, micro_batch=False)
    assert STALE in refused([*in_front(TWICE), READS], micro_batch=False)


def _two_shuffles_of_rdds(tag: str | None) -> list[JobWithStages]:
    """One of them is lost while the other is made of it.

    What is behind it in the same job is checkpointed by the next, as RDD 9.
    """
    first = job(0, ran(0, BASE, attempt=1), ran(1, LEFT, attempt=1), ran(2, LAST), tag=tag, succeeded=tag is None)
    return [first, job(1, done(3, BASE), done(4, LEFT), ran(5, LAST), tag=tag)]


FROM_IT = job(4, ran(9, 10))


@pytest.mark.parametrize("micro_batch", [True, False], ids=["micro-batch", "batch job"])
def test_a_checkpoint_that_a_refused_try_has_written_cuts_the_lineage(micro_batch: bool) -> None:
    told = [*_two_shuffles_of_rdds(TRY_BEFORE), FROM_IT]
    assert STALE in refused(told, micro_batch=micro_batch, kept=9)
    # the control: without a checkpoint nothing of it can be used
    accepted(told, micro_batch=micro_batch)
    # one that is older than what was computed twice holds none of it
    accepted(told, micro_batch=micro_batch, kept=0)


def test_a_checkpoint_in_front_of_a_batch_job() -> None:
    told = [*_two_shuffles_of_rdds(None), FROM_IT]
    assert STALE in refused(told, micro_batch=False, kept=9)
    accepted(told, micro_batch=False)


@pytest.mark.parametrize("micro_batch", [True, False], ids=["micro-batch", "batch job"])
def test_cached_blocks_of_a_refused_try_hold_what_was_made_of_two_computations(micro_batch: bool) -> None:
    """No later job lists what has read the first one: its rows are in the blocks of RDD 20, which is newer than all
    that they were made of.
    """
    torn = job(0, ran(0, BASE, attempt=1), ran(1, 21), tag=TRY_BEFORE, succeeded=False)
    told = [torn, job(1, ran(5, 22), ran(6, 23))]
    assert STALE in refused(told, micro_batch=micro_batch, kept=20)
    accepted(told, micro_batch=micro_batch)  # the control: nothing is cached
    accepted(told, micro_batch=micro_batch, kept=1)


def test_checkpoints_are_looked_for_where_something_was_computed_twice() -> None:
    """It costs a call for each RDD."""

    def never() -> int:
        raise AssertionError("asked without need")

    for told in (ADAPTIVE, ONE_JOB, [job(0, ran(0, BASE, attempt=1), tag=None), job(4, done(6, BASE), ran(7, LAST))]):
        check_computed_once(told, TAG, micro_batch=True, kept=never)


#: In front of the call one branch is made of the shuffle, which is found done there; the try before computes a part of
#: it anew, and is refused.
COMPUTED_ANEW = [*in_front(ADAPTIVE[:2]), job(5, ran(10, BASE, tasks=1), tag=TRY_BEFORE)]
LISTS_ALL = job(9, done(20, BASE), done(21, LEFT), ran(23, LAST))


@pytest.mark.parametrize("micro_batch", [True, False], ids=["micro-batch", "batch job"])
def test_what_was_found_done_and_is_forgotten_may_have_been_any(micro_batch: bool) -> None:
    """Spark forgets those first, and without it nothing says that the first of two computations was read."""
    first, (one, (_, left)), again = COMPUTED_ANEW
    assert STALE in refused([*COMPUTED_ANEW, LISTS_ALL], micro_batch=micro_batch)
    assert STALE in refused([first, (one, [forgotten(1), left]), again, LISTS_ALL], micro_batch=micro_batch)
    accepted([first, (one, [left]), again, LISTS_ALL], micro_batch=micro_batch)  # the control: it is left out


def test_what_read_it_and_is_forgotten_has_read_it() -> None:
    first, (one, (found_done, _)), again = COMPUTED_ANEW
    assert STALE in refused([first, (one, [found_done, forgotten(2)]), again, LISTS_ALL])


def test_a_batch_job_that_lists_what_is_forgotten_may_be_made_of_any() -> None:
    own = job(9, forgotten(20), done(21, LEFT), ran(23, LAST))
    assert STALE in refused([*COMPUTED_ANEW, own], micro_batch=False)
    accepted([*COMPUTED_ANEW, job(9, done(21, LEFT), ran(23, LAST))], micro_batch=False)  # the control


def test_what_is_forgotten_is_no_matter_where_nothing_was_computed_twice() -> None:
    accepted(
        [
            (each, [forgotten(stage.id) if not stage.completed else stage for stage in stages])
            for each, stages in ADAPTIVE
        ]
    )


def test_a_shuffle_that_is_computed_again_without_a_row_is_one() -> None:
    first, (one, (_, left)), _ = COMPUTED_ANEW
    nothing = Stage(10, 0, 1, 1, 0, BASE, 0)
    assert STALE in refused(
        [first, (one, [forgotten(1), left]), job(5, nothing, ran(11, OTHER), tag=TRY_BEFORE), LISTS_ALL]
    )
    assert "UNPROVEN" in refused(
        [first, (one, [forgotten(1), left]), job(9, done(20, BASE), done(21, LEFT), nothing, ran(23, LAST))]
    )


def test_what_answers_a_job_again_is_not_what_was_found_done() -> None:
    """Each try of ``take`` answers with other parts of the same RDD."""
    tries = [job(2, ran(3, LAST, tasks=1), tag=None), job(3, ran(4, LAST), tag=None)]
    accepted([job(0, forgotten(0), ran(1, LEFT), tag=None), *tries, job(9, ran(23, RIGHT))])
