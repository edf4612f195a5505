"""Shared parts of the tests on Spark: topics with numbered rows, driver programs that are killed and restarted, and the
check of the result.

Rows carry their number as ``id`` and the lot they were written in as ``lot``; keys repeat, so that every output
partition has rows of both input partitions and the order within each pair is checked.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from semel.sandbox import Sandbox
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.history import History, assert_exactly_once, check
from semel.testing.program import Program
from semel.testing.records import read
from semel.testing.spark.spark_cluster import LOCAL, SparkCluster
from tests.spark.support.json_argument import Argument
from tests.support import topics
from tests.support.waiting import PATIENCE_S, wait_for

PROGRESS = "semel-progress"
_numbers = count(1)


@dataclass(frozen=True)
class Copy(Argument):
    """The job of a copy: the argument of ``programs/copy.py``. With ``topics``, the rows are spread over these by their
    number.

    ``kafka`` are properties that both ends are given beside what is said here, or in its place. ``min_records`` is what
    a reading task gets at least: 1 has a task for each partition, and keyed rows shuffled, however few there are.
    ``task_scope`` writes by ``format("semel")``, and not by ``KafkaSink``.
    """

    servers: str
    source: str
    target: str
    prefix: str
    checkpoint: str
    per_batch: int
    group: str
    sink: dict[str, str] = field(default_factory=dict)
    topics: list[str] = field(default_factory=list)
    kafka: dict[str, str] = field(default_factory=dict)
    min_records: int = 1
    task_scope: bool = False


def unique(name: str) -> str:
    """Return a name that no other test has used."""
    return f"{name}-{next(_numbers)}"


def create(kafka: Sandbox, name: str, partitions: int, **config: Any) -> str:
    """Create a topic with leaders, and return its name. ``config`` has ``_`` for ``.``."""
    return topics.create(kafka.bootstrap_servers, unique(name), partitions, **config)


def produce(
    kafka: Sandbox, topic: str, ids: Sequence[int], *, partitions: int = 2, lot: int = 100, keys: int = 50
) -> None:
    """Rows with these numbers, number ``i`` in partition ``i % partitions``."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "linger.ms": 50})
    for number in ids:
        value = json.dumps({"id": number, "lot": number // lot})
        producer.produce(topic, key=f"k{number % keys}", value=value, partition=number % partitions)
        producer.poll(0)
    assert producer.flush(60) == 0


def new_copy(
    kafka: Sandbox,
    directory: Path,
    name: str,
    *,
    rows: int,
    per_batch: int,
    outputs: int = 3,
    inputs: int = 2,
    **sink: str,
) -> Copy:
    """Topics of its own, with rows in the source."""
    source, target = create(kafka, f"{name}-in", inputs), create(kafka, f"{name}-out", outputs)
    produce(kafka, source, range(rows), partitions=inputs)
    return Copy(
        kafka.bootstrap_servers,
        source,
        target,
        target,
        str(directory / f"{target}-cp"),
        per_batch,
        f"{target}-group",
        sink,
    )


def look(copy: Copy) -> History:
    """Return what a read_committed reader finds in the output."""
    return check(copy.servers, copy.target, source=copy.source, id="json:$.id", batch="json:$.lot")


def assert_exact(copy: Copy) -> None:
    """All rows once, in their order; the group's offsets are those of the progress, and both are the ends of the
    source.
    """
    print(assert_exactly_once(copy.servers, copy.target, source=copy.source, id="json:$.id", batch="json:$.lot"))
    ends = source_ends(copy.servers, copy.source)
    recorded = progress(copy.servers, copy.prefix)["sources"][0]["topics"][copy.source]["end"]
    assert {int(p): end for p, end in recorded.items()} == ends
    assert group_offsets(copy.servers, copy.group, copy.source, ends) == ends


def source_ends(servers: str, topic: str) -> dict[int, int]:
    """Return the end offset of each partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none"})
    try:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        return {index: consumer.get_watermark_offsets(TopicPartition(topic, index), 30)[1] for index in partitions}
    finally:
        consumer.close()


def group_offsets(
    servers: str, group: str, topic: str, partitions: Sequence[int] | Mapping[int, int]
) -> dict[int, int]:
    """Return the offsets that a group has committed."""
    admin = AdminClient({"bootstrap.servers": servers})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, index) for index in partitions])
    found = admin.list_consumer_group_offsets([asked], require_stable=True)[group].result(60)
    return {each.partition: each.offset for each in found.topic_partitions}


def progress(servers: str, prefix: str, scope: str = "query") -> Any:
    """Return the newest committed progress record of a prefix, read with a client that is not ours. Return None without
    one, or if that is a tombstone.
    """
    rows = read(servers, [PROGRESS], {"key": "key", "value": "value"}, missing="").to_pylist()
    mine = [row for row in rows if json.loads(row["key"]) == [prefix, {"scope": scope}]]
    newest = max(mine, key=lambda row: int(row["offset"]), default=None)
    return json.loads(newest["value"]) if newest is not None and newest["value"] else None


def values(servers: str, topic: str) -> list[str]:
    """Return the values that a read_committed reader sees."""
    return [str(value) for value in read(servers, [topic], {"value": "value"})["value"].to_pylist()]


def everything(servers: str, topic: str) -> list[str]:
    """Return the values that a read_uncommitted reader sees, sorted: partitions come in any order."""
    raw = {"isolation.level": "read_uncommitted", "enable.partition.eof": True, "auto.offset.reset": "error"}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", **raw})
    found: list[str] = []
    try:
        left = set(consumer.list_topics(topic, 30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, index, 0) for index in left])
        end = time.monotonic() + PATIENCE_S
        while left:
            assert time.monotonic() < end, f"{topic} was not read to its end"
            for message in consumer.consume(1000, 1):
                if message.error() is None:
                    found.append(message.value().decode())
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    left.discard(message.partition())
    finally:
        consumer.close()
    return sorted(found)


# ---- drivers

#: Executors in the driver's process: a driver that is killed takes them along, and starts in half the time.
LOCAL_DRIVER = SparkCluster(LOCAL)
#: Settings with which Python workers outlive their Java: PySpark's daemon would end them together.
WITHOUT_DAEMON = {"spark.python.use.daemon": "false"}


def program(module: str, *arguments: object) -> list[str]:
    """Return the command line of ``tests.spark.programs.<module>``."""
    return [sys.executable, "-m", f"tests.spark.programs.{module}", *map(str, arguments)]


def _struck_or_ended(plan: CrashPlan, point: CrashPoint, driver: Program) -> bool:
    return plan.struck(point) or driver.process.poll() is not None


def kill_when_all_are_met(argv: Sequence[str], plan: CrashPlan, spark: SparkCluster = LOCAL_DRIVER) -> None:
    """Run a driver until every point of the plan has struck, and kill it with SIGKILL while those that hold are held.

    Of several queries in one driver each is held at another step: one kill, and one start, strike them all where they
    stand.
    """
    with spark.driver(argv, plan) as driver:
        for point in plan.points:
            wait_for(partial(_struck_or_ended, plan, point, driver), f"{point} to strike")
            assert plan.struck(point), driver.tail()
        assert driver.process.poll() is None, driver.tail()
