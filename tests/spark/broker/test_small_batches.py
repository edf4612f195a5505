"""A small batch is one task: read from all its partitions, written with one ticket, not shuffled. What is written is
what several tasks would write.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from tests.spark.support.copy_query import Line
from tests.spark.support.topics_and_drivers import create, produce, values

ROWS = 300
#: More than the source reads in one task by default.
MANY = 5_000


@pytest.fixture
def line(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Line:
    made = Line.new(spark, kafka, tmp_path, "small", per_batch=150)
    produce(kafka, made.source, range(ROWS))
    return made


def placed(servers: str, topic: str, partitions: int) -> list[list[tuple[bytes, bytes]]]:
    """Key and value of each row of each partition, as librdkafka reads them."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.partition.eof": True})
    found: list[list[tuple[bytes, bytes]]] = [[] for _ in range(partitions)]
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    ended: set[int] = set()
    while len(ended) < partitions:
        for message in consumer.consume(500, 0.1):
            if message.error() is None:
                found[message.partition()].append((message.key(), message.value()))
            else:
                ended.add(message.partition())
    consumer.close()
    return [sorted(rows) for rows in found]


@pytest.mark.parametrize("small", [True, False])
def test_it_is_one_task_and_the_rows_are_where_their_keys_say(
    line: Line, caplog: pytest.LogCaptureFixture, small: bool
) -> None:
    """The second way is the control: several tasks and a shuffle."""
    caplog.set_level(logging.DEBUG, "semel.spark")
    line.run(reading={"minRecordsPerPartition": ROWS if small else 1})
    said = "not shuffled, at most 1 tasks" if small else "shuffled to at most"
    assert sum(said in record.getMessage() for record in caplog.records) == 2, "in each of two batches"
    line.assert_exact()
    servers = line.kafka.bootstrap_servers
    reference = create(line.kafka, "small-reference", 3)
    produce_again(servers, line.source, reference)
    assert placed(servers, line.target, 3) == placed(servers, reference, 3)


@pytest.mark.parametrize("asked", ["nothing", "a function", "tasks of the source", "tasks of the sink"])
def test_few_rows_that_several_tasks_read_are_written_by_one(
    line: Line, caplog: pytest.LogCaptureFixture, asked: str
) -> None:
    """Where the plan chooses columns and rows, and nothing asks for more tasks. All rows are there in any case."""
    caplog.set_level(logging.DEBUG, "semel.spark")
    produce(line.kafka, line.source, range(ROWS, MANY))
    reading = {"subscribe": line.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(MANY)}
    if asked == "tasks of the source":
        reading["minRecordsPerPartition"] = "1"
    rows = line.spark.readStream.format("semel").options(**line.kafka_options, **reading).load().select("key", "value")
    if asked == "a function":
        rows = rows.select("key", f.udf(bytes, "binary")("value").alias("value"))
    line.run(rows=rows, minRecordsPerPartition=100 if asked == "tasks of the sink" else None)
    said = "not shuffled, at most 1 tasks" if asked == "nothing" else ": shuffled to at most"
    assert sum(said in record.getMessage() for record in caplog.records) == 1
    line.assert_exact()


@pytest.mark.parametrize("several", [False, True])
def test_a_batch_job_of_few_rows_is_one_task(
    spark: SparkSession, kafka: Sandbox, caplog: pytest.LogCaptureFixture, several: bool
) -> None:
    caplog.set_level(logging.DEBUG, "semel.spark")
    topic = create(kafka, "small-job", 3)
    rows = spark.range(0, ROWS, 1, 4).selectExpr("cast(id % 7 as string) as key", "cast(id as string) as value")
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "minRecordsPerPartition": 1 if several else None}
    written = KafkaSink(topic=topic, transactionalIdPrefix=topic, **options).write(rows, version=1)
    assert written is not None
    assert written.rows == ROWS
    said = ": shuffled to at most" if several else "not shuffled, at most 1 tasks"
    assert sum(said in record.getMessage() for record in caplog.records) == 1
    assert sorted(map(int, values(kafka.bootstrap_servers, topic))) == list(range(ROWS))
    partitions = [{key for key, _ in part} for part in placed(kafka.bootstrap_servers, topic, 3)]
    assert sum(map(len, partitions)) == 7, "each key is on one partition"


def produce_again(servers: str, source: str, target: str) -> None:
    """By librdkafka, with the partitioner of Java's producer."""
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for rows in placed(servers, source, 2):
        for key, value in rows:
            producer.produce(target, value, key)
    assert producer.flush(60) == 0


def test_rows_that_name_their_topics(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "semel.spark")
    other = create(line.kafka, "small-other", 2)
    odd = (f.get_json_object(f.col("value").cast("string"), "$.id").cast("int") % 2).cast("boolean")
    rows = line.rows(minRecordsPerPartition=ROWS).select(
        "key", "value", f.when(odd, f.lit(other)).otherwise(f.lit(line.target)).alias("topic")
    )
    line.run(rows=rows, topic=None, topics=f"{line.target},{other}")
    assert any("not shuffled, at most 1 tasks" in record.getMessage() for record in caplog.records)
    servers = line.kafka.bootstrap_servers
    assert len(set(values(servers, other))) == len(set(values(servers, line.target))) == ROWS / 2


def test_what_asks_for_more_tasks_gets_them(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "semel.spark")
    rows = line.rows(minRecordsPerPartition=ROWS).select("key", "value").repartition(2)
    line.run(rows=rows)
    assert not any("not shuffled" in record.getMessage() for record in caplog.records)
    assert len(set(values(line.kafka.bootstrap_servers, line.target))) == ROWS


def test_only_partitions_with_rows_get_a_marker(line: Line) -> None:
    """Rows of two keys, over twenty partitions, in two transactions."""
    wide = create(line.kafka, "small-wide", 20)
    two_keys = (f.get_json_object(f.col("value").cast("string"), "$.id").cast("int") % 2).cast("string")
    line.run(rows=line.rows(minRecordsPerPartition=ROWS).select(two_keys.alias("key"), "value"), topic=wide)
    ends = [end_of(line.kafka.bootstrap_servers, wide, index) for index in range(20)]
    assert sum(ends) == ROWS + 2 * 2
    assert sum(end > 0 for end in ends) == 2


def end_of(servers: str, topic: str, index: int) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none"})
    high = consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30)[1]
    consumer.close()
    return int(high)
