"""Pins what semel takes from a running query of Spark: its batch, trigger, checkpoint, offsets and sources."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from semel.errors import Unsupported
from semel.spark.jvm import streaming_query
from semel.spark.jvm.values import Execution, Settings, SourceInfo, Trigger
from semel.spark.sink.micro_batch import MicroBatch, Query, observe
from semel.spark.sink.reconcile import Run, Skip, reconcile
from semel.spark.source_offset import SourceOffset, TopicOffset, parse
from semel.transaction.progress.record import KafkaSource, OpaqueSource, Progress, TopicEnd
from tests.spark.support.copy_query import cut
from tests.spark.support.running_queries import PATIENCE, answers, called, execution, numbers, standing_in
from tests.spark.support.session import KEPT_STAGES


@pytest.fixture(scope="module", autouse=True)
def stand_in(spark: SparkSession) -> Iterator[None]:
    """In the sessions of this file, ``format("semel")`` is the stand-in."""
    with standing_in(spark):
        yield


def ours(spark: SparkSession, name: str | None = None) -> DataFrame:
    reader = spark.readStream.format("semel")
    return (reader.name(name) if name else reader).load()


def keys(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("cast('x' as string) as key")


# Who calls


def test_callback_knows_its_query_run_and_batch(spark: SparkSession) -> None:
    running, found = answers(numbers(spark), lambda frame, batch: (called(frame), batch), 2)
    assert [call.batch for call, _ in found] == [batch for _, batch in found] == [0, 1]
    assert {(call.query, call.run) for call, _ in found} == {(running.id, running.runId)}


def test_outside_of_foreach_batch_there_is_no_callback(spark: SparkSession) -> None:
    assert streaming_query.callback(spark.range(1)) is None
    with pytest.raises(Unsupported, match="NO_CALLBACK"):
        observe(spark.range(1))


def test_query_is_found_where_the_callbacks_own_session_lists_none(spark: SparkSession, tmp_path: Path) -> None:
    def ask(frame: DataFrame, batch: int) -> tuple[Execution, int]:
        return execution(frame), len(frame.sparkSession.streams.active)

    running, [(found, listed)] = answers(numbers(spark), ask, checkpoint=tmp_path / "cp")
    assert listed == 0, "if Spark lists it here one day, the shared state is not needed any more"
    assert (found.query, found.run, found.name) == (running.id, running.runId, None)
    assert found.checkpoint == f"file:{tmp_path / 'cp'}", "a URI with one slash, also where a path was given"
    assert not found.temporary
    assert found.trigger is Trigger.PROCESSING_TIME


def test_query_without_a_checkpoint_location_has_a_temporary_one(spark: SparkSession) -> None:
    _, [found] = answers(numbers(spark), lambda frame, batch: execution(frame))
    assert found.temporary
    assert found.checkpoint.startswith("file:/")


def test_query_of_another_session_with_a_name_is_found(spark: SparkSession, tmp_path: Path) -> None:
    found: queue.Queue[Execution] = queue.Queue()
    writer = (
        numbers(spark.newSession())
        .writeStream.queryName("by-name")
        .option("checkpointLocation", str(tmp_path / "temporary-of-mine"))
    )
    running = writer.foreachBatch(lambda frame, batch: found.put(execution(frame))).start()
    try:
        answer = found.get(timeout=PATIENCE)
    finally:
        running.stop()
    assert (answer.name, answer.query, answer.temporary) == ("by-name", running.id, False)


@pytest.mark.parametrize(
    ("trigger", "expected"), [({"availableNow": True}, Trigger.AVAILABLE_NOW), ({"once": True}, Trigger.ONCE)]
)
def test_triggers_that_end_by_themselves(
    spark: SparkSession, tmp_path: Path, trigger: dict[str, Any], expected: Trigger
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.txt").write_text("a\nb\n")
    _, [found] = answers(spark.readStream.text(str(tmp_path / "in")), lambda frame, batch: execution(frame), **trigger)
    assert found.trigger is expected


@pytest.mark.spark_4_2
def test_every_trigger_has_the_name_of_a_class_of_spark(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    for trigger in Trigger:
        jvm.java.lang.Class.forName(f"org.apache.spark.sql.execution.streaming.{trigger.value}")


@pytest.mark.spark_4_2
def test_sources_in_python_cannot_report_lag_as_spark_names_it(spark: SparkSession) -> None:
    """docs/metrics.md says so. Where this fails, semel can give ``avgOffsetsBehindLatest`` and its likes."""
    jvm: Any = spark._jvm
    python = "org.apache.spark.sql.execution.datasources.v2.python"
    reports = jvm.java.lang.Class.forName("org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics")
    for name in ("PythonMicroBatchStreamWithAdmissionControl", "PythonMicroBatchStreamWithTriggerAvailableNow"):
        assert not reports.isAssignableFrom(jvm.java.lang.Class.forName(f"{python}.{name}"))


def test_asynchronous_progress_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its offset log is written behind the batches.

    Spark itself refuses it for foreachBatch, unless it is told not to.
    """
    caught: queue.Queue[BaseException] = queue.Queue()

    def callback(frame: DataFrame, batch: int) -> None:
        try:
            execution(frame)
        except Unsupported as refused:
            caught.put(refused)

    options = {"asyncProgressTrackingEnabled": "true", "_asyncProgressTrackingOverrideSinkSupportCheck": "true"}
    writer = numbers(spark).writeStream.options(**options).option("checkpointLocation", str(tmp_path / "cp"))
    running = writer.foreachBatch(callback).start()
    try:
        refused = caught.get(timeout=PATIENCE)
    finally:
        running.stop()
    assert "AsyncProgressTrackingMicroBatchExecution" in str(refused)
    assert "[SEMEL_QUERY_KIND]" in str(refused)


