"""A foreign-key join on a broker, of topics with other partitions: responses go where their subscribers are."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer

from semel.streams import App
from semel.streams.worker.worker import Worker
from tests.streams.support.applications import fill, names, values
from tests.support.topics import create
from tests.support.waiting import wait_for


def test_responses_go_to_the_partitions_of_their_subscribers(servers: str, tmp_path: Path) -> None:
    name = f"foreign-{next(names)}"
    conf = {"bootstrap.servers": servers, "commit.interval.ms": 50, "state.dir": str(tmp_path / "state")}
    orders, users, out = create(servers, f"{name}-o", 3), create(servers, f"{name}-u", 2), create(servers, f"{name}-x")
    app = App(name, **conf)
    bills = app.table(orders, key="string", value="string", name="orders").join(
        app.table(users, key="string", value="string", name="users"),
        lambda order, user: f"{order} {user}",
        foreign_key_extractor=lambda record: record.value,
        value="string",
    )
    bills.to_stream().to(out)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(12):  # not where Kafka's partitioner would put them
        producer.produce(orders, f"u{number % 4}", key=f"o{number}", partition=number % 3, timestamp=number + 1)
    assert producer.flush(60) == 0
    fill(servers, users, *((f"u{number}", f"user {number}", 100) for number in range(4)))
    expected = {f"o{number}": f"u{number % 4} user {number % 4}" for number in range(12)}
    with Worker(app) as worker:
        wait_for(lambda: not worker.step() and dict(values(servers, out)) == expected, "the bills", 60)
        fill(servers, users, ("u1", "renamed", 200))
        expected |= {f"o{number}": "u1 renamed" for number in (1, 5, 9)}
        wait_for(lambda: not worker.step() and set(expected.items()) <= set(values(servers, out)), "the new name", 60)
