"""Objection 17: partitions are added to the output topic, and to the input, in mid-batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from confluent_kafka import admin as kafka_admin
from pyspark.sql import DataFrame, SparkSession

from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from semel.testing.records import read
from tests.spark.support.copy_query import Callback, Line
from tests.spark.support.topics_and_drivers import produce


def test_partitions_are_added_in_mid_batch(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    line = Line.new(spark, kafka, tmp_path, "grown", per_batch=100)
    produce(kafka, line.source, range(300))
    admin = kafka_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def growing(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, number: int) -> None:
            if number == 1:
                # when the rows are computed, partitions are in the transaction already, and nothing is written yet
                def added(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                    admin = kafka_admin.AdminClient({"bootstrap.servers": servers})
                    for topic, partitions in ((target, 6), (source, 3)):
                        if len(admin.list_topics(topic, 30).topics[topic].partitions) < partitions:
                            admin.create_partitions([kafka_admin.NewPartitions(topic, partitions)])[topic].result(60)
                    yield from batches

                df = df.coalesce(1).mapInArrow(added, df.schema)
            sink(df, number)

        return callback

    servers, target, source = kafka.bootstrap_servers, line.target, line.source
    line.run(around=growing)
    assert len(admin.list_topics(target, 30).topics[target].partitions) == 6
    produce(kafka, line.source, range(300, 600), partitions=3)
    line.run()
    line.assert_exact()
    rows = read(servers, [target], {"id": "json:$.id"}).to_pylist()
    assert {row["partition"] for row in rows} == set(range(6)), "batches that begin later use the new partitions"