# The offset log


def test_offset_log_has_the_end_of_the_batch_before_it_runs(spark: SparkSession) -> None:
    def ask(frame: DataFrame, batch: int) -> tuple[Any, ...]:
        found = execution(frame)
        return tuple(streaming_query.offset_log_entry(found, n) for n in (batch - 1, batch, batch + 1))

    _, [first, second] = answers(ours(spark), ask, 2)
    before, entry, after = first
    assert (before, after) == (None, None)
    assert entry.version == 1
    assert list(entry.offsets) == ["0"]
    assert parse(entry.offsets["0"]) == SourceOffset("c", {"in": TopicOffset("t", {0: 5}, {0: 10})})
    assert second[0] == entry


def ask_sources(frame: DataFrame, batch: int) -> tuple[tuple[SourceInfo, ...], Any]:
    found = execution(frame)
    return streaming_query.sources(found), streaming_query.offset_log_entry(found, batch)


def test_sources_are_in_the_order_of_the_offset_log_and_ours_is_known_by_its_format(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "rows.txt").write_text("a\n")
    frame = keys(numbers(spark)).union(keys(ours(spark))).union(keys(spark.readStream.text(str(tmp_path))))
    _, [(sources, entry)] = answers(frame, ask_sources)
    assert sources == (SourceInfo(None, "0", False), SourceInfo(None, "1", True), SourceInfo(None, "2", False))
    assert [entry.offsets[str(n)][:12] for n in range(3)] == ['{"offset":10', '{"cluster": ', '{"logOffset"']


def test_the_group_of_a_source_of_ours(spark: SparkSession) -> None:
    frame = spark.readStream.format("semel").option("kafka.Group.ID", "readers").load()
    _, [(sources, _)] = answers(keys(frame).union(keys(ours(spark))), ask_sources)
    assert sources == (SourceInfo(None, "0", True, "readers"), SourceInfo(None, "1", True, None))


def test_source_used_twice_is_two_sources(spark: SparkSession) -> None:
    once = keys(ours(spark))
    _, [(sources, entry)] = answers(once.union(once), ask_sources)
    assert [source.ours for source in sources] == [True, True]
    assert entry.offsets["0"] == entry.offsets["1"]


@pytest.mark.spark_4_2
def test_source_used_twice_has_one_key_in_version_2_of_the_log(
    spark: SparkSession, setting: Callable[[str, str], None]
) -> None:
    setting("spark.sql.streaming.offsetLog.formatVersion", "2")
    once = keys(ours(spark))
    _, [(sources, entry)] = answers(once.union(once), ask_sources)
    assert entry.version == 2
    assert [source.key for source in sources] == ["1", "1"]
    assert list(entry.offsets) == ["1"]


@pytest.mark.spark_4_2
def test_two_sources_in_version_2_of_the_log(spark: SparkSession, setting: Callable[[str, str], None]) -> None:
    setting("spark.sql.streaming.offsetLog.formatVersion", "2")
    _, [(sources, entry)] = answers(keys(ours(spark)).union(keys(numbers(spark))), ask_sources)
    assert sources == (SourceInfo(None, "0", True), SourceInfo(None, "1", False))
    assert set(entry.offsets) == {"0", "1"}


