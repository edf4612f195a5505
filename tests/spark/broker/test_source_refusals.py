"""What the source refuses, and how errors of its tasks and readers come out of Spark."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from semel.errors import ConfigError, DataLoss, Retriable, SemelError
from semel.sandbox import Sandbox
from semel.spark.errors import error
from tests.spark.support.source_queries import Batches, Start, add, batch, finish, numbers, stream, texts, wait_until
from tests.support.other_client import delete_records
from tests.support.topics import create
from tests.support.waiting import wait_for


@pytest.fixture
def servers(kafka: Sandbox) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def topic() -> str:
    return f"spark-source-{next(numbers)}"


def failure(query: StreamingQuery) -> SemelError:
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(120)
    found = error(raised.value)
    assert found is not None, str(raised.value)
    return found


# ---- what goes wrong


def test_lost_rows_stop_the_query_and_our_error_comes_out(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, start: Start
) -> None:
    create(servers, topic)
    add(servers, topic, 0, 10)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    finish(start(stream(spark, servers, **options), Batches(), tmp_path, ends=True))
    add(servers, topic, 10, 30)
    delete_records(servers, topic, 0, 20)
    found = failure(start(stream(spark, servers, **options), Batches(), tmp_path, ends=True))
    assert isinstance(found, DataLoss)
    assert "[10, 20)" in found.message
    batches = Batches()
    finish(start(stream(spark, servers, **options, failOnDataLoss=False), batches, tmp_path, ends=True))
    assert batches.all == texts(20, 30)


def test_a_task_that_fails_says_why(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, start: Start
) -> None:
    """The driver has planned the batch when the rows go: the task finds out."""
    create(servers, topic)
    add(servers, topic, 0, 10)

    class Deleting(Batches):
        def __call__(self, df: DataFrame, batch_id: int) -> None:
            if batch_id == 1:
                delete_records(servers, topic, 0, 15)
            super().__call__(df, batch_id)

    query = start(stream(spark, servers, subscribe=topic, startingOffsets="earliest"), Deleting(), tmp_path)
    wait_until(query, lambda: (tmp_path / "commits" / "0").exists())
    add(servers, topic, 10, 20)
    found = failure(query)
    assert isinstance(found, DataLoss)
    assert "[10, 15)" in found.message


@pytest.mark.parametrize(
    ("options", "tag"),
    [
        ({"subscribe": "in", "startingOffset": "latest"}, "UNKNOWN_OPTION"),
        ({"subscribe": "in", "kafka.auto.offset.reset": "latest"}, "WRONG_VALUE"),
        ({}, "CONFIG"),
    ],
)
def test_bad_options_are_refused_when_the_frame_is_made(
    spark: SparkSession, servers: str, options: dict[str, str], tag: str
) -> None:
    for load in (batch, stream):
        with pytest.raises(Exception, match=rf"\[SEMEL_{tag}\]") as raised:
            load(spark, servers, **options)
        assert isinstance(error(raised.value), ConfigError)


def test_what_is_not_there(spark: SparkSession, servers: str, tmp_path: Path, start: Start) -> None:
    with pytest.raises(Exception, match=r"\[SEMEL_UNKNOWN_TOPIC\]"):
        batch(spark, servers, subscribe="no-such-topic").collect()
    found = failure(start(stream(spark, servers, subscribe="no-such-topic"), Batches(), tmp_path))
    assert (type(found), found.tag) == (ConfigError, "UNKNOWN_TOPIC")


def test_an_unreachable_broker_is_named_in_time(spark: SparkSession, tmp_path: Path, start: Start) -> None:
    options = {"subscribe": "in", "kafka.default.api.timeout.ms": 2_000}
    found = failure(start(stream(spark, "127.0.0.1:1", **options), Batches(), tmp_path))
    assert isinstance(found, Retriable)
    assert "127.0.0.1:1" in found.message


def test_a_query_that_waits_for_an_unreachable_broker_can_be_stopped(
    spark: SparkSession, tmp_path: Path, start: Start
) -> None:
    query = start(
        stream(spark, "127.0.0.1:1", subscribe="in", **{"kafka.default.api.timeout.ms": 300_000}), Batches(), tmp_path
    )
    wait_for(lambda: query.status["message"].startswith("Getting offsets"), "the question that nobody answers", 120)
    stopping = threading.Thread(target=query.stop, daemon=True)
    stopping.start()
    stopping.join(120)
    assert not stopping.is_alive(), "it stops only when the question is given up"
    assert not query.isActive


def test_writing_without_a_prefix_is_refused(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    """What a query of Spark's own sink lacks, whose user changes the word alone."""
    rows = spark.createDataFrame([("v",)], "value string")
    options = {"kafka.bootstrap.servers": servers, "topic": "out"}
    with pytest.raises(Exception, match="transactionalIdPrefix is missing") as raised:
        rows.write.format("semel").mode("append").options(**options).save()
    assert isinstance(error(raised.value), ConfigError)
    query = spark.readStream.format("rate").load().selectExpr("string(value) as value").writeStream.format("semel")
    with pytest.raises(Exception, match="transactionalIdPrefix is missing") as raised:
        query.options(**options, checkpointLocation=str(tmp_path)).start().awaitTermination(120)
    assert isinstance(error(raised.value), ConfigError)
