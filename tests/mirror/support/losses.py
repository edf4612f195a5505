"""Changes to topics that the mirror does not see."""

from __future__ import annotations

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from semel.sandbox import Sandbox
from tests.mirror.support.harness import partitions, produce
from tests.support import topics
from tests.support.waiting import wait_for


def delete(sandbox: Sandbox, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)
    wait_for(lambda: not partitions(sandbox, topic), f"{topic} to be gone")


def rows_deleted(a: Sandbox, b: Sandbox, topic: str, target: str) -> None:
    produce(a, topic, [{"value": "more"}] * 5)
    admin, at = AdminClient({"bootstrap.servers": a.bootstrap_servers}), TopicPartition(topic, 0, 13)
    admin.delete_records([at])[at].result(30)


def source_deleted(a: Sandbox, b: Sandbox, topic: str, target: str) -> None:
    delete(a, topic)


def source_made_anew(a: Sandbox, b: Sandbox, topic: str, target: str) -> None:
    delete(a, topic)
    topics.create(a.bootstrap_servers, topic, 2)
    produce(a, topic, [{"value": "other"}] * 50)


def target_deleted(a: Sandbox, b: Sandbox, topic: str, target: str) -> None:
    delete(b, target)


def target_made_anew(a: Sandbox, b: Sandbox, topic: str, target: str) -> None:
    delete(b, target)
    topics.create(b.bootstrap_servers, target, 1)
