"""Queries with state: output and state are those of a run without failures, whatever is killed, replayed or rebuilt (DESIGN rules 2 and 6).

The same rows in the same batches go through two queries. One is left alone. Of the other, a Python worker is killed in one batch (the batch is
aborted, and ``keep_running`` starts a new run), a run ends before a batch was written, and one behind a commit that Spark's log has not got.
"""

from __future__ import annotations

import json
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
from tests.spark.harness import LOCAL_DRIVER, create, program, values
from tests.spark.lines import Crashed, Line, crash_before, crash_behind, killing
from tests.spark.programs.stateful import Stateful
from tests.spark.stateful_plans import FORMAT, PER_BATCH, PROVIDER, QUERIES, events, produce_events

VALIDATION = "spark.sql.streaming.stateStore.commitValidation.enabled"

TOGETHER = ("windows-rocksdb", "distinct-hdfs", "join-hdfs", "transformWithState-rocksdb")
#: Passings are counted over all queries: each batch passes a step of the sink once.
KILLS = (
    CrashPoint(SinkStep.DECIDED, 4, Action.DRIVER),
    CrashPoint(ParticipantStep.SENT, 8, Action.KILL),
    CrashPoint(SinkStep.RETURNING, 9, Action.DRIVER),
    CrashPoint(OwnerStep.COMMIT_SENT, 15, Action.DRIVER),
)


def run_through_failures(line: Line, plan: Any) -> None:
    """Until all is read. A run ends in front of batch 1; in the next one a worker is killed; its successor ends behind the commit of batch 4."""
    with pytest.raises(Crashed):
        line.run(rows=plan(line.rows), around=crash_before(1))
    killed = line.directory / f"{line.prefix}-killed"

    def start() -> StreamingQuery:
        rows, sink = plan(line.rows), line.sink()
        first = not killed.exists()
        writer = (killing(rows, killed) if first else rows).writeStream.foreachBatch(sink if first else crash_behind(4)(sink))
        return writer.option("checkpointLocation", str(line.checkpoint)).trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException, match="Crashed"):
        keep_running(start)
    line.run(rows=plan(line.rows))


@pytest.mark.parametrize("name", ["windows-hdfs", "distinct-rocksdb", "join-rocksdb-2", "transformWithState-rocksdb"])
def test_as_if_nothing_had_failed(spark: SparkSession, kafka: Sandbox, tmp_path: Path, setting: Any, name: str) -> None:
    plan, provider, version = QUERIES[name]
    setting(PROVIDER, provider)
    setting(FORMAT, str(version))
    calm = Line.new(spark, kafka, tmp_path, "calm", per_batch=PER_BATCH)
    produce_events(kafka, calm.source)
    calm.run(rows=plan(calm.rows))
    expected = sorted(values(kafka.bootstrap_servers, calm.target))
    assert expected, "a query without output shows nothing"
    failing = Line(spark, kafka, tmp_path, calm.source, Line.new(spark, kafka, tmp_path, "failing").target, f"{calm.prefix}-f", per_batch=PER_BATCH)
    run_through_failures(failing, plan)
    assert sorted(values(kafka.bootstrap_servers, failing.target)) == expected


def test_drivers_and_workers_are_killed(kafka: Sandbox, tmp_path: Path) -> None:
    """Several of them in one application, each of which lives through what kills the others too."""
    source = create(kafka, "stateful-in", 2)
    produce_events(kafka, source)
    found = {}
    for run, points in (("calm", ()), ("killed", KILLS)):
        outputs = {name: create(kafka, f"stateful-{run}", 3) for name in TOGETHER}
        job = Stateful(kafka.bootstrap_servers, source, outputs, str(tmp_path / run))
        plan = CrashPlan(tmp_path / f"{run}-plan", *points)
        LOCAL_DRIVER.run_until_done(program("stateful", job), plan, len(points))
        found[run] = {name: sorted(values(kafka.bootstrap_servers, topic)) for name, topic in outputs.items()}
    assert all(found["calm"].values()), "a query without output shows nothing"
    assert found["killed"] == found["calm"]


def test_state_belongs_to_the_output_that_was_committed(spark: SparkSession, kafka: Sandbox, tmp_path: Path, setting: Any) -> None:
    """With ``rand()`` in the plan, running a batch again makes other values: the total next to each value shows whose state went on."""
    setting(VALIDATION, "false")
    line = Line.new(spark, kafka, tmp_path, "random", per_batch=5)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for number in range(30):
        producer.produce(line.source, value=json.dumps({"id": number, "at": number, "user": f"u{number % 5}"}), partition=0)
    assert producer.flush(60) == 0

    def plan() -> DataFrame:
        drawn = events(line.rows).withColumn("r", f.floor(f.rand() * 1_000_000))
        summed = drawn.groupBy("user").agg(f.last("r").alias("r"), f.sum("r").alias("total"), f.count("*").alias("n"))
        return summed.select(f.to_json(f.struct("user", "r", "total", "n")).alias("value"))

    for batch in (1, 3):
        with pytest.raises(Crashed):
            line.run(rows=plan(), mode="update", around=crash_behind(batch))
    line.run(rows=plan(), mode="update")
    seen = sorted((row["user"], row["n"], row["r"], row["total"]) for row in map(json.loads, values(kafka.bootstrap_servers, line.target)))
    assert [(user, n) for user, n, _, _ in seen] == [(f"u{user}", n) for user in range(5) for n in range(1, 7)]
    before = 0
    for user, n, drawn, total in seen:
        before = drawn + (before if n > 1 else 0)
        assert total == before, f"the state of {user} in its batch {n} is not that of the output"
