"""The proof that each row of a batch was computed once and written once (DESIGN rule 2, PROTOCOL 3.5;
docs/decisions/0010).

Two things can go wrong in a Spark job that succeeds:

- The writing stage ran again. Its tasks start at attempt 0 again, and the broker acknowledges a repeated sequence with
  other rows.
- An executor was lost, and Spark computed its part of a shuffle again. If the function answers differently (a model, a
  request, ``uuid()``), the readers of the first and the second output do not fit. Rows are doubled or lost, although
  each writing task ran once.

Both leave traces in Spark's status store, in the jobs of the attempt and in earlier jobs whose output it read. Not
promised: cached blocks, which Spark does not record so; the work of another job group or an earlier micro-batch
(shuffles of RDDs outlive it); data that left Spark before a batch job (collected, written to files, broadcast); and
jobs or stages before a batch job that Spark has forgotten, because others ran a thousand since. A micro-batch is
refused then.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from hashlib import sha256
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from semel.errors import AbortAndRetry
from semel.spark.jvm import lineage, status_store, streaming_query
from semel.spark.jvm.context import active_context
from semel.spark.jvm.values import Job, Stage
from semel.transaction.ticket import Receipt

__all__ = ["FORGOTTEN", "STALE", "JobWithStages", "Proof", "check_computed_once", "prove_tasks", "sink_made"]

#: The tag of an attempt whose rows come from two computations of a shuffle that Spark keeps. A retry in the same call
#: would read it again.
STALE = "STALE_SHUFFLE"
#: The tag of an attempt before which Spark has forgotten a part of the batch. A retry in the same call would not find
#: it either.
FORGOTTEN = "BOOKS_FORGOTTEN"
#: The beginning of the tags of all attempts of all sinks. No other job uses their output, unless it was checkpointed.
_SINKS = "semel-write-"
_SECONDS = 10.0
#: The RDD of a stage that Spark has forgotten.
_FORGOTTEN = -1
#: How many jobs before a call are checked. Two or three of them made the shuffles of a stateless query.
_LOOK_BACK = 100
#: How many jobs before a call are asked for at once.
_AT_ONCE = 32
#: How many events Spark had dropped when a prefix was proven last, or its sink was made, by application.
_dropped: WeakKeyDictionary[SparkContext, dict[str, int]] = WeakKeyDictionary()
#: A job, and the stages that it lists: all that its last one depends on, whether computed in it or found done.
JobWithStages = tuple[Job, Sequence[Stage]]


class Proof:
    """The proof for one call to write a batch under a ``prefix``. The Spark jobs of an attempt carry its ``tag``.

    A micro-batch of a query's ``run`` has a DataFrame of its own: no job before the previous call has made its rows.
    That holds because a sink and its prefix have one call in a batch: a second one is refused (SECOND_CALL,
    PREFIX_IN_USE). The DataFrame of a batch job may be written again after a failure.
    """

    def __init__(self, df: DataFrame, prefix: str, *, run: str | None) -> None:
        self._spark = df.sparkSession
        self._df = df
        self._prefix = _beginning(prefix)
        self._call = f"{self._prefix}{uuid.uuid4()}-"
        self._run = run
        self._attempt = 0
        # a job that runs beside the call is not before it
        self._before = status_store.next_job_id(self._spark) - 1
        self._met_the_call_before = False
        context = self._spark.sparkContext
        # events before a batch job may belong to any program; an unknown prefix means that the sink was made before the
        # application began
        self._dropped = (
            _dropped.get(context, {}).get(self._prefix, 0) if run is not None else status_store.dropped(context)
        )
        self._persisted = lineage.newest_persisted(df)

    @property
    def tag(self) -> str:
        """The tag of this attempt's jobs, and of no others."""
        return f"{self._call}{self._attempt}"

    def next_attempt(self) -> None:
        """Begin another attempt at the batch in the same call."""
        self._attempt += 1
        self._persisted = max(self._persisted, lineage.newest_persisted(self._df))

    def prove(self, receipts: Sequence[Receipt]) -> None:
        """Raise :class:`AbortAndRetry` unless Spark confirms that the writing stage ran once, and that nothing before
        it was computed twice.

        The receipts are counted as well: Spark's columns do not show an attempt that it killed. Without receipts no
        task was needed and no stage wrote. Then the batch may be torn by having no rows.
        """
        stage = _writing_stage(receipts) if receipts else None
        if stage is None and not status_store.wait_until_current(self._spark, _SECONDS):
            raise self._late(f"Spark's books of its jobs were not complete within {_SECONDS:.0f} s")
        jobs = self._batch(stage)
        self._check_nothing_dropped()
        if (
            self._run is not None
            and not self._met_the_call_before
            and status_store.forgot_jobs_since(
                self._spark, partial(streaming_query.batch_start_ms, self._df, self._run)
            )
        ):
            raise _unproven(
                "Spark may have forgotten jobs of this batch already",
                "Raise spark.ui.retainedJobs (1000 by default).",
                FORGOTTEN,
            )
        # with adaptive execution each stage has a job to itself: then the common case needs no look at the stages
        if all(job.computed_one and (stage not in job.stages or _written_once(job, receipts)) for job in jobs):
            return
        jobs_with_stages = self._told(jobs)
        if stage is not None:
            _check_written_once(
                next(listed for _, stages in jobs_with_stages for listed in stages if listed.id == stage), receipts
            )
        check_computed_once(jobs_with_stages, self.tag, micro_batch=self._run is not None, kept=self._newest_kept)

    def _check_nothing_dropped(self) -> None:
        """Raise :class:`AbortAndRetry` if Spark has dropped events that may belong to this batch.

        Spark counts a dropped event before it stores later ones.
        """
        context = self._spark.sparkContext
        before, dropped = self._dropped, status_store.dropped(context)
        _dropped.setdefault(context, {})[self._prefix] = dropped
        if dropped > before:
            raise _unproven(
                f"Spark has dropped {dropped - before} events of what it runs, since its driver has too much to do,"
                " and jobs of this batch may be among them",
                "Raise spark.scheduler.listenerbus.eventqueue.appStatus.capacity (10000 by default).",
                FORGOTTEN,
            )

    def _late(self, reason: str) -> AbortAndRetry:
        """Return the error for a wait that has timed out. What was awaited may be among the events that Spark has
        dropped: then the error says so, and no other try waits for it.
        """
        self._check_nothing_dropped()
        return _unproven(reason, "Spark is late with what it keeps of its jobs: its driver has too much to do.")

    def _newest_kept(self) -> int:
        """Find the newest RDD, also among those persisted when a try began: its plan reads the blocks, although the
        user may have unpersisted them since.
        """
        return max(lineage.newest_checkpoint(self._df), lineage.newest_persisted(self._df), self._persisted)

    def _batch(self, stage: int | None) -> list[Job]:
        """Wait for the job of the writing stage, or for all jobs without one. Return all jobs of the batch, the oldest
        first.
        """
        deadline = status_store.poll_deadline(_SECONDS)
        for _ in deadline.attempts():
            jobs = list(self._jobs())
            # the jobs that it read from ended before it began; it does not need a job that still runs
            if any(stage in job.stages and not job.running for job in jobs) or (
                stage is None and not self._awaited(jobs)
            ):
                return jobs[::-1]
        raise self._late(f"Spark did not show within {_SECONDS:.0f} s how the jobs of the batch ended")

    def _awaited(self, jobs: Sequence[Job]) -> bool:
        """Return whether a job of this call still runs. Jobs of other calls are not waited for."""
        return any(job.running and _carries(job, self._call) for job in jobs)

    def _jobs(self) -> Iterator[Job]:
        """Yield the jobs of this call and earlier ones, the newest first, for a micro-batch back to the previous
        call.
        """
        self._met_the_call_before, in_front = False, 0
        for job in self._newest_first():
            if in_front == _LOOK_BACK:
                return
            if not _carries(job, self._call):
                if self._run is not None and _carries(job, self._prefix):
                    self._met_the_call_before = True
                    return
                in_front += job.id <= self._before
            yield job

    def _newest_first(self) -> Iterator[Job]:
        """Yield the jobs of these groups, some in one answer. Those that Spark has forgotten are missing."""
        groups = status_store.job_groups(self._spark, self._run)
        first, last = max(0, self._before + 1 - _AT_ONCE), None
        older: list[int] | None = None
        while True:
            yield from (job for job in status_store.jobs(self._spark, first, last) if job.group in groups)
            if older is None and first > 0:
                older = status_store.job_ids(self._spark, self._run)
            older = [id for id in older or () if id < first]
            if not older:
                return
            first, last = max(0, older[0] + 1 - _AT_ONCE), older[0]

    def _told(self, jobs: Sequence[Job]) -> list[JobWithStages]:
        """Return the jobs with their stages. Spark first forgets stages that were found done, and keeps only their ids.

        Before a batch job, the check ends where more is forgotten.
        """
        known = status_store.stages(self._spark, {id for job in jobs for id in job.stages})
        jobs_with_stages: list[JobWithStages] = []
        for job in reversed(jobs):
            stages = [known.get(id) or Stage(id, 0, 0, 0, 0, _FORGOTTEN, 0) for id in job.stages]
            jobs_with_stages.append((job, stages))
            if sum(stage.completed > 0 or stage.attempt > 0 for stage in stages) >= job.completed:
                continue
            if self._run is not None or _carries(job, self._call):
                raise _unproven(
                    f"Spark has forgotten stages of job {job.id} already",
                    "Raise spark.ui.retainedStages (1000 by default).",
                    FORGOTTEN,
                )
            if job.id <= self._before:
                break
        return jobs_with_stages[::-1]


