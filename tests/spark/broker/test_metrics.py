"""The numbers of a query that is run again, skipped and stopped, against the broker's own log files, and what Spark's
API shows beside them.
"""

from __future__ import annotations

import struct
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from semel.errors import ConfigError
from semel.metrics.server import MetricsServer
from semel.sandbox import Sandbox
from semel.spark import KafkaSink, MetricsListener, serve_metrics
from semel.spark.metrics import meter
from tests.spark.support.copy_query import Callback, Line, cut, killing
from tests.spark.support.topics_and_drivers import group_offsets, produce, source_ends, unique, values
from tests.support.waiting import wait_for

# ---- an independent look: the log files of the broker, batch by batch, in Kafka's published format

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CONTROL, _TRANSACTIONAL = 0x20, 0x10


@dataclass
class Logged:
    """What the files of a topic hold: how its transactions ended, and rows and bytes of those that were committed, or
    of none at all.
    """

    commits: int = 0
    aborts: int = 0
    rows: int = 0
    size: int = 0
    open: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, header: tuple[int, ...], body: bytes) -> None:
        length, attributes, producer, count = header[1], header[5], header[9], header[12]
        if attributes & _CONTROL:
            # behind five lengths and deltas of a byte each, and the key's version
            committed = struct.unpack_from(">h", body, 7)[0] == 1
            self.commits, self.aborts = self.commits + committed, self.aborts + (not committed)
            rows, size = self.open.pop(producer, (0, 0))
            self.rows, self.size = self.rows + rows * committed, self.size + size * committed
        elif attributes & _TRANSACTIONAL:
            rows, size = self.open.get(producer, (0, 0))
            self.open[producer] = rows + count, size + 12 + length


def logged(kafka: Sandbox, topic: str) -> dict[int, Logged]:
    """By partition."""
    found: dict[int, Logged] = {}
    for segment in sorted(kafka.directory.rglob(f"{topic}-*/*.log")):
        partition = found.setdefault(int(segment.parent.name.rpartition("-")[2]), Logged())
        content, at = segment.read_bytes(), 0
        while at + _HEADER.size <= len(content) and _HEADER.unpack_from(content, at)[1] > 0:
            header = _HEADER.unpack_from(content, at)
            end = at + 12 + header[1]
            partition.add(header, content[at + _HEADER.size : end])
            at = end
    return found


def markers(kafka: Sandbox, topic: str) -> tuple[int, int]:
    """Commits and aborts of the one prefix that has this progress topic: each of its transactions writes to the one
    partition.
    """
    return sum(each.commits for each in logged(kafka, topic).values()), sum(
        each.aborts for each in logged(kafka, topic).values()
    )


# ---- the scrape


class Scrape:
    """What the endpoint shows of one prefix, now."""

    def __init__(self, server: MetricsServer, prefix: str) -> None:
        self.url, self.prefix = f"http://127.0.0.1:{server.port}/metrics", prefix

    def once(self) -> Callable[..., float | None]:
        """All of it at one moment."""
        with urllib.request.urlopen(self.url, timeout=60) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))

        def find(name: str, **labels: str) -> float | None:
            wanted = {"prefix": self.prefix, **labels}
            return next(
                (s.value for family in families for s in family.samples if s.name == name and wanted == s.labels), None
            )

        return find

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.once()(name, **labels)


@pytest.fixture(scope="module")
def server() -> Iterator[MetricsServer]:
    """It shows the sinks of these tests alone, not those of others in this process, and asks the cluster at each
    scrape.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meter, "_meters", type(meter._meters)())
        with serve_metrics(0, every_seconds=0) as opened:
            yield opened


@pytest.fixture
def told(spark: SparkSession) -> Iterator[list[Mapping[str, Any]]]:
    events: list[Mapping[str, Any]] = []
    listener = MetricsListener(events.append)
    spark.streams.addListener(listener)
    yield events
    spark.streams.removeListener(listener)


def of(told: list[Mapping[str, Any]], prefix: str) -> list[Mapping[str, Any]]:
    """What was told of a prefix's batches; Spark may still tell of the queries of other tests."""
    return [
        each
        for each in told
        if each["event"] == "batch" and each["semel"] is not None and each["semel"]["prefix"] == prefix
    ]


def ends(told: list[Mapping[str, Any]], prefix: str) -> list[Mapping[str, Any]]:
    runs = {each["run"] for each in of(told, prefix)}
    return [each for each in told if each["event"] == "end" and each["run"] in runs]


def counted(calls: list[int]) -> Callable[[KafkaSink], Callback]:
    """Notes which batches Spark hands to the sink. What is observed in there is in no progress of Spark's."""

    def around(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, number: int) -> None:
            calls.append(number)
            sink(df.observe("inside", f.count(f.lit(1)).alias("count")), number)

        return callback

    return around


