"""Applications on a broker: their topics and what these hold."""

from __future__ import annotations

from itertools import count

from confluent_kafka import Producer

from semel.testing.records import read

names = count(1)


def fill(servers: str, topic: str, *rows: tuple[str | None, str, int]) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for key, value, timestamp in rows:
        producer.produce(topic, value, key=key, timestamp=timestamp)
    assert producer.flush(30) == 0


def values(servers: str, topic: str) -> list[tuple[str, str]]:
    rows = read(servers, [topic], {"key": "key", "value": "value"})
    return sorted(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
