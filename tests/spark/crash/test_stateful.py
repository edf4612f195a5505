"""Queries with state: output and state are those of a run without failures, whatever is killed, replayed or rebuilt
(DESIGN rules 2 and 6).

The same rows in the same batches go through several queries. One of each plan is left alone. Of the others, a Python
worker is killed in one batch (the batch is aborted, and ``keep_running`` starts a new run), a run ends before a batch
was written, and one behind a commit that Spark's log has not got; or it is in an application of which workers and
drivers are killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from semel.sandbox import Sandbox
from semel.spark import keep_running
from semel.steps import OwnerStep, ParticipantStep, SinkStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from tests.spark.programs.stateful import Stateful
from tests.spark.support import bounded_runs
from tests.spark.support.copy_query import Crashed, Line, crash_before, crash_behind, killing
from tests.spark.support.stateful_plans import (
    FORMAT,
    PER_BATCH,
    PROVIDER,
    QUERIES,
    ROCKSDB,
    Plan,
    events,
    produce_events,
)
from tests.spark.support.topics_and_drivers import LOCAL_DRIVER, create, kill_when_all_are_met, program, values

VALIDATION = "spark.sql.streaming.stateStore.commitValidation.enabled"

TOGETHER = ("windows-rocksdb", "distinct-hdfs", "join-hdfs", "transformWithState-rocksdb")
#: Passings are counted over all queries: each batch passes a step of the sink once. The queries of a driver are held,
#: each at another step, and then it is killed: the first time the first three of them, the second time with the fourth
#: in front.
KILLS = (
    (
        CrashPoint(SinkStep.DECIDED, 4, Action.HANG),
        CrashPoint(SinkStep.RETURNING, 4, Action.HANG),
        CrashPoint(OwnerStep.COMMIT_SENT, 4, Action.HANG),
    ),
    (
        CrashPoint(SinkStep.RETURNING, 3, Action.HANG),
        CrashPoint(OwnerStep.COMMIT_SENT, 3, Action.HANG),
    ),
)
WORKER = CrashPoint(ParticipantStep.SENT, 3)


@pytest.fixture(scope="module")
def source(kafka: Sandbox) -> str:
    """The same rows for all: a query's batches are those of any other."""
    topic = create(kafka, "stateful-in", 2)
    produce_events(kafka, topic)
    return topic


@pytest.fixture(scope="module")
def calm(
    spark: SparkSession, kafka: Sandbox, source: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Plan], list[str]]:
    """What a plan writes that nothing happens to. Where it keeps its state makes no difference."""
    session = spark.newSession()
    session.conf.set(PROVIDER, ROCKSDB)

    @cache
    def output(plan: Plan) -> list[str]:
        target = create(kafka, "calm-out", 3)
        line = Line(session, kafka, tmp_path_factory.mktemp("calm"), source, target, target, per_batch=PER_BATCH)
        line.run(rows=plan(line.rows))
        written = sorted(values(kafka.bootstrap_servers, target))
        assert written, "a query without output shows nothing"
        return written

    return output


def run_through_failures(line: Line, plan: Any) -> None:
    """Until all is read.

    A run ends in front of batch 1; in the next one a worker is killed; its successor ends behind the commit of batch 4.
    """
    with pytest.raises(Crashed):
        line.run(rows=plan(line.rows), around=crash_before(1))
    killed = line.directory / f"{line.prefix}-killed"

    def start() -> StreamingQuery:
        rows, sink = plan(line.rows), line.sink()
        first = not killed.exists()
        writer = (killing(rows, killed) if first else rows).writeStream.foreachBatch(
            sink if first else crash_behind(4)(sink)
        )
        return bounded_runs.start(writer.option("checkpointLocation", str(line.checkpoint)))

    with pytest.raises(StreamingQueryException, match="Crashed"):
        keep_running(start)
    line.run(rows=plan(line.rows))


@pytest.mark.exhaustive  # its sample are the kills, and objection 26
@pytest.mark.parametrize("name", ["windows-hdfs", "transformWithState-rocksdb", "distinct-rocksdb", "join-rocksdb-2"])
def test_as_if_nothing_had_failed(
    spark: SparkSession,
    kafka: Sandbox,
    source: str,
    calm: Callable[[Plan], list[str]],
    tmp_path: Path,
    setting: Any,
    name: str,
) -> None:
    plan, provider, version = QUERIES[name]
    setting(PROVIDER, provider)
    setting(FORMAT, str(version))
    target = create(kafka, "failing-out", 3)
    failing = Line(spark, kafka, tmp_path, source, target, target, per_batch=PER_BATCH)
    run_through_failures(failing, plan)
    assert sorted(values(kafka.bootstrap_servers, target)) == calm(plan)


@pytest.mark.parametrize(
    ("names", "kills"),
    [
        pytest.param((TOGETHER[0], TOGETHER[-1]), KILLS[1:], id="sample"),
        pytest.param(TOGETHER, KILLS, id="all", marks=pytest.mark.exhaustive),
    ],
)
def test_drivers_and_workers_are_killed(
    kafka: Sandbox,
    source: str,
    calm: Callable[[Plan], list[str]],
    tmp_path: Path,
    names: tuple[str, ...],
    kills: tuple[tuple[CrashPoint, ...], ...],
) -> None:
    """Several of them in one application, each of which lives through what kills the others too."""
    outputs = {name: create(kafka, "stateful-killed", 3) for name in names}
    job = Stateful(kafka.bootstrap_servers, source, outputs, str(tmp_path / "killed"))
    turned = replace(job, outputs={name: outputs[name] for name in (names[-1], *names[:-1])})
    for number, (one, points) in enumerate(zip((job, turned)[-len(kills) :], kills, strict=True)):
        kill_when_all_are_met(program("stateful", one), CrashPlan(tmp_path / f"kill-{number}", *points))
    assert LOCAL_DRIVER.run_until_done(program("stateful", turned), CrashPlan(tmp_path / "last", WORKER), 0) == 0
    for name, target in outputs.items():
        assert sorted(values(kafka.bootstrap_servers, target)) == calm(QUERIES[name][0]), name


def test_state_belongs_to_the_output_that_was_committed(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, setting: Any
) -> None:
    """With ``rand()`` in the plan, running a batch again makes other values: the total next to each value shows whose
    state went on.
    """
    setting(VALIDATION, "false")
    line = Line.new(spark, kafka, tmp_path, "random", per_batch=5)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for number in range(30):
        producer.produce(
            line.source, value=json.dumps({"id": number, "at": number, "user": f"u{number % 5}"}), partition=0
        )
    assert producer.flush(60) == 0

    def plan() -> DataFrame:
        drawn = events(line.rows).withColumn("r", f.floor(f.rand() * 1_000_000))
        summed = drawn.groupBy("user").agg(f.last("r").alias("r"), f.sum("r").alias("total"), f.count("*").alias("n"))
        return summed.select(f.to_json(f.struct("user", "r", "total", "n")).alias("value"))

    for batch in (1, 3):
        with pytest.raises(Crashed):
            line.run(rows=plan(), mode="update", around=crash_behind(batch))
    line.run(rows=plan(), mode="update")
    seen = sorted(
        (row["user"], row["n"], row["r"], row["total"])
        for row in map(json.loads, values(kafka.bootstrap_servers, line.target))
    )
    assert [(user, n) for user, n, _, _ in seen] == [(f"u{user}", n) for user in range(5) for n in range(1, 7)]
    before = 0
    for user, n, drawn, total in seen:
        before = drawn + (before if n > 1 else 0)
        assert total == before, f"the state of {user} in its batch {n} is not that of the output"
