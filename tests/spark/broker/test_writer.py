"""``format("semel")`` as a sink, on a real Spark and broker: streams and batch jobs, replays, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from semel.config import ClientConfig
from semel.errors import ConfigError, DataLoss, SemelError
from semel.sandbox import Sandbox
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.spark import error
from semel.transaction.transactional_id import IdKind
from semel.transaction.two_phase.producer import Mode, TwoPhaseProducer
from semel.transaction.two_phase.recovery import open_prepared
from semel.wire.client import Client
from tests.spark.support.copy_query import Line, cut
from tests.spark.support.topics_and_drivers import create, group_offsets, produce, progress, source_ends, values

#: The option that insists on two-phase commit, or refuses it.
TWO_PHASE = "kafka.transaction.two.phase.commit.enable"


@pytest.fixture
def line(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Line:
    return Line.new(spark, kafka, tmp_path, "writer")


@pytest.fixture(scope="module")
def with_two_phase() -> Iterator[Sandbox]:
    with Sandbox.start(settings=TWO_PHASE_COMMIT) as sandbox:
        yield sandbox


def test_rows_offsets_and_progress_are_those_of_the_batch(line: Line) -> None:
    produce(line.kafka, line.source, range(300))
    group = f"{line.prefix}-group"
    line.run(task_scope=True, **dict[str, Any]({"kafka.group.id": group}))
    line.assert_exact()
    servers = line.kafka.bootstrap_servers
    ends = source_ends(servers, line.source)
    record = progress(servers, line.prefix)
    assert (record["v"], record["batch"]) == (2, 2)
    assert {int(p): end for p, end in record["sources"][0]["topics"][line.source]["end"].items()} == ends
    assert group_offsets(servers, group, line.source, ends) == ends
    assert all(one["until"] is not None for one in record["enlisted"]), "bounded, on a broker by its defaults"


def test_a_query_changes_to_the_other_sink_and_back(line: Line) -> None:
    for turn, task_scope in enumerate((False, True, False, True)):
        produce(line.kafka, line.source, range(200 * turn, 200 * (turn + 1)))
        line.run(task_scope=task_scope)
    line.assert_exact()


@pytest.mark.parametrize("task_scope", [True, False])
def test_a_committed_batch_is_not_written_again(line: Line, task_scope: bool) -> None:
    """The commit log has lost its newest entry, and Spark runs the batch again: here, or in the other sink."""
    produce(line.kafka, line.source, range(300))
    line.run(task_scope=True)
    cut(line.checkpoint, "commits", 1)
    produce(line.kafka, line.source, range(300, 400))
    line.run(task_scope=task_scope)
    line.assert_exact()


def test_state_belongs_to_what_is_committed(line: Line, spark: SparkSession) -> None:
    """A count of a batch that is run again is not written twice, and the next counts go on from it."""

    def run() -> None:
        counted = line.rows().groupBy("key").count()
        rows = counted.select("key", f.to_json(f.struct("count")).alias("value"))
        line.run(rows=rows, mode="complete", task_scope=True)

    produce(line.kafka, line.source, range(200), keys=1)
    run()
    cut(line.checkpoint, "commits", 1)
    produce(line.kafka, line.source, range(200, 400), keys=1)
    run()
    counts = [int(re.findall(r"\d+", value)[0]) for value in values(line.kafka.bootstrap_servers, line.target)]
    assert counts == [100, 200, 300, 400]


def test_a_batch_job_is_written_once_for_its_version(spark: SparkSession, kafka: Sandbox) -> None:
    topic = create(kafka, "writer-job", 3)
    rows = spark.range(1000).select(f.col("id").cast("string").alias("value"))

    def write(version: int) -> None:
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "transactionalIdPrefix": topic, "topic": topic}
        rows.write.format("semel").options(**options, version=version).mode("append").save()

    write(2)
    write(2)
    assert sorted(map(int, values(kafka.bootstrap_servers, topic))) == list(range(1000))
    with pytest.raises(PySparkException) as raised:
        write(1)
    assert tag_of(raised.value) == "VERSION_TOO_LOW"
    write(3)
    assert len(values(kafka.bootstrap_servers, topic)) == 2000


def test_rows_name_their_topics(spark: SparkSession, kafka: Sandbox) -> None:
    """None was listed before: each task adds the partitions that its rows go to."""
    names = [create(kafka, f"writer-{name}", 2) for name in ("red", "blue")]
    topic = f.when(f.col("id") % 2 == 0, names[0]).otherwise(names[1])
    rows = spark.range(100).select(f.col("id").cast("string").alias("value"), topic.alias("topic"))
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "transactionalIdPrefix": names[0], "version": "1"}
    rows.write.format("semel").options(**options).mode("append").save()
    assert [sorted(int(v) % 2 for v in values(kafka.bootstrap_servers, name)) for name in names] == [[0] * 50, [1] * 50]


def test_a_batch_that_does_not_continue_is_refused(line: Line, tmp_path: Path) -> None:
    """A new checkpoint reads from the beginning, and the progress is further."""
    produce(line.kafka, line.source, range(100))
    line.run(task_scope=True)
    with pytest.raises(DataLoss) as refused:
        line.run(task_scope=True, checkpoint=tmp_path / "other")
    assert refused.value.tag == "PROGRESS_MISMATCH"
    line.assert_exact()


def test_a_missing_topic_is_named(line: Line) -> None:
    produce(line.kafka, line.source, range(10))
    with pytest.raises(ConfigError, match="writer-nowhere"):
        line.run(task_scope=True, topic="writer-nowhere")


@pytest.mark.parametrize("task_scope", [True, False])
def test_what_no_commit_has_decided_is_aborted_by_the_next_start(line: Line, task_scope: bool) -> None:
    """Readers do not wait for a task that came late, or whose driver is gone."""
    with Client(ClientConfig.parse({"bootstrap.servers": line.kafka.bootstrap_servers})) as client:
        leave_prepared(client, line, "bounded")
        produce(line.kafka, line.source, range(100))
        line.run(task_scope=task_scope)
        assert open_prepared(client, line.prefix, IdKind.TASK) == []
    line.assert_exact()


def leave_prepared(client: Client, line: Line, mode: Mode) -> None:
    with TwoPhaseProducer(client, line.prefix, mode, kind=IdKind.TASK) as producer, producer.transaction() as unit:
        unit.send(line.target, pa.table({"value": ["left"]}))
        unit.prepare()


def test_two_phase_commit_where_the_cluster_offers_it(
    spark: SparkSession, with_two_phase: Sandbox, tmp_path: Path
) -> None:
    line = Line.new(spark, with_two_phase, tmp_path, "writer-two-phase")
    produce(line.kafka, line.source, range(200))
    line.run(task_scope=True)
    line.assert_exact()
    record = progress(line.kafka.bootstrap_servers, line.prefix)
    assert all(one["until"] is None for one in record["enlisted"])


def test_two_phase_commit_is_insisted_on(line: Line) -> None:
    produce(line.kafka, line.source, range(10))
    with pytest.raises(SemelError) as refused:
        line.run(task_scope=True, **dict[str, Any]({TWO_PHASE: "true"}))
    assert refused.value.tag == "TWO_PHASE_OFF"
    assert "bounded" in refused.value.message or "false" in refused.value.message


def tag_of(raised: Exception) -> str:
    found = error(raised)
    assert found is not None, raised
    return found.tag
