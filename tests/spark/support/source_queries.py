"""Queries on the source, and the batches that they have read."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.other_client import produce
from tests.support.waiting import wait_for

numbers = count()


def stream(spark: SparkSession, servers: str, **options: Any) -> DataFrame:
    return spark.readStream.format("semel").option("kafka.bootstrap.servers", servers).options(**options).load()


def batch(spark: SparkSession, servers: str, **options: Any) -> DataFrame:
    return spark.read.format("semel").option("kafka.bootstrap.servers", servers).options(**options).load()


def add(servers: str, topic: str, first: int, last: int, *, partitions: int = 1) -> None:
    produce(servers, topic, [{"value": f"v{i}".encode(), "partition": i % partitions} for i in range(first, last)])


def texts(first: int, last: int) -> list[bytes]:
    return sorted(f"v{i}".encode() for i in range(first, last))


class Batches:
    """A foreachBatch callback that keeps the values of each batch, and fails where it is told to, after it has read."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.seen: dict[int, list[bytes]] = {}
        self.fail_at = fail_at

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        self.seen[batch_id] = [bytes(row["value"]) for row in df.select("value").collect()]
        if batch_id == self.fail_at:
            raise RuntimeError("as told")

    @property
    def all(self) -> list[bytes]:
        return sorted(value for values in list(self.seen.values()) for value in values)


Start = Callable[..., StreamingQuery]


def finish(query: StreamingQuery) -> None:
    assert query.awaitTermination(120), "the query did not end by itself"


def wait_until(query: StreamingQuery, condition: Callable[[], bool]) -> None:
    def done() -> bool:
        failed = query.exception()
        if failed is not None:
            raise failed
        return condition()

    wait_for(done, "what the query is to do")
