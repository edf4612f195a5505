"""The proof that each row of a batch was computed once and written once (DESIGN rule 2, PROTOCOL 3.5; docs/decisions/0010).

Spark hides two things behind a job that ends well. A writing stage that ran again starts at task attempt 0 again, and the broker acknowledges a
repeated sequence that carries other rows. And where an executor is lost, what it held of a shuffle is computed anew: if that comes out otherwise than
the first time (a model, a request, ``uuid()``), what has read the one and what reads the other do not fit, and rows are there twice or not at all,
though each writing task has run once.

Both leave traces in what Spark keeps of its jobs, those among them that had made shuffles before the sink was called. Not promised: anything about
cached blocks, of which Spark keeps no such books; about what another job group computed; or about a job that Spark has forgotten before the batch is
done, since others have run a thousand in the meantime (``spark.ui.retainedJobs``).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from itertools import islice, takewhile
from zlib import crc32

from pyspark.sql import SparkSession

from semel.errors import AbortAndRetry
from semel.spark import internals
from semel.spark.facts import Job, Ran
from semel.transaction.ticket import Receipt
from semel.wire.deadline import Deadline

__all__ = ["STALE", "Attempt", "refuse_computed_twice"]

#: The tag of an attempt that would use what an earlier one has left in Spark: running it once more in the same call does not help.
STALE = "STALE_SHUFFLE"
_SECONDS = 10.0
#: So many jobs in front of an attempt are looked at: of a stateless query two or three have made its shuffles.
_LOOK_BACK = 100
_RDDs = frozenset[int]


class Attempt:
    """One attempt to write a batch under a ``prefix``: the Spark jobs that carry its ``tag``.

    ``before`` is what was computed before this attempt and by earlier ones of the same call (None for the first: it is looked for where it
    matters), and ``lost`` whether one of them may have lost an executor.
    """

    def __init__(self, spark: SparkSession, prefix: str, before: Collection[_RDDs] | None = None, *, lost: bool = False) -> None:
        self._prefix = prefix
        self._whose = f"semel-{crc32(prefix.encode()):08x}-"
        self.tag = f"{self._whose}{uuid.uuid4()}"
        self.before = before
        self.lost = lost
        self._spark = spark

    def prove(self, receipts: Sequence[Receipt]) -> None:
        """Raise :class:`AbortAndRetry` unless Spark confirms that the writing stage ran once, and that nothing in front of it was computed twice.

        The receipts are counted as well: an attempt that Spark killed is in none of its columns.
        """
        stage = _writing_stage(receipts)
        jobs = self._ended(stage)
        _prove_written(self._spark, stage, receipts)
        # with adaptive execution each stage has a job to itself: then the common case needs no look at the stages
        if self.before or not all(job.completed == 1 and not job.failed for job in jobs):
            told = [(job, [self._ran(stage) for stage in job.stages]) for job in jobs]
            refuse_computed_twice(told, self._computed_before(jobs), self.lost)

    def again(self, *, lost: bool) -> Attempt:
        """The next attempt of the same call. ``lost``: this one may have lost an executor, which holds for all that follow."""
        jobs = internals.jobs(self._spark, self.tag)
        # one that ended before it had a job has not looked either: the next one does
        before = {*self._computed_before(jobs), *self._computed(jobs)} if jobs else self.before
        return Attempt(self._spark, self._prefix, before, lost=self.lost or lost)

    def _computed_before(self, jobs: Sequence[Job]) -> Collection[_RDDs]:
        """With adaptive execution a stateless query has made its shuffles before it calls: in its run's jobs, behind those of the batch before."""
        if self.before is None:
            earlier = islice(internals.jobs_before(self._spark, min(job.id for job in jobs)), _LOOK_BACK)
            ours = takewhile(lambda job: not any(tag.startswith(self._whose) for tag in job.tags), earlier)
            self.before = self._computed(list(ours))
        return self.before

    def _computed(self, jobs: Sequence[Job]) -> set[_RDDs]:
        told = (internals.ran(self._spark, stage) for job in jobs for stage in job.stages)
        return {ran.rdds for ran in told if ran is not None and ran.completed}

    def _ended(self, stage: int) -> list[Job]:
        deadline = _patience()
        while True:
            jobs = sorted(internals.jobs(self._spark, self.tag), key=lambda job: job.id)
            # those that it has read from have ended before it began; one that still runs is one that it did not need in the end
            if any(stage in job.stages and not job.running for job in jobs):
                return jobs
            if deadline.passed:
                raise _unproven(f"Spark did not show within {_SECONDS:.0f} s how the job of stage {stage} ended")
            deadline.pause()

    def _ran(self, stage: int) -> Ran:
        ran = internals.ran(self._spark, stage)
        if ran is None:
            raise _unproven(f"Spark has forgotten stage {stage} already (spark.ui.retainedStages)")
        return ran


