"""The proof: which jobs and stages a batch is proven by, and what Spark has forgotten or dropped of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from zlib import crc32

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from semel.errors import AbortAndRetry
from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from semel.spark.job.proof import FORGOTTEN, Proof, check_computed_once, sink_made
from semel.spark.jvm import status_store
from semel.transaction.ticket import Receipt
from semel.wire.api.transactions import Identity
from tests.spark.support.spark_books import FORGETFUL, books_held, drop_events, fill_books, job_group, many_stages
from tests.spark.support.topics_and_drivers import create, values
from tests.support.waiting import PATIENCE_S, wait_for

#: So many jobs in front of a call.
LOOKED_AT = 100


def _run(spark: SparkSession, *tags: str) -> None:
    for tag in tags:
        spark.sparkContext.addJobTag(tag)
    spark.range(10).repartition(3).collect()
    for tag in tags:
        spark.sparkContext.removeJobTag(tag)


def test_jobs_that_a_batch_is_proven_by(spark: SparkSession) -> None:
    """Those in front of the call and of all its tries, for a micro-batch back to the call before; of another sink, too,
    and none of another run.
    """
    rows = spark.range(1)
    call, job = (Proof(rows, "mine", run=run) for run in ("a run", None))
    with job_group(spark, "a run"):
        _run(spark, Proof(rows, "mine", run="a run").tag)
    with job_group(spark, "another run"):
        _run(spark)
    with job_group(spark, "a run"):
        _run(spark)
        _run(spark, Proof(rows, "other", run="a run").tag)
        tries = {call.tag}
        _run(spark, call.tag)
        call.next_attempt()
        tries.add(call.tag)
        _run(spark, call.tag)
        wait_for(
            lambda: len(list(call._jobs())) == 8 and not any(one.running for one in call._jobs()),
            "all jobs to be shown",
        )
        jobs = list(call._jobs())[::-1]
        assert len(list(job._jobs())) == 10, "a batch job may have been given its DataFrame before"
    assert len(tries) == 2
    assert [one.id for one in jobs] == sorted(one.id for one in jobs)
    assert [len(tries & one.tags) for one in jobs] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert all(one.computed_one for one in jobs)


def _looked_at(rows: DataFrame) -> DataFrame:
    assert not rows.isEmpty()
    assert len(rows.take(2)) == 2
    assert rows.count() == rows.count() == 10
    return rows


def _cached(rows: DataFrame) -> DataFrame:
    rows = rows.repartition(3, "value").persist()
    rows.count()
    return (
        rows.where("value % 2 = 0").repartition(2, "value").union(rows.where("value % 2 = 1").repartition(2, "value"))
    )


def _by_rdds(rows: DataFrame) -> DataFrame:
    pairs = rows.rdd.map(lambda row: (row.value % 3, row.value)).partitionBy(3)
    assert pairs.map(lambda pair: (pair[0] % 2, 1)).reduceByKey(lambda one, other: one + other).count() == 2
    return rows.sparkSession.createDataFrame(pairs.map(lambda pair: (pair[1],)), "value long")


def _branches(rows: DataFrame) -> DataFrame:
    rows = rows.repartition(3, "value")
    return (
        rows.where("value % 2 = 0").repartition(2, "value").union(rows.where("value % 2 = 1").repartition(2, "value"))
    )


def _checkpointed(rows: DataFrame) -> DataFrame:
    return rows.repartition(3, "value").localCheckpoint()


@pytest.mark.parametrize(
    "use",
    [
        _looked_at,
        *(pytest.param(use, marks=pytest.mark.exhaustive) for use in (_cached, _branches, _by_rdds, _checkpointed)),
    ],
)
def test_what_users_do_in_front_of_the_sink_is_proven_at_once(
    spark: SparkSession,
    kafka: Sandbox,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    use: Callable[[DataFrame], DataFrame],
) -> None:
    """Jobs over the same RDDs are no loss. What the stream is joined with stays in Spark from one batch to the next."""
    first, second = create(kafka, "used", 2), create(kafka, "used", 2)
    sinks = [
        KafkaSink(topic=topic, transactionalIdPrefix=topic, **{"kafka.bootstrap.servers": kafka.bootstrap_servers})
        for topic in (first, second)
    ]
    kept = (
        spark.sparkContext.parallelize([(number % 7, number) for number in range(1_000)], 2)
        .partitionBy(2)
        .partitionBy(3)
    )
    static = spark.createDataFrame(kept.map(lambda pair: (pair[1],)), "value long")
    small = f.broadcast(spark.range(1_000).repartition(2).groupBy(f.col("id").alias("value")).count())
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().repartition(3, "value")
    rows = rows.join(static, "value").join(small, "value").select("value")

    def write(df: DataFrame, batch: int) -> None:
        used = use(df)
        for sink in sinks:
            sink(used.select(f.col("value").cast("string").alias("value")), batch)

    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_for(lambda: not query.isActive or len(values(kafka.bootstrap_servers, second)) >= 30, "three batches")
        assert query.isActive, query.exception()
    finally:
        query.stop()
    for topic in (first, second):
        written = sorted(map(int, values(kafka.bootstrap_servers, topic)))
        assert written == list(range(len(written)))
    assert not [record for record in caplog.records if "is run again" in record.message]


def test_a_function_that_has_set_a_job_group_of_its_own(spark: SparkSession) -> None:
    """As the names of Spark's pages are set. What ran before that in the run's group counts, too."""
    with job_group(spark, "a run of it"):
        _run(spark)
    with job_group(spark, "a name for the page"):
        call = Proof(spark.range(1), "named", run="a run of it")
        _run(spark, call.tag)
        assert status_store.wait_until_current(spark, PATIENCE_S)
        assert [call.tag in one.tags for one in call._jobs()] == [True] * 2 + [False] * 2


def test_what_others_still_run_is_not_waited_for_where_no_task_wrote(spark: SparkSession, tmp_path: Path) -> None:
    """Another sink of the same query, at work beside this one."""
    over = tmp_path / "over"
    with job_group(spark, "a run of two"):
        _run(spark, Proof(spark.range(1), "without rows", run="a run of two").tag)  # the call before

    def beside() -> None:
        with job_group(spark, "a run of two"):
            spark.sparkContext.parallelize([1], 1).foreach(lambda _: wait_for(over.exists, "the end of the test"))

    other = threading.Thread(target=beside)
    other.start()
    try:
        with job_group(spark, "a run of two"):
            wait_for(
                lambda: any(
                    one is not None and one.running
                    for one in map(partial(status_store.job, spark), status_store.job_ids(spark))
                ),
                "the job beside",
            )
            Proof(spark.range(1), "without rows", run="a run of two").prove([])
        assert other.is_alive()
    finally:
        over.touch()
        other.join()


def test_two_prefixes_whose_checksums_are_alike_are_two(spark: SparkSession) -> None:
    """The look back ends at the same sink's call before: taken for it, another sink's would hide what is in front of
    both. CRC-32 takes these two for one.
    """
    one, other = (Proof(spark.range(1), prefix, run="a run") for prefix in ("plumless", "buckeroo"))
    assert crc32(b"plumless") == crc32(b"buckeroo")
    assert one._prefix != other._prefix


def test_stages_that_spark_has_forgotten(spark: SparkSession) -> None:
    """In front of a batch job the look ends at them.

    A micro-batch cannot be proven without, and is told what to set.
    """
    with job_group(spark, "a forgetful run"):
        _run(spark)
        many_stages(spark, FORGETFUL)
        call, query = (Proof(spark.range(1), "forgetful", run=run) for run in (None, "a forgetful run"))
        _run(spark, call.tag)
        assert status_store.wait_until_current(spark, PATIENCE_S)
        jobs = list(call._jobs())[::-1]
    assert len(jobs) == 2 + FORGETFUL + 2, "jobs are kept longer"
    wait_for(lambda: not status_store.stages(spark, jobs[0].stages), "stages to be forgotten")
    told = call._told(jobs)
    assert [one for one, _ in told] == jobs[-len(told) :]
    assert 2 < len(told) < len(jobs)
    with pytest.raises(
        AbortAndRetry, match=r"has forgotten stages of job \d+ already\. Raise spark\.ui\.retainedStages"
    ) as refused:
        query._told(jobs)
    assert refused.value.tag == FORGOTTEN


def test_stages_that_were_found_done_are_forgotten_first_and_refused_by_none(spark: SparkSession) -> None:
    with job_group(spark, "a run over one shuffle"):
        query = Proof(spark.range(1), "found done", run="a run over one shuffle")
        many_stages(spark, FORGETFUL, anew=False)
        _run(spark, query.tag)
        assert status_store.wait_until_current(spark, PATIENCE_S)
        jobs = list(query._jobs())[::-1]

    def told() -> int:
        return sum(stage.rdd >= 0 for _, stages in query._told(jobs) for stage in stages)

    wait_for(lambda: told() < sum(len(one.stages) for one in jobs), "stages to be forgotten")
    assert told() >= sum(one.completed for one in jobs)
    check_computed_once(query._told(jobs), query.tag, micro_batch=True, kept=lambda: -1)


def test_a_batch_during_which_spark_has_dropped_events_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its books may lack anything then.

    The next batch is asked about what was dropped since, the first one about all since its sink was made.
    """
    rows = spark.range(1)
    # asked where the session has had more jobs than Spark keeps; this run is none of Spark's
    began = int(time.time() * 1000)
    monkeypatch.setattr("semel.spark.jvm.streaming_query.batch_start_ms", lambda *_: began)

    def proof(prefix: str, run: str | None) -> Proof:
        return Proof(rows, prefix, run=run)

    def prove(proof: Proof) -> None:
        with job_group(spark, "a run"):
            proof.prove([])

    query, job = proof("busy", "a run"), proof("busy", None)
    prove(query)
    prove(job)
    drop_events(spark)
    assert status_store.wait_until_current(spark, PATIENCE_S)
    sink_made("made behind it")
    sink_made("busy")  # a second one does not hide it from the query that runs
    for one in (query, job, proof("busy", "a run"), proof("made before Spark", "a run")):
        with pytest.raises(
            AbortAndRetry,
            match=r"has dropped \d+ events .*Raise spark\.scheduler\.listenerbus\.eventqueue\.appStatus\.capacity",
        ) as refused:
            prove(one)
        assert refused.value.tag == FORGOTTEN
    for one in (
        proof("busy", "a run"),
        proof("busy", None),
        proof("made before Spark", "a run"),
        proof("made behind it", "a run"),
    ):
        prove(one)