def prove_tasks(spark: SparkSession, receipts: Sequence[Receipt]) -> None:
    """Prove as :meth:`Proof.prove` a job of one stage that reads nothing of Spark's: nothing is before it.

    It must be alone in the job group of this thread.
    """
    stage = _writing_stage(receipts)
    deadline = status_store.poll_deadline(_SECONDS)
    for _ in deadline.attempts():
        jobs = [job for id in status_store.job_ids(spark) if (job := status_store.job(spark, id)) is not None]
        jobs_with_stages = status_store.stage(spark, stage)
        if jobs_with_stages is not None and any(stage in job.stages and not job.running for job in jobs):
            _check_written_once(jobs_with_stages, receipts)
            return
    raise _unproven(
        f"Spark did not show within {_SECONDS:.0f} s how the job of the tasks ended",
        "Its driver has too much to do, or it keeps too few jobs (spark.ui.retainedJobs, 1000 by default).",
    )


def sink_made(prefix: str) -> None:
    """Ignore what Spark has dropped before now: it does not concern this prefix's batches."""
    context = active_context()
    if context is not None:
        _dropped.setdefault(context, {}).setdefault(_beginning(prefix), status_store.dropped(context))


def _beginning(prefix: str) -> str:
    """Return the common beginning of the tags of all attempts of a prefix, and of no other: the search ends there.

    It is a digest, because tags take no comma.
    """
    return f"{_SINKS}{sha256(prefix.encode()).hexdigest()}-"


