"""Apicurio's registry, which speaks Confluent's API, as a process of this machine. Its schemas are in memory."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from semel.sandbox import find_java, ivy
from semel.sandbox.jars import cache_directory
from semel.sandbox.ports import Ports
from tests.support.waiting import wait_for

VERSION = "2.6.13.Final"
_NAME = "apicurio-registry-app"


class Registry:
    """A registry that answers. ``url`` is that of Confluent's API."""

    def __init__(self, address: str) -> None:
        self.url = f"{address}/apis/ccompat/v7"

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask it directly. Raise an error for what it refuses."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        with urlopen(Request(f"{self.url}{path}", data, headers, method=method), timeout=60) as answer:
            return json.loads(answer.read())

    def schemas(self, subject: str) -> list[str]:
        """The schemas of a subject, the oldest first; none of one that it does not have."""
        if subject not in self.ask("GET", "/subjects"):
            return []
        versions = self.ask("GET", f"/subjects/{subject}/versions")
        return [self.ask("GET", f"/subjects/{subject}/versions/{one}")["schema"] for one in versions]


def read_avro(servers: str, topic: str, url: str, index: int = 0) -> list[Any]:
    """Return the committed values of a topic's partition, as Confluent's own client reads them."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "auto.offset.reset": "earliest"})
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": url}))
    context = SerializationContext(topic, MessageField.VALUE)
    partition, values = TopicPartition(topic, index, 0), list[Any]()
    try:
        _, end = consumer.get_watermark_offsets(partition, 30)
        consumer.assign([partition])
        while consumer.position([partition])[0].offset < end:
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                values.append(deserialize(message.value(), context))
    finally:
        consumer.close()
    return values


def _home() -> Path:
    """Its files, fetched the first time."""
    home = cache_directory() / "registry" / VERSION
    if not home.exists():
        wanted = (
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="semel"'
            f' module="registry"/><dependencies><dependency org="io.apicurio" name="{_NAME}" rev="{VERSION}"'
            f' conf="default->default" transitive="false"><artifact name="{_NAME}" type="tar.gz" ext="tar.gz"'
            ' m:classifier="all"/></dependency></dependencies></ivy-module>'
        )
        with ivy.scratch(home.parent) as folder:
            name, cache = f"Apicurio's registry {VERSION}", folder / "ivy"
            ivy.retrieve(wanted, name, folder / "packed", cache=cache, progress=True, types=["tar.gz"])
            (packed,) = (folder / "packed").iterdir()
            with tarfile.open(packed) as archive:
                archive.extractall(folder / "files", filter="data")
            with suppress(OSError):  # another process was first
                (folder / "files").rename(home)
    return home


@contextmanager
def registry(folder: Path) -> Iterator[Registry]:
    """Run it; its log is in the folder."""
    ports = Ports(1)
    port = ports.numbers[0]
    ports.release()
    argv = [
        str(find_java()),
        "-XX:TieredStopAtLevel=1",
        "-Xmx256m",
        f"-Dquarkus.http.port={port}",
        "-Dquarkus.http.host=127.0.0.1",
        "-jar",
        str(_home() / f"{_NAME}-{VERSION}-runner.jar"),
    ]
    log = folder / "registry.log"

    with (
        log.open("wb") as output,
        subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        try:
            made = Registry(f"http://127.0.0.1:{port}")
            wait_for(lambda: _answers(made, process), lambda: log.read_text()[-4000:])
            yield made
        finally:
            process.kill()
            process.wait(60)


def _answers(made: Registry, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "it ended"
    try:
        return made.ask("GET", "/subjects") is not None
    except (URLError, OSError):
        return False