def refuse_computed_twice(told: Sequence[tuple[Job, Sequence[Ran]]], before: Collection[_RDDs], lost: bool) -> None:
    """Raise :class:`AbortAndRetry` where the stages of an attempt, by the jobs that ran them, have computed something twice.

    A shuffle that is partly lost is computed by the next attempt of its stage, or in a later job by a stage of the same RDDs, whether an earlier job
    has computed it or found it done: that one has read it. In one job two stages may have the same RDDs, of which two shuffles are made. ``before``
    and ``lost`` are those of :class:`Attempt`.
    """
    stages = {ran.stage: (ran, job.id) for job, all_ran in reversed(told) for ran in all_ran}
    first: dict[_RDDs, int] = {}
    for ran, job in sorted(stages.values(), key=lambda found: found[0].stage):
        if ran.attempt:
            raise _unproven(f"stage {ran.stage} in front of the writing one ran again")
        if first.setdefault(ran.rdds, job) != job and ran.completed:
            raise _unproven(f"stage {ran.stage} has computed again what a stage before it had computed, or found done")
    _refuse_stale([ran for ran, _ in stages.values() if ran.rdds in before], lost)


def _refuse_stale(known: Sequence[Ran], lost: bool) -> None:
    """What was there before the attempt, and lost a part of it, is of two computations where one shuffle was made of another.

    One alone is none of that, where no job has read it before (the rule above): each of its parts is there once, and what reads it is computed anew.
    """
    if len({ran.rdds for ran in known}) > 1 and (lost or any(ran.completed for ran in known)):
        raise AbortAndRetry(
            f"stages {sorted(ran.stage for ran in known)} have used what was in Spark's shuffles before (made in front of the sink, or by the try"
            " before), a part of which was lost with an executor: its rows could be of two computations. The transaction is aborted; nothing of it"
            " is visible. Start a new run of the query, as semel.spark.keep_running does; for a batch job make its DataFrame anew, and write it"
            " again.",
            tag=STALE,
        )


def _writing_stage(receipts: Sequence[Receipt]) -> int:
    stages = {receipt.stage for receipt in receipts}
    if len(stages) != 1 or any(receipt.attempt for receipt in receipts):
        raise _unproven(f"the receipts name stages {sorted(stages)}")
    return stages.pop()


def _prove_written(spark: SparkSession, stage: int, receipts: Sequence[Receipt]) -> None:
    deadline = _patience()
    while True:
        seen = internals.stage(spark, stage)
        if seen is not None and (seen.attempt or seen.failed):
            raise _unproven(f"stage {stage} ran again (attempt {seen.attempt}, {seen.failed} failed tasks)")
        if seen is not None and seen.completed == seen.tasks and not seen.active:
            if len(receipts) != seen.tasks:
                raise _unproven(f"stage {stage} had {seen.tasks} tasks and {len(receipts)} receipts came back")
            return
        if deadline.passed:
            raise _unproven(f"Spark did not confirm stage {stage} within {_SECONDS:.0f} s ({seen})")
        deadline.pause()


def _patience() -> Deadline:
    """A thread of Spark's own keeps the books, mostly a moment later than the results come."""
    return Deadline(_SECONDS * 1000, backoff_ms=0.5, backoff_max_ms=10)


def _unproven(reason: str) -> AbortAndRetry:
    return AbortAndRetry(
        f"it is not proven that every task wrote exactly once: {reason}. An executor was probably lost. The transaction is aborted; nothing of it is"
        " visible. Run the batch again.",
        tag="UNPROVEN",
    )