def _carries(job: Job, start: str) -> bool:
    return any(tag.startswith(start) for tag in job.tags)


def _of_another_attempt(job: Job, tag: str) -> bool:
    return tag not in job.tags and _carries(job, _SINKS)


def check_computed_once(
    jobs_with_stages: Sequence[JobWithStages], tag: str, *, micro_batch: bool, kept: Callable[[], int]
) -> None:
    """Raise :class:`AbortAndRetry` if the rows of the attempt with this tag may come from two computations.

    ``jobs_with_stages`` are the jobs of the batch in their order. The tag of the error is STALE_SHUFFLE if that was so
    before the attempt: it would be so in the next one. ``kept`` finds the id of the newest RDD with a checkpoint of the
    rows or of the newest persisted RDD, or -1. It costs a call for each RDD, and is called only if a stage was computed
    twice.
    """
    everything = {stage.rdd for _, stages in jobs_with_stages for stage in stages}
    newest = kept() if _torn(jobs_with_stages, everything, tag) else -1
    used = _used(jobs_with_stages, tag, micro_batch=micro_batch, kept=newest)
    if again := _torn([(job, stages) for job, stages in jobs_with_stages if tag not in job.tags], used, tag, newest):
        raise AbortAndRetry(
            f"an executor was lost, and stage {again[0].id} computed again what other stages had read before: rows"
            " could be missing or doubled. Nothing of this batch is visible. (1) Streaming: restart the query"
            " (keep_running does). (2) Batch job: rebuild the DataFrame, its RDDs and checkpoints, with nothing cached,"
            " in a job group of its own (spark.sparkContext.setJobGroup), and write it again.",
            tag=STALE,
        )
    for stage in (stage for job, stages in jobs_with_stages if tag in job.tags for stage in stages):
        if stage.attempt:
            raise _unproven(f"stage {stage.id}, before the writing one, ran again")
    if again := _torn(jobs_with_stages, used, tag, newest):
        raise _unproven(f"stage {again[0].id} has computed again what had been read before")


