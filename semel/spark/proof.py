"""The proof that each row of a batch was computed once and written once (DESIGN rule 2, PROTOCOL 3.5; docs/decisions/0010).

Spark hides two things behind a job that ends well. A writing stage that ran again starts at task attempt 0 again, and the broker acknowledges a
repeated sequence that carries other rows. And where an executor is lost, what it held of a shuffle is computed anew: if that comes out otherwise than
the first time (a model, a request, ``uuid()``), what has read the one and what reads the other do not fit, and rows are there twice or not at all,
though each writing task has run once.

Both leave traces in what Spark keeps of its jobs: those of the attempt, and those in front of it that have made what the batch was written from. Not
promised: anything about cached blocks, of which Spark keeps no such books; about what another job group or an earlier micro-batch computed (shuffles
of RDDs outlive it); or about a job that Spark has forgotten before the batch is done, since others have run a thousand in the meantime
(``spark.ui.retainedJobs``).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from zlib import crc32

from pyspark.sql import SparkSession

from semel.errors import AbortAndRetry
from semel.spark import internals
from semel.spark.facts import Job, Stage
from semel.transaction.ticket import Receipt
from semel.wire.deadline import Deadline

__all__ = ["STALE", "Proof", "Told", "refuse_computed_twice"]

#: The tag of an attempt that was made from what is of two computations, and stays in Spark: running it once more in the same call does not help.
STALE = "STALE_SHUFFLE"
#: What begins the tag of every attempt of every sink: what one of them has computed is used by no other job.
_SINKS = "semel-write-"
_SECONDS = 10.0
#: So many jobs in front of a call are looked at: of a stateless query two or three have made its shuffles.
_LOOK_BACK = 100
#: A job, and the stages that it lists: all that its last one depends on, whether computed in it or found done.
Told = tuple[Job, Sequence[Stage]]
_RDDs = frozenset[int]


class Proof:
    """The proof for one call to write a batch under a ``prefix``. The Spark jobs of an attempt carry its ``tag``.

    A micro-batch has its DataFrame to itself: nothing in front of the call before (``micro_batch``) has made what it is written from. That of a batch
    job may be written once more after a failure.
    """

    def __init__(self, spark: SparkSession, prefix: str, *, micro_batch: bool) -> None:
        self._spark = spark
        self._prefix = f"{_SINKS}{crc32(prefix.encode()):08x}-"
        self._call = f"{self._prefix}{uuid.uuid4()}-"
        self._micro_batch = micro_batch
        self._attempt = 0
        # what is at work beside the call is not in front of it
        self._before = max(internals.job_ids(spark), default=-1)
        self._ended: dict[int, Job] = {}

    @property
    def tag(self) -> str:
        """What the jobs of this attempt carry, and no others."""
        return f"{self._call}{self._attempt}"

    def next_attempt(self) -> None:
        """The batch is written again, in the same call."""
        self._attempt += 1

    def prove(self, receipts: Sequence[Receipt]) -> None:
        """Raise :class:`AbortAndRetry` unless Spark confirms that the writing stage ran once, and that nothing in front of it was computed twice.

        The receipts are counted as well: an attempt that Spark killed is in none of its columns. Without any, no task was needed, and no stage wrote:
        that there are no rows may be what is torn.
        """
        stage = _writing_stage(receipts) if receipts else None
        jobs = self._batch(stage)
        # with adaptive execution each stage has a job to itself: then the common case needs no look at the stages
        if all(job.computed_one and (stage not in job.stages or _written_once(job, receipts)) for job in jobs):
            return
        told = [(job, list(self._listed(job))) for job in jobs]
        if stage is not None:
            _refuse_written_twice(next(listed for _, stages in told for listed in stages if listed.id == stage), receipts)
        refuse_computed_twice(told, self.tag, micro_batch=self._micro_batch)

    def _batch(self, stage: int | None) -> list[Job]:
        """All jobs of the batch, the oldest first, when that of the writing stage has ended, or all of them where there is none."""
        deadline = _patience()
        while True:
            jobs = list(self._jobs())
            # those that it has read from have ended before it began; one that still runs is one that it did not need in the end
            if any(stage in job.stages and not job.running for job in jobs) or (stage is None and not self._awaited(jobs)):
                return jobs[::-1]
            if deadline.passed:
                raise _unproven(f"Spark did not show within {_SECONDS:.0f} s how the jobs of the batch ended")
            deadline.pause()

    def _awaited(self, jobs: Sequence[Job]) -> bool:
        """In front of a batch job, others may be at work."""
        return any(job.running and (self._micro_batch or _carries(job, self._call)) for job in jobs)

    def _jobs(self) -> Iterator[Job]:
        """Those of this call and those in front of it, for a micro-batch back to the call before, the newest first."""
        in_front = 0
        for id in internals.job_ids(self._spark):
            job = self._ended.get(id) or internals.job(self._spark, id)
            if job is None or in_front == _LOOK_BACK:
                return
            if not job.running:
                self._ended[id] = job
            if not _carries(job, self._call):
                if self._micro_batch and _carries(job, self._prefix):
                    return
                in_front += id <= self._before
            yield job

    def _listed(self, job: Job) -> Iterator[Stage]:
        """What Spark has forgotten, it has forgotten from the front."""
        for id in job.stages:
            stage = self._stage(id) if self.tag in job.tags else internals.stage(self._spark, id)
            if stage is not None:
                yield stage

    def _stage(self, id: int) -> Stage:
        found = internals.stage(self._spark, id)
        if found is None:
            raise _unproven(f"Spark has forgotten stage {id} already (spark.ui.retainedStages)")
        return found


def _carries(job: Job, start: str) -> bool:
    return any(tag.startswith(start) for tag in job.tags)


def _of_another_attempt(job: Job, tag: str) -> bool:
    return tag not in job.tags and _carries(job, _SINKS)


def refuse_computed_twice(told: Sequence[Told], tag: str, *, micro_batch: bool) -> None:
    """Raise :class:`AbortAndRetry` where what the attempt of this tag was written from may be of two computations.

    ``told`` are the jobs of the batch in their order. Tagged STALE_SHUFFLE where that was so before the attempt: it would be in the next one, too.
    Of a ``micro_batch`` all that stands in front is used: what was broadcast or checkpointed is in no lineage. In front of a batch job it may be
    anybody's.
    """
    used = {stage.rdds for job, stages in told if tag in job.tags or (micro_batch and not _of_another_attempt(job, tag)) for stage in stages}
    if again := _torn([(job, stages) for job, stages in told if tag not in job.tags], used, tag):
        raise AbortAndRetry(
            f"stage {again[0].id} has computed anew what had been lost with an executor, and what was read before of the first is used, too: the rows"
            " could be of two computations. That was so before this try, and Spark keeps it (shuffles that it has made before it called the sink, or"
            " of RDDs). The transaction is aborted; nothing of it is visible. Start a new run of the query, as semel.spark.keep_running does; for a"
            " batch job make its DataFrame anew, and write it again.",
            tag=STALE,
        )
    for stage in (stage for job, stages in told if tag in job.tags for stage in stages):
        if stage.attempt:
            raise _unproven(f"stage {stage.id} in front of the writing one ran again")
    if again := _torn(told, used, tag):
        raise _unproven(f"stage {again[0].id} has computed again what had been read before")


def _torn(told: Sequence[Told], used: Collection[_RDDs], tag: str) -> list[Stage]:
    """The stages that have computed again a part of what had been read.

    A shuffle that is partly lost is computed by the next attempt of its stage, or in a later job by a stage of the same RDDs, a new one or that which
    was found done. Where nothing was made of it before, each of its parts is there once.
    """
    torn: set[Stage] = set()
    for rdds in used:
        listed = [(stage, job, stages) for job, stages in told for stage in stages if stage.rdds == rdds]
        # in one job two stages may have the same RDDs: two shuffles of one RDD
        first = {stage.id for stage, job, _ in listed if job == listed[0][1]}
        again = {stage for stage, _, _ in listed if stage.attempt or (stage.completed and stage.id not in first)}
        read = [stage.id for stage, job, stages in listed if _read(stage, job, stages, used, tag)]
        torn.update(stage for stage in again if read and min(read) <= stage.id)
    return sorted(torn, key=lambda stage: stage.id)


def _read(stage: Stage, job: Job, stages: Sequence[Stage], used: Collection[_RDDs], tag: str) -> bool:
    """Whether something that may be used was made of a stage in a job.

    What another attempt of a sink has made is not, but for what is found again: shuffles of RDDs. Of other jobs it cannot be known: what they have
    collected may be the small side of a join.
    """
    apart = _of_another_attempt(job, tag)
    return any((reader.completed or reader.attempt) and (not apart or reader.rdds in used) for reader in stages if reader.id > stage.id)


def _writing_stage(receipts: Sequence[Receipt]) -> int:
    stages = {receipt.stage for receipt in receipts}
    if len(stages) != 1 or any(receipt.attempt for receipt in receipts):
        raise _unproven(f"the receipts name stages {sorted(stages)}")
    return stages.pop()


def _written_once(job: Job, receipts: Sequence[Receipt]) -> bool:
    return job.completed_tasks == len(receipts) and not job.failed_tasks


def _refuse_written_twice(stage: Stage, receipts: Sequence[Receipt]) -> None:
    if stage.attempt or stage.failed:
        raise _unproven(f"stage {stage.id} ran again (attempt {stage.attempt}, {stage.failed} failed tasks)")
    if not stage.completed == stage.tasks == len(receipts):
        raise _unproven(f"stage {stage.id} had {stage.tasks} tasks, of which {stage.completed} ended, and {len(receipts)} receipts came back")


def _patience() -> Deadline:
    """A thread of Spark's own keeps the books, mostly a moment later than the results come."""
    return Deadline(_SECONDS * 1000, backoff_ms=0.5, backoff_max_ms=10)


def _unproven(reason: str) -> AbortAndRetry:
    return AbortAndRetry(
        f"it is not proven that every task wrote exactly once: {reason}. An executor was probably lost. The transaction is aborted; nothing of it is"
        " visible. Run the batch again.",
        tag="UNPROVEN",
    )
