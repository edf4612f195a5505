"""Spark's status store: its jobs and stages, behind its pages and its REST API. It is the second part of what Spark
does not promise.

Spark keeps these books by a thread of its own, a bit later than things happen, and forgets the oldest. The names are
pinned as those of :mod:`semel.spark.jvm.streaming_query` are, in tests/spark/broker/test_job_internals.py. What the
facts mean is decided in :mod:`semel.spark.job.proof`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import SparkNoSuchElementException
from pyspark.sql import SparkSession

from semel.spark.jvm.application import Application, application_of
from semel.spark.jvm.streaming_query import pinned
from semel.spark.jvm.values import Job, Stage
from semel.wire.deadline import Deadline

__all__ = [
    "dropped",
    "forgot_jobs_since",
    "job",
    "job_groups",
    "job_ids",
    "jobs",
    "next_job_id",
    "poll_deadline",
    "stage",
    "stages",
    "wait_until_current",
]

#: The local property with a thread's job group.
_GROUP = "spark.jobGroup.id"
#: So many stages are asked for one by one.
_ONE_BY_ONE = 100
#: So many of the oldest jobs that have ended are asked when.
_OLDEST = 20


def job_ids(spark: SparkSession, run: str | None = None) -> list[int]:
    """Return the jobs of this thread's job group, the newest first.

    That of a query's thread is its ``run``, unless the user's function has set another one: then the jobs of both are
    listed.
    """
    with pinned("the jobs of a group"):
        application = application_of(spark.sparkContext)
        return sorted({id for group in job_groups(spark, run) for id in _ids_of(application, group)}, reverse=True)


def job_groups(spark: SparkSession, run: str | None = None) -> set[str | None]:
    """Return the job groups whose jobs :func:`job_ids` lists."""
    return {spark.sparkContext.getLocalProperty(_GROUP), *([run] if run is not None else [])}


def _ids_of(application: Application, group: str | None) -> list[int]:
    ids: list[int] = json.loads(application.json(application.tracker.getJobIdsForGroup(group)))
    return ids


def next_job_id(spark: SparkSession) -> int:
    """Return the id that the next job of the application gets."""
    with pinned("how many jobs it has run"):
        return int(application_of(spark.sparkContext).scheduler.numTotalJobs())


def jobs(spark: SparkSession, first: int, last: int | None = None) -> list[Job]:
    """Return the jobs of all groups with the ids from ``first`` to ``last``, the newest first, in one answer.

    Without ``last`` to the newest. Those that Spark has forgotten are missing. An answer of a hundred jobs takes as
    long as ten calls.
    """
    with pinned("what became of its jobs"):
        application = application_of(spark.sparkContext)
        view = application.job_view().first(first)
        entries = json.loads(application.json(view if last is None else view.last(last)))
        return [_job(entry["info"]) for entry in reversed(entries)]


def job(spark: SparkSession, id: int) -> Job | None:
    """Return the state of a job, or None if Spark has forgotten it."""
    with pinned("what became of a job"):
        application = application_of(spark.sparkContext)
        status = _read_status(application, application.status_store.job, id)
        return None if status is None else _job(status)


def _job(status: Mapping[str, Any]) -> Job:
    return Job(
        status["jobId"],
        running=status["status"] == "RUNNING",
        succeeded=status["status"] == "SUCCEEDED",
        stages=tuple(status["stageIds"]),
        completed=status["numCompletedStages"],
        failed=status["numFailedStages"],
        completed_tasks=status["numCompletedTasks"],
        failed_tasks=status["numFailedTasks"] + status["numKilledTasks"],
        tags=frozenset(status["jobTags"]),
        group=status.get("jobGroup"),
    )


def forgot_jobs_since(spark: SparkSession, milliseconds: Callable[[], int]) -> bool:
    """Return whether Spark may have forgotten a job that ended after this moment, in milliseconds since 1970. Ask it
    only if Spark has forgotten any.

    It forgets those that ended first, so one that it keeps, and that ended before, says that it has not.
    """
    with pinned("which of its jobs it keeps"):
        application = application_of(spark.sparkContext)
        if application.scheduler.numTotalJobs() <= int(application.conf.get("spark.ui.retainedJobs", "1000")):
            return False
        moment, kept = milliseconds(), application.status_store.jobsList(None)
        newest_first = range(kept.size())
        times = (kept.apply(index).completionTime() for index in reversed(newest_first))
        ended = (time.get().getTime() for time in times if time.isDefined())
        return not any(end < moment for end in islice(ended, _OLDEST))


def dropped(context: SparkContext) -> int:
    """Return how many events Spark has dropped so far. Its status store lacks them: Spark drops events that come faster
    than its thread can store them.
    """
    with pinned("how many events it has dropped"):
        return int(application_of(context).dropped.getCount())


def stage(spark: SparkSession, id: int) -> Stage | None:
    """Return the state of a stage, or None if Spark has forgotten it."""
    with pinned("what became of a stage"):
        application = application_of(spark.sparkContext)
        status = _read_status(application, application.status_store.lastStageAttempt, id)
        return None if status is None else _stage(status)


def stages(spark: SparkSession, ids: Collection[int]) -> dict[int, Stage]:
    """Return the states of stages by id, for those that Spark still knows."""
    found: dict[int, Stage] = {}
    for id in ids if len(ids) <= _ONE_BY_ONE else ():
        one = stage(spark, id)
        if one is None:
            break
        found[id] = one
    return found if len(found) == len(ids) else {id: one for id, one in _all_stages(spark).items() if id in ids}


def _all_stages(spark: SparkSession) -> dict[int, Stage]:
    """Return a thousand stages, as many as Spark keeps by default, in one answer of 0.1 s.

    One by one it is 0.4 ms for each, and 13 ms where one is forgotten.
    """
    with pinned("what became of its stages"):
        application = application_of(spark.sparkContext)
        gateway: Any = spark.sparkContext._gateway
        quantiles, tasks = gateway.new_array(gateway.jvm.double, 0), gateway.jvm.java.util.ArrayList()
        listed = application.status_store.stageList(None, False, False, quantiles, tasks)
        attempts = json.loads(application.json(listed))
        return {
            status["stageId"]: _stage(status) for status in sorted(attempts, key=lambda status: status["attemptId"])
        }


def _read_status(application: Application, read: Callable[[int], Any], id: int) -> dict[str, Any] | None:
    """Return the entry of an id in one call, as the text of Spark's own REST API.

    None where it has forgotten it.
    """
    try:
        found: dict[str, Any] = json.loads(application.json(read(id)))
    except (Py4JJavaError, SparkNoSuchElementException):
        return None
    return found


def _stage(status: Mapping[str, Any]) -> Stage:
    """Return a stage. The first of its RDDs is its own; the others are those that it reads without a shuffle."""
    tasks = status["numTasks"], status["numCompleteTasks"], status["numFailedTasks"]
    return Stage(status["stageId"], status["attemptId"], *tasks, status["rddIds"][0], status["shuffleWriteRecords"])


def poll_deadline(seconds: float) -> Deadline:
    """Return the deadline for the status store, which a thread of Spark's writes mostly a moment after the results."""
    return Deadline(seconds * 1000, backoff_ms=0.5, backoff_max_ms=10)


def wait_until_current(spark: SparkSession, seconds: float) -> bool:
    """Wait until Spark's status store has everything that has happened by now. Needed if no job is known that it must
    show.

    A job without tasks, in a group of its own, is put after all else: the books are kept in order. To wait until
    Spark's bus is empty would be to wait for everybody's listeners.
    """
    context, behind = spark.sparkContext, f"semel-books-{uuid.uuid4()}"
    with pinned("whether its books are complete"):
        group = context.getLocalProperty(_GROUP)
        context.setLocalProperty(_GROUP, behind)
        try:
            context._jsc.emptyRDD().count()
        finally:
            context.setLocalProperty(_GROUP, group)  # type: ignore[arg-type]  # None unsets it
        application, deadline = application_of(context), poll_deadline(seconds)
        return any(_ids_of(application, behind) for _ in deadline.attempts())