def _used(jobs_with_stages: Sequence[JobWithStages], tag: str, *, micro_batch: bool, kept: int) -> set[int]:
    """Return the RDDs that the attempt may be written from: those that its own jobs list (its lineage), and those in no
    lineage.

    An earlier job of a micro-batch may have made a broadcast for it. Before a batch job, such a job may belong to any
    program, so it does not count. Checkpoints count for both: any RDD that is older than the checkpoint may be in it.
    The first job over its RDD writes a lazy checkpoint. That job may belong to a refused try, and the next try begins
    from it. Cached blocks and broadcasts of a cached plan are alike: both depend on RDDs that are older than the
    persisted one. A forgotten stage in the attempt's own jobs may have any RDD.
    """
    any_of_all = any(
        tag in job.tags and stage.rdd == _FORGOTTEN for job, stages in jobs_with_stages for stage in stages
    )

    def may_be_used(job: Job, stage: Stage) -> bool:
        in_front = micro_batch and not _of_another_attempt(job, tag)
        return any_of_all or tag in job.tags or in_front or stage.rdd < kept

    return {stage.rdd for job, stages in jobs_with_stages for stage in stages if may_be_used(job, stage)}


def _torn(jobs_with_stages: Sequence[JobWithStages], used: set[int], tag: str, kept: int = -1) -> list[Stage]:
    """Return the stages that have computed again a part of a shuffle that had been read.

    A partly lost shuffle is computed by the next attempt of its stage, or in a later job by a stage of the same RDD: a
    new one, or the one that was found done. If nothing had read it before, each of its parts is there once. A forgotten
    stage may be any that writes a shuffle and was found done. The last stage of a job (each try of ``take``) is never
    found done.
    """
    alike: defaultdict[int, list[tuple[Stage, Job, Sequence[Stage]]]] = defaultdict(list)
    for job, stages in jobs_with_stages:
        for stage in stages:
            alike[stage.rdd].append((stage, job, stages))
    forgotten = alike.pop(_FORGOTTEN, [])
    torn: set[Stage] = set()
    for rdd in used & alike.keys():
        listed = alike[rdd]
        # in one job two stages may have the same RDD: two shuffles of one RDD
        first = {stage.id for stage, job, _ in listed if job == listed[0][1]}
        again = {stage for stage, _, _ in listed if stage.attempt or (stage.completed and stage.id not in first)}
        if not again:
            continue
        read, perhaps = (
            [stage.id for stage, job, stages in some if _read(stage, job, stages, used, tag, kept)]
            for some in (listed, forgotten)
        )
        # a stage that a later stage of the job has read wrote a shuffle, even without any row
        shuffles = {stage.id for stage, job, _ in listed if stage.shuffled or stage.id < max(job.stages)}
        torn.update(
            stage
            for stage in again
            if any(id <= stage.id for id in [*read, *(perhaps if stage.id in shuffles else ())])
        )
    return sorted(torn, key=lambda stage: stage.id)


def _read(stage: Stage, job: Job, stages: Sequence[Stage], used: Collection[int], tag: str, kept: int) -> bool:
    """Return whether a job read a stage for something that may be used.

    The output of another attempt of a sink is not used, except for what is found again: shuffles of RDDs, checkpoints
    and cached blocks, which may hold data of any older RDD. The output of other jobs may always be used: what they have
    collected may be the small side of a join.
    """
    apart = _of_another_attempt(job, tag) and (stage.rdd == _FORGOTTEN or stage.rdd > kept)
    readers = [reader for reader in stages if reader.id > stage.id]
    return any(
        reader.rdd == _FORGOTTEN or ((reader.completed or reader.attempt) and (not apart or reader.rdd in used))
        for reader in readers
    )


def _writing_stage(receipts: Sequence[Receipt]) -> int:
    stages = {receipt.stage for receipt in receipts}
    if len(stages) != 1 or any(receipt.attempt for receipt in receipts):
        raise _unproven(f"the receipts name stages {sorted(stages)}")
    return stages.pop()


def _written_once(job: Job, receipts: Sequence[Receipt]) -> bool:
    return job.completed_tasks == len(receipts) and not job.failed_tasks


def _check_written_once(stage: Stage, receipts: Sequence[Receipt]) -> None:
    if stage.attempt or stage.failed:
        raise _unproven(f"stage {stage.id} ran again (attempt {stage.attempt}, {stage.failed} failed tasks)")
    if not stage.completed == stage.tasks == len(receipts):
        raise _unproven(
            f"stage {stage.id} had {stage.tasks} tasks, of which {stage.completed} ended, and {len(receipts)}"
            " receipts came back"
        )


def _unproven(reason: str, therefore: str = "An executor was probably lost.", tag: str = "UNPROVEN") -> AbortAndRetry:
    return AbortAndRetry(
        f"it cannot be shown that every task wrote exactly once: {reason}. {therefore} The transaction is aborted;"
        " nothing of it is visible. Run the batch again.",
        tag=tag,
    )
