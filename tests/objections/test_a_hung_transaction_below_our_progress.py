"""Another query's hung transaction on the progress partition, below our newest progress: it is passed over, and holds
nobody up.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

import semel
from semel.records.partitioner import murmur2
from semel.sandbox import Sandbox
from semel.testing.records import read
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress, progress_key
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.api.transactions import Identity
from tests.support.raw_producer import Raw
from tests.transaction.support.pipeline import Job, copy_next, position, write_here
from tests.transaction.support.pipeline_checks import assert_whole, new_job


def partition_of(prefix: str) -> int:
    return (murmur2(prefix.encode()) & 0x7FFFFFFF) % 16


@pytest.fixture
def neighbour(kafka: Sandbox) -> Iterator[Raw]:
    made = Raw(kafka.bootstrap_servers)
    yield made
    made.close()


def test_progress_above_it_is_read(kafka: Sandbox, neighbour: Raw) -> None:
    job = new_job(kafka, "hung", chunks=6)
    with semel.Cluster(job.properties()) as cluster:
        with cluster.producer(job.prefix) as producer:
            copy(cluster, producer, job, 2)
        neighbour.id = next(
            name for name in (f"neighbour-{n}" for n in count()) if partition_of(name) == partition_of(job.prefix)
        )
        identity = neighbour.init()
        hang(neighbour, identity, partition_of(job.prefix))
        for _ in range(2):
            with cluster.producer(job.prefix) as producer:
                copy(cluster, producer, job, 2)
        fields = {"key": "key", "value": "value"}
        seen = read(job.servers, [DEFAULT_TOPIC], fields, wait_for_open=False, missing="reset").to_pylist()
        ours = [row["value"] for row in seen if row["key"] == progress_key(job.prefix, "producer").decode()]
        assert max(Progress.decode(value.encode(), "here").batch or 0 for value in ours) == 1, (
            "a read_committed reader is held back: the control"
        )
        with cluster.producer(job.prefix) as last:
            assert position(last.take_over([job.target], job.group), job) == job.total
    assert neighbour.end(identity, commit=False)[0] == 0
    assert_whole(job)


def hang(neighbour: Raw, identity: Identity, index: int) -> None:
    """Its own progress, written and neither committed nor aborted."""
    neighbour.topic = DEFAULT_TOPIC
    assert neighbour.add(identity, index) == 0
    request = neighbour.produce_request(
        identity, [Progress(batch=99).encode().decode()], index, keys=[progress_key(neighbour.id, "producer").decode()]
    )
    assert neighbour.once(neighbour.leader(index), request, 12).responses[0].partition_responses[0].error_code == 0


def copy(cluster: semel.Cluster, producer: Producer, job: Job, chunks: int) -> None:
    producer.take_over([job.target], job.group)
    for _ in range(chunks):
        copy_next(producer, job, write_here(cluster, job))
