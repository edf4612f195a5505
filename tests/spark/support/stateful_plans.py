"""Queries with state, and the events they are run over.

Each is given the reading of its source: a join reads it twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from semel.sandbox import Sandbox

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
BATCHES, PER_BATCH = 6, 40

Read = Callable[[], DataFrame]
Plan = Callable[[Read], DataFrame]


def produce_events(kafka: Sandbox, topic: str, *, late: bool = True) -> None:
    """Events of which the time is in the value: it moves on by 40 s a batch; some are too late for a watermark of
    20 s.
    """
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for number in range(BATCHES * PER_BATCH):
        seconds = number if not late or number % 7 else max(0, number - 90)
        value = json.dumps({"id": number, "at": 1_700_000_000 + seconds, "user": f"u{number % 5}"})
        producer.produce(topic, key=f"u{number % 5}", value=value, partition=number % 2)
    assert producer.flush(60) == 0


def events(read: Read) -> DataFrame:
    fields = f.from_json(f.col("value").cast("string"), "id long, at long, user string")
    return read().select(fields.alias("e")).select("e.id", f.timestamp_seconds("e.at").alias("at"), "e.user")


def windowed(read: Read) -> DataFrame:
    rows = events(read).withWatermark("at", "20 seconds")
    counted = rows.groupBy(f.window("at", "30 seconds"), "user").agg(f.count("*").alias("n"), f.sum("id").alias("ids"))
    return counted.select(
        f.to_json(f.struct(f.col("window.start").cast("long").alias("w"), "user", "n", "ids")).alias("value")
    )


def distinct(read: Read) -> DataFrame:
    rows = events(read).withWatermark("at", "20 seconds")
    return rows.dropDuplicates(["user", "at"]).select(
        f.to_json(f.struct("user", f.col("at").cast("long"))).alias("value")
    )


def joined(read: Read) -> DataFrame:
    left = events(read).withWatermark("at", "20 seconds").select(f.col("id").alias("l"), f.col("at").alias("left_at"))
    right = (
        events(read)
        .withWatermark("at", "20 seconds")
        .select((f.col("id") + 45).alias("r"), f.col("at").alias("right_at"))
    )
    near = f.expr("l = r and left_at between right_at - interval 120 seconds and right_at + interval 120 seconds")
    return left.join(right, near).select(f.to_json(f.struct("l", "r")).alias("value"))


class Totals(StatefulProcessor):
    """A running total of each user, next to what was added."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "total long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        found = self._total.get()
        before = int(found[0]) if found is not None else 0
        added = sum(int(part["id"].sum()) for part in rows)
        self._total.update((before + added,))
        yield pd.DataFrame({"value": [json.dumps({"user": key[0], "added": added, "total": before + added})]})

    def close(self) -> None:
        pass


def totals(read: Read) -> DataFrame:
    return events(read).groupBy("user").transformWithStateInPandas(Totals(), "value string", "append", "none")


#: Name, plan, state store and its format.
QUERIES: dict[str, tuple[Plan, str, int]] = {
    "windows-hdfs": (windowed, HDFS, 1),
    "windows-rocksdb": (windowed, ROCKSDB, 1),
    "distinct-hdfs": (distinct, HDFS, 1),
    "distinct-rocksdb": (distinct, ROCKSDB, 1),
    "join-hdfs": (joined, HDFS, 1),
    "join-rocksdb-2": (joined, ROCKSDB, 2),
    "transformWithState-rocksdb": (totals, ROCKSDB, 1),
}
