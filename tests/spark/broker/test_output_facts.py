"""What the sink knows of its output topics holds from batch to batch, and is asked again when it changed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from semel.config import ClientConfig
from semel.errors import DataLoss
from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from semel.wire.api import topics
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.connection import Connection
from tests.spark.support.copy_query import Callback, Line
from tests.spark.support.topics_and_drivers import produce, values
from tests.support.other_client import delete
from tests.support.topics import create

BATCHES, ROWS = 4, 400


@pytest.fixture
def line(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Line:
    made = Line.new(spark, kafka, tmp_path, "facts", per_batch=ROWS // BATCHES)
    produce(kafka, made.source, range(ROWS))
    return made


@pytest.fixture
def client(kafka: Sandbox) -> Iterator[Client]:
    with Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as client:
        yield client


def before_batch(number: int, change: Callable[[], object]) -> Callable[[KafkaSink], Callback]:
    """Change something between two batches of one run."""

    def around(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, batch: int) -> None:
            if batch == number:
                change()
            sink(df, batch)

        return callback

    return around


@contextmanager
def requests_of_batches() -> Iterator[tuple[list[Counter[str]], Callable[[KafkaSink], Callback]]]:
    """What each call of the sink asks brokers, by kind, without the thread that waits for markers."""
    calls: list[Counter[str]] = []
    threads: set[int] = set()
    send = Connection._send_frame

    def sent(self: Connection, pieces: Any, due: Any) -> Any:
        if threading.get_ident() in threads:
            calls[-1][due.request_type.__name__.removesuffix("Request")] += 1
        return send(self, pieces, due)

    def around(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, batch: int) -> None:
            threads.add(threading.get_ident())
            calls.append(Counter())
            sink(df, batch)

        return callback

    with patch.object(Connection, "_send_frame", sent):
        yield calls, around


def test_a_batch_asks_for_what_may_have_changed_and_no_more(line: Line) -> None:
    """Metadata once, before the commit."""
    with requests_of_batches() as (calls, around):
        line.run(around=around)
    line.assert_exact()
    assert len(calls) == BATCHES
    assert calls[0]["DescribeConfigs"] >= 1
    for call in calls[1:]:
        assert call["DescribeConfigs"] == 0
        assert call["Metadata"] == call["AddPartitionsToTxn"] == call["Produce"] == call["EndTxn"] == 1
        assert call.total() == 6, "and where the log of rows and progress begins"


def test_a_topic_that_has_grown(line: Line, client: Client) -> None:
    """A batch that has begun may not see it, the next one does."""
    keyed = line.rows().select(f.get_json_object(f.col("value").cast("string"), "$.id").alias("key"), "value")
    line.run(rows=keyed, around=before_batch(1, lambda: topics.grow(client, line.target, 12)))
    assert len(values(line.kafka.bootstrap_servers, line.target)) == ROWS
    partitions = [(line.target, index) for index in range(12)]
    ends = list_offsets(client, dict.fromkeys(partitions, LATEST), read_committed=True)
    assert all(end.offset > 0 for end in ends.values())


def test_batches_that_the_topic_takes_no_longer(line: Line, client: Client) -> None:
    """The batch is run again, with smaller ones."""
    lower = {"max.message.bytes": "1500"}
    line.run(around=before_batch(2, lambda: topics.alter_config(client, line.target, lower)))
    line.assert_exact()


@pytest.mark.parametrize("partitions", [3, 2])
def test_a_topic_that_is_made_again_between_two_batches(line: Line, partitions: int) -> None:
    servers = line.kafka.bootstrap_servers

    def make_again() -> None:
        delete(servers, line.target)
        create(servers, line.target, partitions)

    with pytest.raises(DataLoss, match="created again") as refused:
        line.run(around=before_batch(2, make_again))
    assert refused.value.tag == "OUTPUT_RECREATED"
    assert values(servers, line.target) == []
