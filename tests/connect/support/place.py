"""Names of its own for one test of a worker on one Spark: a group, its topics, connectors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from semel.records.partitioner import murmur2
from semel.testing.records import arrived, read
from tests.connect.support.lines import STRING
from tests.connect.support.running import Running
from tests.support import topics
from tests.support.waiting import wait_for

NUMBERS = "tests.connect.support.numbers.Numbers"
PARTITIONS = 5
_numbers = count(1)


class Place:
    """Names of its own for one test: a group, an offsets topic, an output topic."""

    def __init__(self, spark: SparkSession, servers: str, directory: Path, replication: int = 1) -> None:
        self.spark, self.servers = spark, servers
        number = next(_numbers)
        self.name, self.offsets, self.file = f"numbers-{number}", f"its-offsets-{number}", directory / "lines.txt"
        self.configs, self.statuses = f"its-configs-{number}", f"its-statuses-{number}"
        self.topic = topics.create(servers, f"its-topic-{number}", 3, replication)
        self.worker = {
            "bootstrap.servers": servers,
            "group.id": f"its-group-{number}",
            "offset.storage.topic": self.offsets,
            "offset.storage.partitions": str(PARTITIONS),
            "key.converter": STRING,
            "value.converter": STRING,
            "exactly.once.source.support": "enabled",
        }

    @property
    def stored(self) -> dict[str, str]:
        """The properties with which a worker keeps connectors and states in topics."""
        return {"config_storage_topic": self.configs, "status_storage_topic": self.statuses, "listeners": ""}

    def numbers(self, limit: int, then: str = "idle", **more: str) -> dict[str, str]:
        given = {"name": self.name, "connector.class": NUMBERS, "topic": self.topic, "limit": str(limit), "then": then}
        return given | more

    def lines(self, name: str = "lines", **more: str) -> dict[str, str]:
        given = {"name": name, "connector.class": "FileStreamSource", "topic": self.topic, "file": str(self.file)}
        return given | more

    @contextmanager
    def running(self, *connectors: dict[str, str], **worker: str) -> Iterator[Running]:
        more = {name.replace("_", "."): value for name, value in worker.items()}
        made = Running(self.spark, self.worker | more, list(connectors))
        try:
            yield made
        finally:
            made.worker.stop()

    def wait_arrived(self, records: int) -> None:
        wait_for(lambda: arrived(self.servers, self.topic) >= records, f"{records} records", 60)

    def values(self) -> list[str]:
        rows = read(self.servers, [self.topic], {"value": "value"}).sort_by(
            [("partition", "ascending"), ("offset", "ascending")]
        )
        return [str(value) for value in rows["value"].to_pylist()]

    def place_of(self, key: bytes) -> int:
        return (murmur2(key) & 0x7FFFFFFF) % PARTITIONS