def test_the_numbers_are_those_of_the_brokers_log(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, server: MetricsServer, told: list[Mapping[str, Any]]
) -> None:
    """Three batches, of which the first is run again, since a task failed; then the newest is replayed, and a fourth
    written.
    """
    line = Line.new(spark, kafka, tmp_path, "measured")
    scrape, calls = Scrape(server, line.prefix), list[int]()
    # rows of any partition are written by the stage that reads them: a task of it that fails is one that writes
    sink: dict[str, Any] = {
        "partitioner": "any",
        "progressTopic": unique("measured-progress"),
        "kafka.group.id": line.prefix,
    }
    rows = line.rows().select("key", "value")
    produce(kafka, line.source, range(250))
    line.run(rows=killing(rows, tmp_path / "died"), around=counted(calls), **sink)
    assert cut(line.checkpoint, "commits", 1) == [2]
    produce(kafka, line.source, range(250, 300))
    observed = rows.observe("rows", f.count(f.lit(1)).alias("count"), f.sum(f.length("value")).alias("bytes"))
    began = time.time()
    line.run(rows=observed, around=counted(calls), **sink)
    assert calls == [0, 1, 2, 2, 3]

    # the same by an independent look
    commits, aborts = markers(kafka, sink["progressTopic"])
    written = logged(kafka, line.target).values()
    assert (commits, aborts) == (4, 1), "the harness: it shows nothing"
    shown = scrape.once()
    assert shown("semel_commits_total") == commits
    assert shown("semel_aborts_total") == aborts
    assert shown("semel_reruns_total") == aborts
    assert (
        shown("semel_rows_total", topic=line.target)
        == sum(each.rows for each in written)
        == len(values(kafka.bootstrap_servers, line.target))
        == 300
    )
    assert shown("semel_bytes_total", topic=line.target) == sum(each.size for each in written)
    outcomes = {
        name: shown("semel_batches_total", outcome=name)
        for name in ("written", "skipped", "rebuilt", "stopped", "failed")
    }
    assert outcomes == {"written": commits, "skipped": len(calls) - commits, "rebuilt": 0, "stopped": 0, "failed": 0}
    assert shown("semel_batch_seconds_count") == len(calls)
    expected = {
        "called": len(calls),
        "decided": len(calls),
        "initialised": 2,
        "begun": commits + aborts,
        "commit_answered": commits,
    }
    expected |= {
        "abort_answered": aborts,
        "job_done": commits,
        "proven": commits,
        "markers_seen": commits + aborts,
        "returning": len(calls),
    }
    assert {step: shown("semel_step_seconds_count", step=step) for step in expected} == expected
    steps = [shown("semel_step_seconds_sum", step=step) or 0.0 for step in expected if step != "markers_seen"]
    assert all(seconds > 0 for seconds in steps)
    assert sum(steps) < (shown("semel_batch_seconds_sum") or 0.0)
    assert began < (shown("semel_last_commit_timestamp_seconds") or 0.0) < time.time()

    # what is behind: rows that nobody has read yet, and rows behind another's open transaction
    produce(kafka, line.source, range(300, 330))
    there = source_ends(kafka.bootstrap_servers, line.source)
    behind = sum(there.values()) - sum(group_offsets(kafka.bootstrap_servers, line.prefix, line.source, there).values())
    assert behind == 30, "the harness: it shows nothing"
    wait_for(lambda: scrape("semel_lag_records", topic=line.source) == behind, "the lag")
    assert scrape("semel_last_stable_offset_held_back_records", topic=line.target) == 0
    other = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": unique("other")})
    other.init_transactions(60)
    other.begin_transaction()
    for _ in range(7):
        other.produce(line.target, value="open", partition=1)
    other.flush(60)
    wait_for(lambda: scrape("semel_last_stable_offset_held_back_records", topic=line.target) == 7, "what is held back")
    other.abort_transaction(60)
    wait_for(
        lambda: scrape("semel_last_stable_offset_held_back_records", topic=line.target) == 0, "that it is free again"
    )

    # the listener, and what Spark observed
    wait_for(lambda: len(ends(told, line.prefix)) == 2, "the ends of two runs")
    assert [(each["failed"], each["error"]) for each in ends(told, line.prefix)] == [(False, None)] * 2
    batches = of(told, line.prefix)
    assert [(each["batch"], each["semel"]["outcome"]) for each in batches] == [
        (0, "written"),
        (1, "written"),
        (2, "written"),
        (2, "skipped"),
        (3, "written"),
    ]
    assert [each["semel"]["rows"] for each in batches] == [100, 100, 50, 0, 50]
    assert sum(each["semel"]["bytes"] for each in batches) == sum(each.size for each in written)
    assert [(each["semel"]["commits"], each["semel"]["aborts"], each["semel"]["reruns"]) for each in batches[:2]] == [
        (1, 1, 1),
        (1, 0, 0),
    ]
    assert [each["lag"] for each in batches[:3]] == [{line.source: 150}, {line.source: 50}, {line.source: 0}]
    assert [each["observed"] for each in batches[:3]] == [{}] * 3
    assert batches[3]["observed"] == {"rows": {"count": 0, "bytes": None}}, "a batch that is skipped is not executed"
    texts = [
        text
        for text in values(kafka.bootstrap_servers, line.target)
        if int(text.split('"id": ')[1].split(",")[0]) >= 250
    ]
    assert batches[4]["observed"] == {"rows": {"count": 50, "bytes": sum(map(len, texts))}}
    assert [each["input_rows"] for each in batches] == [200, 100, 50, 0, 50], (
        "numInputRows of Spark counts each execution"
    )
    for each in batches:
        parts = sum(ms for step, ms in each["semel"]["steps"].items() if step != "markers_seen")
        assert parts <= each["semel"]["milliseconds"] + 0.01, "but for rounding"


