"""Shared parts of the tests of the mirror: files of MirrorMaker 2, the program, and reads of both clusters with a
client that is not ours.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql import SparkSession

from semel.mirror.config.properties import read_properties
from semel.mirror.flow import Flow, run_flows
from semel.sandbox import Sandbox
from tests.support.waiting import PATIENCE_S

#: Key, value, headers and milliseconds of a record.
Record = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
#: Up to how many offsets the driver copies a round itself (``driver.copy.max.offsets``): all of them, or none.
DRIVER, EXECUTORS = "1000000", "0"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_numbers = count(1)
log = logging.getLogger("semel.mirror")


def unique(name: str) -> str:
    """Return a name that no other test has used."""
    return f"{name}-{next(_numbers)}"


def mm2(directory: Path, a: Sandbox | str, b: Sandbox | str, topics: str, alias: str = "", **keys: str) -> Path:
    """Write a file with one flow, from an alias of its own: each is another mirror. ``keys`` have ``__`` for a dot."""
    alias = alias or unique("A")
    flow = f"{alias}->B"
    lines = {
        "clusters": f"{alias}, B",
        f"{alias}.bootstrap.servers": servers(a),
        "B.bootstrap.servers": servers(b),
        f"{flow}.enabled": "true",
        f"{flow}.topics": topics,
        "replication.factor": "1",
        "tasks.max": "4",
        # each flow of a test would copy those of all others
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        **{key.replace("__", "."): value for key, value in keys.items()},
    }
    path = directory / f"{alias}.properties"
    path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    return path


def servers(where: Sandbox | str) -> str:
    """Return the servers of a cluster, or the given ones."""
    return where if isinstance(where, str) else where.bootstrap_servers


def alias_of(path: Path) -> str:
    """Return the source's alias in a file of :func:`mm2`."""
    return path.stem


def copy_once(spark: SparkSession, path: Path) -> None:
    """``semel mirror --once`` in this process."""
    (flow,) = read_properties(path).flows
    Flow(spark, flow, threading.Event()).run(once=True)


class Running:
    """The flows of a file, in a thread, until the block is left. ``failed`` is what they have ended with."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.failed: list[Exception] = []
        self._stop = threading.Event()
        self._lines: list[str] = []
        self._handler = _Lines(self._lines)
        self._thread = threading.Thread(target=self._run, args=[spark, path])

    def _run(self, spark: SparkSession, path: Path) -> None:
        try:
            run_flows(spark, read_properties(path).flows, self._stop)
        except Exception as error:
            self.failed.append(error)

    def said(self) -> str:
        """Return what the flows have logged."""
        return "\n".join(self._lines)

    def __enter__(self) -> Running:
        log.addHandler(self._handler)
        log.setLevel(logging.INFO)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        log.removeHandler(self._handler)
        assert not self._thread.is_alive()


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


def program(path: Path, *options: str) -> list[str]:
    """Return the command line of ``semel mirror``."""
    return [sys.executable, "-c", "from semel.cli import main; main()", "mirror", str(path), *options]


def produce(sandbox: Sandbox, topic: str, records: Sequence[Mapping[str, Any]], **settings: Any) -> None:
    """Produce records in confluent-kafka's form, and wait until they are acknowledged."""
    producer = Producer({"bootstrap.servers": sandbox.bootstrap_servers, "linger.ms": 20, **settings})
    for record in records:
        producer.produce(topic, **record)
        producer.poll(0)
    assert producer.flush(60) == 0


def set_config(sandbox: Sandbox, topic: str, settings: dict[str, str | None]) -> None:
    """Set settings of a topic, and unset those that are None."""
    entries = [
        ConfigEntry(
            name,
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(30)


def transactions(a: Sandbox, topic: str, outcomes: str) -> Producer:
    """Transactions of three records each, by letter: (c)ommitted, (a)borted, left (o)pen.

    Returns the producer, which may have one open.
    """
    producer = Producer(
        {"bootstrap.servers": a.bootstrap_servers, "transactional.id": unique("writer"), "linger.ms": 5}
    )
    producer.init_transactions(60)
    for number, outcome in enumerate(outcomes):
        producer.begin_transaction()
        for row in range(3):
            producer.produce(topic, f"{number}-{row}-{outcome}", partition=0)
        producer.flush(60)
        if outcome == "c":
            producer.commit_transaction(60)
        elif outcome == "a":
            producer.abort_transaction(60)
    return producer


def partitions(sandbox: Sandbox | str, topic: str) -> list[int]:
    """Return the partitions of a topic, or none if it is missing."""
    found = AdminClient({"bootstrap.servers": servers(sandbox)}).list_topics(timeout=30).topics
    return sorted(found[topic].partitions) if topic in found else []


def topics_of(sandbox: Sandbox) -> set[str]:
    """Return the names of all topics."""
    return set(AdminClient({"bootstrap.servers": sandbox.bootstrap_servers}).list_topics(timeout=30).topics)


def records(sandbox: Sandbox | str, topic: str) -> dict[int, list[Record]]:
    """All that a read_committed reader sees of each partition, in order."""
    settings = {
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 20,
        "fetch.error.backoff.ms": 10,
    }
    consumer = Consumer({"bootstrap.servers": servers(sandbox), "group.id": "none", "check.crcs": True, **settings})
    found: dict[int, list[Record]] = {index: [] for index in partitions(sandbox, topic)}
    try:
        left = set(found)
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in left])
        end = time.monotonic() + PATIENCE_S
        while left:
            assert time.monotonic() < end, f"{topic} was not read to its end"
            for message in consumer.consume(1_000, 0.05):
                if message.error() is None:
                    headers = tuple(message.headers() or ())
                    found[message.partition()].append((message.key(), message.value(), headers, message.timestamp()[1]))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise KafkaException(message.error())
    finally:
        consumer.close()
    return found
