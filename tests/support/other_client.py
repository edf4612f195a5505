"""Shared parts of the tests of reading: topics, writers and an independent reader, all by confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from semel.read import NO_END, Earliest, EndSpec, Latest, Range, Reader, StartSpec, id_text, resolve
from semel.wire.client import Client
from tests.support.coordinator import wait_until_ended
from tests.support.waiting import TRANSACTION_MS, wait_for

Row = tuple[int, int, bytes | None, bytes | None]


def delete(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
    wait_for(lambda: topic not in admin.list_topics(timeout=10).topics, f"the end of {topic}")


def delete_records(servers: str, topic: str, partition: int, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        assert future.result(30).low_watermark == before


def produce(servers: str, topic: str, rows: Iterable[Mapping[str, Any]], **config: Any) -> None:
    """Plain rows: keyword arguments of ``Producer.produce``."""
    producer = Producer(
        {"bootstrap.servers": servers, **{name.replace("_", "."): value for name, value in config.items()}}
    )
    for row in rows:
        producer.produce(topic, **({"partition": 0} | dict(row)))
    assert producer.flush(30) == 0


def values(count: int, text: str = "v", **more: Any) -> list[dict[str, Any]]:
    return [{"value": f"{text}{i}".encode()} | more for i in range(count)]


@dataclass
class Transactional:
    """One transactional producer that flushes each write, so that batches of several interleave as the test says."""

    servers: str
    id: str

    def __post_init__(self) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "transactional.id": self.id,
                "linger.ms": 0,
                "transaction.timeout.ms": TRANSACTION_MS,
            }
        )
        self.producer.init_transactions(30)
        self.open = False

    def write(self, topic: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if not self.open:
            self.producer.begin_transaction()
            self.open = True
        for row in rows:
            self.producer.produce(topic, **({"partition": 0} | dict(row)))
        self.producer.flush(30)

    def end(self, *, commit: bool) -> None:
        """Readers see it when this returns."""
        (self.producer.commit_transaction if commit else self.producer.abort_transaction)(30)
        self.open = False
        wait_until_ended(self.servers, self.id)


def topic_id(client: Client, topic: str) -> str:
    return id_text(client.refresh({topic}).topics[topic].id)


def ranges(
    client: Client,
    topic: str,
    *,
    start: StartSpec | None = None,
    end: EndSpec | None = None,
    read_committed: bool = True,
) -> list[Range]:
    known = client.refresh({topic}).topics[topic]
    partitions = [(topic, index) for index in known.partitions]
    first = resolve(client, partitions, start or Earliest(), read_committed=read_committed)
    last = resolve(client, partitions, end or Latest(), read_committed=read_committed, ending=True)
    return [Range(topic, id_text(known.id), p[1], first[p], last[p]) for p in partitions]


def followed(client: Client, topic: str) -> list[Range]:
    return [Range(one.topic, one.topic_id, one.partition, one.start, NO_END) for one in ranges(client, topic)]


def rows(reader: Iterable[Any]) -> list[Row]:
    """(partition, offset, key, value) of all batches, by partition, in the order in which they came."""
    found: list[Row] = []
    for batch in reader:
        batch.validate(full=True)
        found += zip(*(batch.column(name).to_pylist() for name in ("partition", "offset", "key", "value")), strict=True)
    return sorted(found, key=lambda row: row[0])


def collect(client: Client, wanted: Sequence[Range], **options: Any) -> list[Row]:
    with Reader(client, wanted, **options) as reader:
        found = rows(reader)
        assert reader.lost == []
        assert reader.positions == {one.topic_partition: one.end for one in wanted}
    return found


def oracle(servers: str, wanted: Sequence[Range], *, read_committed: bool = True) -> list[Row]:
    """Return the same rows by librdkafka: read from each start until its position is at the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "oracle",
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # it would go to the end without a word, and have read nothing
        }
    )
    consumer.assign([TopicPartition(one.topic, one.partition, one.start) for one in wanted])
    ends = {(one.topic, one.partition): one.end for one in wanted}
    found: list[Row] = []
    done: set[tuple[str, int]] = set()
    while len(done) < len(ends):
        message = consumer.poll(20)
        assert message is not None, f"the oracle got nothing, {len(done)} of {len(ends)} done"
        partition = (message.topic(), message.partition())
        assert message.error() is None or message.error().code() == KafkaError._PARTITION_EOF, message.error()
        if message.offset() >= ends[partition]:
            done.add(partition)
        elif partition not in done and message.error() is None:
            found.append((message.partition(), message.offset(), message.key(), message.value()))
    consumer.close()
    return sorted(found, key=lambda row: row[0])
