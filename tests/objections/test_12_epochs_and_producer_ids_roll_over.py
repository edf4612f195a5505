"""Epochs run out after 32,766 ends: the answer that ends a transaction brings another producer id, and nothing is lost or doubled across it."""

from __future__ import annotations

from itertools import pairwise

import pytest

import semel
from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.wire.client import Client
from semel.wire.transactions import describe
from tests.crash.arena import assert_whole, new_job
from tests.crash.pipeline import Job, copy_next, position, write_here
from tests.worn import LAST_EPOCH, wear_out

CHUNKS = 12


@pytest.fixture(scope="module")
def tired(kafka: Sandbox) -> list[Job]:
    """Jobs that have begun, whose ids have few epochs left."""
    jobs = [new_job(kafka, f"worn-by-{what}", chunks=CHUNKS) for what in ("ends", "owners")]
    for job in jobs:
        tire(job)
    return jobs


def tire(job: Job) -> None:
    """Write a chunk, and let one owner follow the other: each takes an epoch."""
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
        copy_next(producer, job, write_here(cluster, job))
    wear_out(job.properties(), job.prefix, left=CHUNKS // 2)


def identity_of(job: Job) -> tuple[int, int]:
    with Client(ClientConfig.parse(job.properties())) as client:
        found = describe(client, job.prefix)
        assert found is not None
        return found.producer_id, found.epoch


def assert_rolled_over(identities: list[tuple[int, int]]) -> None:
    (turn,) = [number for number, (before, after) in enumerate(pairwise(identities)) if before[0] != after[0]]
    assert identities[turn][1] > LAST_EPOCH - CHUNKS
    assert identities[turn + 1][1] < CHUNKS
    assert 0 < turn < len(identities) - 2, "it must be in the middle of the data"


def test_one_owner_goes_on_under_another_producer_id(tired: list[Job]) -> None:
    job = tired[0]
    identities = []
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
        while position(producer.progress, job) < job.total:
            copy_next(producer, job, write_here(cluster, job))
            producer.settle()
            identities.append(identity_of(job))
    assert_rolled_over(identities)
    assert_whole(job)


def test_owners_that_follow_each_other_roll_over_too(tired: list[Job]) -> None:
    """Every chunk by an owner of its own, which leaves a transaction open for the next one to abort."""
    job = tired[1]
    identities = []
    at = 0
    while at < job.total:
        with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
            producer.take_over([job.target], job.group)
            assert position(producer.progress, job) >= at
            at = copy_next(producer, job, write_here(cluster, job))
            identities.append(identity_of(job))
            left_open = producer.transaction()
            write_here(cluster, job)(left_open.tickets([[(job.target, 0)]]), 0, job.chunk)
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
    assert_rolled_over(identities)
    assert_whole(job)