def test_what_the_proof_waits_for_may_be_among_what_was_dropped(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be late in every try: the first one says why."""
    monkeypatch.setattr("semel.spark.job.proof._SECONDS", 1.0)
    written = [Receipt(0, Identity("late-0", 1, 0), {}, stage=1_000_000)]
    sink_made("late")

    def refused(receipts: list[Receipt]) -> AbortAndRetry:
        with job_group(spark, "a late run"), pytest.raises(AbortAndRetry) as error:
            Proof(spark.range(1), "late", run="a late run").prove(receipts)
        return error.value

    with books_held(spark):
        for receipts, late in ([], "were not complete within 1 s"), (written, "did not show within 1 s"):
            error = refused(receipts)
            assert error.tag == "UNPROVEN"
            assert late in str(error)
        for receipts in [], written:
            fill_books(spark)
            error = refused(receipts)
            assert error.tag == FORGOTTEN
            assert "events of what it runs" in str(error)


@pytest.mark.exhaustive
def test_jobs_of_others_do_not_hide_those_of_the_call(spark: SparkSession) -> None:
    """More of them than are looked at in front of it run while it writes, in the same group."""
    with job_group(spark, "a busy driver"):
        for _ in range(LOOKED_AT + 5):
            spark.range(1).collect()
        call = Proof(spark.range(1), "busy", run=None)
        _run(spark, call.tag)
        for _ in range(LOOKED_AT + 5):
            spark.range(1).collect()
        _run(spark, call.tag)

        def shown() -> list[bool]:
            return [call.tag in one.tags for one in call._jobs()]

        wait_for(lambda: shown().count(True) == 4, "the jobs of the call, in front of and behind those of others")
        assert shown() == [True] * 2 + [False] * (LOOKED_AT + 5) + [True] * 2 + [False] * LOOKED_AT