def test_a_transaction_is_seen_while_it_is_open_and_a_stop_is_no_failure(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, server: MetricsServer
) -> None:
    """The tasks wait until the query is stopped; the endpoint waits for nobody."""
    line = Line.new(spark, kafka, tmp_path, "stopped")
    scrape, released = Scrape(server, line.prefix), tmp_path / "released"
    produce(kafka, line.source, range(10))

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wait_for(released.exists, "the stop")
        yield from batches

    rows = line.rows().select("key", "value")
    held = rows.mapInArrow(hold, rows.schema)
    query = held.writeStream.foreachBatch(line.sink()).option("checkpointLocation", str(line.checkpoint)).start()
    try:
        wait_for(lambda: (scrape("semel_transaction_age_seconds") or 0.0) > 0, "an open transaction")
        assert scrape("semel_commits_total") == 0
    finally:
        query.stop()
        released.touch()
    assert query.exception() is None
    assert scrape("semel_transaction_age_seconds") == 0
    assert [scrape("semel_batches_total", outcome=outcome) for outcome in ("stopped", "failed", "written")] == [1, 0, 0]
    line.run(rows=held)
    assert (scrape("semel_commits_total"), scrape("semel_aborts_total")) == (1, 1)
    assert [scrape("semel_batches_total", outcome=outcome) for outcome in ("stopped", "failed", "written")] == [1, 0, 1]
    line.assert_exact()


def test_a_state_that_is_rebuilt(spark: SparkSession, kafka: Sandbox, tmp_path: Path, server: MetricsServer) -> None:
    line = Line.new(spark, kafka, tmp_path, "rebuilt")
    scrape = Scrape(server, line.prefix)
    produce(kafka, line.source, range(10))
    rows = line.rows().select("key", "value").dropDuplicates(["value"])
    line.run(rows=rows)
    written = scrape("semel_batches_total", outcome="written")
    assert len(cut(line.checkpoint, "commits", 1)) == 1
    line.run(rows=rows)
    assert scrape("semel_batches_total", outcome="rebuilt") == 1
    assert scrape("semel_batches_total", outcome="skipped") == 0
    assert scrape("semel_batches_total", outcome="written") == written
    assert scrape("semel_rows_total", topic=line.target) == len(values(kafka.bootstrap_servers, line.target)) == 10


def test_what_fails_is_counted_and_told(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, server: MetricsServer, told: list[Mapping[str, Any]]
) -> None:
    """A partition that the output topic lacks, found by a task; no transaction of it is committed."""
    line = Line.new(spark, kafka, tmp_path, "failed")
    scrape, topic = Scrape(server, line.prefix), unique("failed-progress")
    produce(kafka, line.source, range(10))
    with pytest.raises(ConfigError) as raised:
        line.run(rows=line.rows().selectExpr("key", "value", "99 as partition"), progressTopic=topic)
    assert markers(kafka, topic) == (0, 1), "the harness: it shows nothing"
    assert (scrape("semel_commits_total"), scrape("semel_aborts_total"), scrape("semel_reruns_total")) == (0, 1, 0)
    assert scrape("semel_batches_total", outcome="failed") == 1
    assert scrape("semel_rows_total", topic=line.target) == 0
    assert scrape("semel_last_commit_timestamp_seconds") is None
    wait_for(
        lambda: [each["error"] for each in told if each["event"] == "end" and each["failed"]] == [raised.value.tag],
        "the end of the run",
    )
