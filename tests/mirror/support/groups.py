"""Consumer groups of a client that is not ours, and `semel mirror translate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from semel import cli
from semel.sandbox import Sandbox
from tests.support.waiting import wait_for


def consume(sandbox: Sandbox, group: str, topic: str, count: int) -> list[bytes]:
    """Read the next records of a group, and commit behind them."""
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": sandbox.bootstrap_servers, "group.id": group, **settings})
    found: list[bytes] = []
    try:
        consumer.subscribe([topic])
        while len(found) < count:
            for message in consumer.consume(count - len(found), 30):
                assert message.error() is None
                found.append(message.value() or b"")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def commit(sandbox: Sandbox, group: str, at: TopicPartition) -> None:
    """Where a group without members stands. The first of a cluster is refused until the topic of offsets is made."""
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})

    def committed() -> bool:
        asked = [ConsumerGroupTopicPartitions(group, [at])]
        done = admin.alter_consumer_group_offsets(asked)[group].result(30)
        return all(one.error is None for one in done.topic_partitions)

    wait_for(committed, "the offset")


def offsets(sandbox: Sandbox, group: str) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(asked)[group].result(30).topic_partitions
    return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}


def translate(file: Path, source: str, target: str, *options: str) -> Any:
    arguments = ["mirror", "translate", str(file), "--source", source, "--target", target, *options]
    shown = CliRunner().invoke(cli.app, arguments)
    if shown.exception is not None:
        raise shown.exception
    return json.loads(shown.output) if "--json" in options else shown.output
