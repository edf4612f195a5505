"""Epochs run out after 32,766 ends: the answer that ends a transaction brings another producer id, and nothing is lost or doubled across it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

import semel
from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.transactions import Identity, describe, end
from tests.crash.arena import assert_whole, new_job
from tests.crash.pipeline import Job, copy_next, position, write_here

LAST_EPOCH = 32_766
CHUNKS = 12


@pytest.fixture(scope="module")
def worn(kafka: Sandbox) -> list[Job]:
    """Jobs that have begun, whose ids have few epochs left: empty aborts, one after the other."""
    jobs = [new_job(kafka, f"worn-by-{what}", chunks=CHUNKS) for what in ("ends", "owners")]
    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(wear_out, jobs))
    return jobs


def wear_out(job: Job) -> None:
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
        copy_next(producer, job, write_here(cluster, job))
    with Client(ClientConfig.parse(job.properties())) as client:
        found = describe(client, job.prefix)
        assert found is not None
        identity = Identity(job.prefix, found.producer_id, found.epoch)
        while identity.epoch < LAST_EPOCH - CHUNKS // 2:
            answer = end(client, identity, commit=False, deadline=Deadline(60_000, backoff_ms=0.1, backoff_max_ms=1))
            assert answer.code == 0
            identity = answer.identity


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


def test_one_owner_goes_on_under_another_producer_id(worn: list[Job]) -> None:
    job = worn[0]
    identities = []
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
        while position(producer.progress, job) < job.total:
            copy_next(producer, job, write_here(cluster, job))
            producer.settle()
            identities.append(identity_of(job))
    assert_rolled_over(identities)
    assert_whole(job)


def test_owners_that_follow_each_other_roll_over_too(worn: list[Job]) -> None:
    """Every chunk by an owner of its own, which leaves a transaction open for the next one to abort."""
    job = worn[1]
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