@pytest.mark.spark_4_3
def test_sources_with_names(spark: SparkSession, setting: Callable[[str, str], None]) -> None:
    setting("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    _, [(sources, entry)] = answers(keys(numbers(spark, "left")).union(keys(ours(spark, "right"))), ask_sources)
    assert sources == (SourceInfo("left", "left", False), SourceInfo("right", "right", True))
    assert (entry.version, set(entry.offsets)) == (2, {"left", "right"})


# Settings, stages


@pytest.mark.spark_4_2
def test_settings_in_force(spark: SparkSession, setting: Callable[[str, str], None]) -> None:
    plain = Settings(
        state_format=1,
        commit_validation=True,
        pipelined=False,
        retained_stages=KEPT_STAGES,
        retained_jobs=1000,
    )
    _, [found] = answers(numbers(spark), lambda frame, batch: streaming_query.settings(frame))
    assert found == plain
    setting("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
    setting("spark.sql.streaming.stateStore.commitValidation.enabled", "false")
    _, [found] = answers(numbers(spark), lambda frame, batch: streaming_query.settings(frame))
    assert (found.state_format, found.commit_validation) == (2, False)


def test_when_a_micro_batch_began(spark: SparkSession) -> None:
    def look(frame: DataFrame, batch: int) -> tuple[float, int, float]:
        called = streaming_query.callback(frame)
        assert called is not None
        return before, streaming_query.batch_start_ms(frame, called.run), time.time() * 1000

    before = time.time() * 1000 - 1
    _, found = answers(numbers(spark), look)
    assert found
    assert all(earlier <= began <= now for earlier, began, now in found)


# What the sink knows, and a replay


def position(ends: dict[int, int]) -> KafkaSource:
    return KafkaSource("c", {"in": TopicEnd("t", ends)})


def test_batches_start_where_their_source_began_and_where_the_one_before_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    last: list[MicroBatch] = []

    def ask(frame: DataFrame, batch: int) -> tuple[Query, MicroBatch]:
        found = observe(frame, last[0] if last else None)
        last[:] = [found]
        return found.query, found

    running, found = answers(ours(spark), ask, 4, checkpoint=tmp_path / "cp")
    query = found[0][0]
    assert all(answer[0] is query for answer in found), "asked once a run"
    assert (query.id, query.run, query.stateful, query.ends_by_itself) == (running.id, running.runId, False, False)
    parts = [batch.sources[0] for _, batch in found]
    assert [part.start for part in parts] == [
        position(ends) for ends in ({0: 5}, {0: 10}, {0: 15, 1: 3}, {0: 20, 1: 4})
    ]
    assert [part.end for part in parts] == [position(ends) for ends in ({0: 10}, {0: 15}, {0: 20, 1: 4}, {0: 25, 1: 5})]
    assert [batch.planned.ends for _, batch in found] == [(part.end,) for part in parts]
    assert found[1][1].starts == found[0][1].ends


def test_stateful_query_is_told(spark: SparkSession) -> None:
    _, [batch] = answers(ours(spark).groupBy("key").count(), lambda frame, number: observe(frame), mode="update")
    assert batch.query.stateful
    assert batch.planned.stateful


def test_batch_whose_commit_entry_is_lost_is_replayed_and_skipped(spark: SparkSession, tmp_path: Path) -> None:
    """The checkpoint is cut to what a crash between the sink's commit and Spark's leaves: offsets of a batch, and no
    commit of it.
    """

    def ask(frame: DataFrame, batch: int) -> tuple[Query, MicroBatch, tuple[Any, ...]]:
        found = observe(frame)
        asked = (batch - 2, batch - 1, batch, batch + 1)
        return found.query, found, tuple(found.positions(number) for number in asked)

    first, before = answers(ours(spark), ask, 3, checkpoint=tmp_path / "cp")
    newest = 1  # batch 2 was called, so this one is committed; how many came behind them until the stop is not known
    for log, lost in (("commits", newest), ("offsets", newest + 1)):
        numbers = [int(path.name) for path in (tmp_path / "cp" / log).iterdir() if path.name.isdigit()]
        assert lost in numbers
        cut(tmp_path / "cp", log, sum(number >= lost for number in numbers))
    second, [(query, batch, facts)] = answers(ours(spark), ask, checkpoint=tmp_path / "cp")
    assert (second.id, second.runId != first.runId) == (first.id, True)
    assert batch.number == newest
    done = [earlier for _, earlier, _ in before if earlier.number == newest]
    assert done, "the batch was not seen in the first run"
    assert all(earlier.sources == batch.sources for earlier in done)
    (start,) = (part.start for part in batch.sources)
    assert facts == (None, (start,), batch.planned.ends, None)
    (_, first_batch, _), _, (_, _, third) = before
    assert third[0] == first_batch.planned.ends, "batch 2 asks the log itself for the end of batch 0"
    committed = Progress(query=query.id, run=first.runId, batch=batch.number, sources=batch.planned.ends)
    assert reconcile(batch.planned, committed) == Skip()
    earlier = Progress(
        query=query.id,
        batch=batch.number - 1,
        sources=tuple(part.start for part in batch.sources if part.start is not None),
    )
    assert reconcile(batch.planned, earlier) == Run()


def test_sources_that_are_not_ours_are_texts(spark: SparkSession) -> None:
    _, [batch] = answers(numbers(spark), lambda frame, number: observe(frame))
    [part] = batch.sources
    assert (part.start, part.end, part.began) == (None, OpaqueSource('{"offset":10,"timestamp":5000}'), None)
    assert (batch.starts, batch.ends) == ((None,), ('{"offset":10,"timestamp":5000}',))
