"""Shared parts of the crash tests: topics with numbered records, and the check of the result."""

from __future__ import annotations

import itertools
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from semel.sandbox import Sandbox
from semel.testing.history import History, assert_exactly_once, check
from tests.transaction.support.pipeline import PARTITIONS, Job

_names = itertools.count(1)
DEADLINE_S = 120


def new_job(
    kafka: Sandbox, name: str, *, chunks: int, chunk: int = 12, mode: str = "exact", file: Path | None = None
) -> Job:
    """Topics of its own, and numbered records in the source."""
    unique = f"{name}-{next(_names)}"
    job = Job(
        kafka.bootstrap_servers,
        unique,
        f"{unique}-in",
        f"{unique}-out",
        chunks * chunk,
        chunk,
        kafka.cluster_id,
        mode,
        str(file) if file else "",
    )
    admin = AdminClient({"bootstrap.servers": job.servers})
    for future in admin.create_topics([NewTopic(job.source, 1), NewTopic(job.target, PARTITIONS)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": job.servers, "enable.idempotence": True})
    for number in range(job.total):
        producer.produce(job.source, value=job.value(number))
        producer.poll(0)
    assert producer.flush(60) == 0
    return job


def look(job: Job) -> History:
    """Return the faults that a read_committed reader finds."""
    return check(job.servers, job.target, source=job.source, id="json:$.id", batch="json:$.batch", timeout=DEADLINE_S)


def assert_whole(job: Job) -> None:
    """Check that nothing is lost, doubled, reordered or torn, and that the group is at the end."""
    assert_exactly_once(
        job.servers, job.target, source=job.source, id="json:$.id", batch="json:$.batch", timeout=DEADLINE_S
    )
    assert group_offset(job) == job.total


def group_offset(job: Job) -> int:
    consumer = Consumer({"bootstrap.servers": job.servers, "group.id": job.group})
    try:
        (found,) = consumer.committed([TopicPartition(job.source, 0)], timeout=30)
        return int(found.offset)
    finally:
        consumer.close()
