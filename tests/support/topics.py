"""Topics for tests, made with a client that is not ours, and ready when they are there."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka.admin import AdminClient, NewTopic

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client
from tests.support.waiting import wait_for


def create(
    servers: str, topic: str, partitions: int = 1, replication: int = 1, *, on: Sequence[int] = (), **config: str
) -> str:
    """Create a topic, and wait until its leaders know that they lead, which is a moment after the answer. ``config``
    has ``_`` for ``.``.

    ``on`` are the nodes that have all of its replicas; without it they are anywhere.
    """
    admin = AdminClient({"bootstrap.servers": servers})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    placed = {"replica_assignment": [list(on)] * partitions} if on else {"replication_factor": replication}
    admin.create_topics([NewTopic(topic, partitions, config=settings, **placed)])[topic].result(60)

    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        wait_for(lambda: _led(client, topic, partitions), f"the leaders of {partitions} partitions of {topic}")
    return topic


def _led(client: Client, topic: str, partitions: int) -> bool:
    """By the leaders' own word: they, and other brokers too, may learn of it later than the one that was asked."""
    try:
        list_offsets(client, {(topic, index): LATEST for index in range(partitions)}, read_committed=False)
    except ConfigError as error:
        if error.tag != "UNKNOWN_TOPIC":
            raise
        return False
    return True
