"""Topics for tests, made with a client that is not ours."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka.admin import AdminClient, NewTopic

from tests.waiting import wait_for


def create(servers: str, topic: str, partitions: int = 1, replication: int = 1, *, on: Sequence[int] = (), **config: str) -> str:
    """Create a topic, and wait until the brokers show its leaders, which is a moment after they have answered. ``config`` has ``_`` for ``.``.

    ``on`` are the nodes that have all of its replicas; without it they are anywhere.
    """
    admin = AdminClient({"bootstrap.servers": servers})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    placed = {"replica_assignment": [list(on)] * partitions} if on else {"replication_factor": replication}
    admin.create_topics([NewTopic(topic, partitions, config=settings, **placed)])[topic].result(60)

    def led() -> int:
        return sum(one.leader >= 0 for one in admin.list_topics(topic, timeout=30).topics[topic].partitions.values())

    wait_for(lambda: led() == partitions, f"the leaders of {partitions} partitions of {topic}")
    return topic
