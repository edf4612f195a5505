"""Files of lines that grow, connectors that follow them, and a look at what came out with a client that is not ours."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from semel.records.partitioner import murmur2
from semel.testing.records import arrived, read
from tests.support import topics
from tests.support.registry import read_avro

STRING = "org.apache.kafka.connect.storage.StringConverter"
AVRO = "io.confluent.connect.avro.AvroConverter"
SEMEL = [sys.executable, "-c", "from semel.cli import main; main()"]
_numbers = count(1)


@dataclass(frozen=True)
class Lines:
    """Connectors of one worker, each with a file and a topic of its own."""

    servers: str
    directory: Path
    worker: Path
    names: Sequence[str]
    offsets: str
    #: A registry, with which the first connector writes Avro.
    registry: str = ""

    @classmethod
    def prepare(
        cls,
        servers: str,
        directory: Path,
        connectors: int,
        lines: int,
        more: Mapping[str, str] | None = None,
        replication: int = 1,
        **worker: str,
    ) -> Lines:
        """Files with so many lines each, topics, and the properties of worker and connectors; ``more`` are of these."""
        number = next(_numbers)
        directory.mkdir(exist_ok=True)
        names = [f"lines-{number}-{index}" for index in range(connectors)]
        made = cls(servers, directory, directory / "worker.properties", names, f"offsets-{number}")
        given = {
            "bootstrap.servers": servers,
            "group.id": f"group-{number}",
            "offset.storage.topic": made.offsets,
            "offset.storage.partitions": "5",
            "offset.storage.replication.factor": str(replication),
            "key.converter": STRING,
            "value.converter": STRING,
            **{name.replace("_", "."): value for name, value in worker.items()},
        }
        _write(made.worker, given)
        for name in names:
            topics.create(servers, name, 1, replication)
            made.file(name).write_text("".join(f"{name} line {i} {'x' * (i % 90)}\n" for i in range(lines)))
            connector = {
                "name": name,
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "tasks.max": "1",
                "file": str(made.file(name)),
                "topic": name,
                "batch.size": "200",
                **(more or {}),
            }
            _write(made.properties(name), connector)
        return made

    def with_avro(self, registry: str) -> Lines:
        """Let the first connector write Avro."""
        with self.properties(self.names[0]).open("a") as file:
            file.write(f"value.converter={AVRO}\nvalue.converter.schema.registry.url={registry}\n")
        return replace(self, registry=registry)

    def file(self, name: str) -> Path:
        return self.directory / f"{name}.txt"

    def properties(self, name: str) -> Path:
        return self.directory / f"{name}.properties"

    @property
    def argv(self) -> list[str]:
        """The command line of the worker."""
        return [*SEMEL, "connect", str(self.worker), *(str(self.properties(name)) for name in self.names)]

    def expected(self, name: str) -> list[str]:
        return self.file(name).read_text().split("\n")[:-1]

    def all_arrived(self) -> bool:
        return arrived(self.servers, *self.names) >= sum(len(self.expected(name)) for name in self.names)

    def written(self, name: str) -> list[str]:
        """Return what a read_committed reader sees, in order, once nothing is open there."""
        if self.registry and name == self.names[0]:
            return read_avro(self.servers, name, self.registry)
        rows = read(self.servers, [name], {"value": "value"}).sort_by("offset")
        return [str(value) for value in rows["value"].to_pylist()]

    def check_exact(self) -> None:
        assert not (wrong := self.differences()), wrong

    def differences(self) -> list[str]:
        """Return what is not exact: each line once, in order; nothing open; offsets at the ends of the files, as Kafka
        Connect keeps them.
        """
        wrong = []
        for name in self.names:
            written, expected = self.written(name), self.expected(name)
            if written != expected:
                at = next((i for i, pair in enumerate(zip(written, expected, strict=False)) if pair[0] != pair[1]), -1)
                wrong.append(f"{name}: {len(written)} lines of {len(expected)}, the first wrong one is {at}")
        read(self.servers, [self.offsets], {}, timeout=10)  # raises where something is open
        kept = self.kept_offsets()
        for name in self.names:
            key = f'["{name}",{{"filename":"{self.file(name)}"}}]'.encode()
            end = (murmur2(key) & 0x7FFFFFFF) % 5, b'{"position":%d}' % self.file(name).stat().st_size
            if kept.get(key) != end:
                wrong.append(f"{name}: its offset is {kept.get(key)}, and must be {end}")
        return wrong

    def kept_offsets(self) -> dict[bytes, tuple[int, bytes | None]]:
        """Return the newest record of each key of the offsets topic: its partition and its value."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "none", "auto.offset.reset": "earliest"})
        found: dict[bytes, tuple[int, bytes | None]] = {}
        try:
            for index in range(5):
                partition = TopicPartition(self.offsets, index, 0)
                _, end = consumer.get_watermark_offsets(partition, 30)
                consumer.assign([partition])
                while consumer.position([partition])[0].offset < end:
                    for message in consumer.consume(1000, 0.2):
                        assert message.error() is None, message.error()
                        found[message.key()] = message.partition(), message.value()
        finally:
            consumer.close()
        return found


class Appending:
    """A context manager that appends to the files meanwhile, half a line at a time."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._append, daemon=True)

    def __enter__(self) -> Appending:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it with a whole line."""
        self._ending.set()
        self._thread.join()

    def _append(self) -> None:
        number = 0
        files: list[Any] = [self._lines.file(name).open("ab", buffering=0) for name in self._lines.names]
        while not self._ending.wait(0.1):
            number += 1
            for file in files:
                file.write(b"appended %d, first half" % number)
            for file in files:
                file.write(b", second half\n" + b"".join(b"appended %d.%d\n" % (number, i) for i in range(4)))
        for file in files:
            file.close()


def _write(path: Path, properties: dict[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
