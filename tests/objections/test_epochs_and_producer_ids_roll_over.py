"""Epochs run out after 32,766 ends: the answer that ends a transaction brings another producer id, and nothing is lost
or doubled across it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest

import semel
from semel.config import ClientConfig
from semel.read.raw_log import EndMarker, read_raw
from semel.sandbox import Sandbox
from semel.steps import OwnerStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client
from tests.support.forked_owners import Nursery
from tests.support.kafka_version import NOT_PASSED, SKIPS_EPOCHS
from tests.support.waiting import wait_for
from tests.transaction.support.last_epochs import (
    LAST_EPOCH,
    coordinator_record,
    identity,
    leave_epochs,
    use_up,
    with_epoch,
)
from tests.transaction.support.pipeline import Job, copy_next, position, write_here
from tests.transaction.support.pipeline_checks import assert_whole, new_job

THOUSAND = 1_000
FOLLOWERS = 12
#: The epochs that a transaction uses.
EACH = 2 if SKIPS_EPOCHS else 1

TAKING_OVER = [OwnerStep.INITIALISED, OwnerStep.CLAIMED, OwnerStep.PROGRESS_READ, OwnerStep.MARKERS_CHECKED]
ABORTING = [OwnerStep.ABORT_SENT, OwnerStep.ABORT_ANSWERED]
COMMITTING = [
    OwnerStep.BEGUN,
    OwnerStep.PARTITIONS_ADDED,
    OwnerStep.WRITTEN,
    OwnerStep.PROGRESS_WRITTEN,
    OwnerStep.OFFSETS_ADDED,
    OwnerStep.COMMIT_SENT,
    OwnerStep.COMMIT_ANSWERED,
    OwnerStep.MARKERS_SEEN,
    *([OwnerStep.EPOCH_SKIPPED] if SKIPS_EPOCHS else []),
]
STEPS = [*TAKING_OVER, *COMMITTING, *ABORTING]
#: Where the new identity is told, and where a transaction of the old one ends.
SAMPLE = {OwnerStep.INITIALISED, OwnerStep.COMMIT_SENT, OwnerStep.COMMIT_ANSWERED, OwnerStep.ABORT_SENT}


@dataclass(frozen=True)
class Worn:
    """Jobs on a broker of their own, the ids of which have few epochs left: all but the first by what their
    coordinator's log says.
    """

    thousand: Job
    followers: Job
    killed: Mapping[OwnerStep, Job]
    #: of the jobs that are killed, the producer ids that end
    producer_ids: Mapping[OwnerStep, int]


@pytest.fixture(scope="module")
def worn() -> Iterator[Worn]:
    with Sandbox.start() as kafka:
        thousand = new_job(kafka, "worn", chunks=THOUSAND, chunk=3)
        followers = new_job(kafka, "worn-by-owners", chunks=FOLLOWERS)
        # with 3, the second transaction is aborted; with 2, none
        killed = {
            step: replace(new_job(kafka, f"worn-{step.value}", chunks=4), abort_every=3 if step in ABORTING else 2)
            for step in STEPS
        }
        epochs = {
            job.prefix: LAST_EPOCH if step in TAKING_OVER else LAST_EPOCH - 1 - EACH for step, job in killed.items()
        }
        leave_epochs(kafka, {**epochs, followers.prefix: LAST_EPOCH - FOLLOWERS})
        yield Worn(thousand, followers, killed, {step: identity_of(job)[0] for step, job in killed.items()})


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as running:
        yield running


def identity_of(job: Job) -> tuple[int, int]:
    return identity(job.servers, job.prefix)


def commits(job: Job) -> list[tuple[int, int]]:
    """Producer id and epoch of each marker that committed rows of a partition that is in every transaction."""
    with Client(ClientConfig.parse(job.properties())) as client:
        partition = (job.target, 0)
        end = list_offsets(client, {partition: LATEST}, read_committed=False)[partition].offset
        events = read_raw(client, partition, end, client.deadline())
        return [(event.producer_id, event.epoch) for event in events if isinstance(event, EndMarker) and event.commit]


def assert_one_turn(ends: list[tuple[int, int]], at: range) -> None:
    """One producer id follows another behind one of these transactions.

    A marker has the epoch that comes behind its transaction's.
    """
    (turn,) = [number for number, (before, after) in enumerate(pairwise(ends), 1) if before[0] != after[0]]
    assert turn in at, "it must be in the middle of the data"
    assert ends[turn - 1][1] > LAST_EPOCH - 4 * EACH
    assert ends[turn][1] < 4 * EACH


@pytest.mark.exhaustive  # its sample is the next one: fewer transactions, each of another owner
def test_a_thousand_transactions_of_one_owner(worn: Worn) -> None:
    """Its epochs are used up for real.

    The record that its coordinator then has is the one that the other jobs were given.
    """
    job = worn.thousand
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
        fresh = coordinator_record(job.servers, job.prefix)
        use_up(job.servers, job.prefix, LAST_EPOCH - THOUSAND // 2 * EACH)
    used = coordinator_record(job.servers, job.prefix)
    assert without_time(used) == without_time(with_epoch(fresh, LAST_EPOCH - THOUSAND // 2 * EACH))
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
        write = write_here(cluster, job)
        for at in range(0, job.total, job.chunk):
            assert copy_next(producer, job, write) == at + job.chunk
    assert_whole(job)
    ends = commits(job)
    assert len(ends) == THOUSAND
    assert_one_turn(ends, range(THOUSAND // 2 - 2, THOUSAND // 2 + 2))


def without_time(record: bytes) -> bytes:
    """A record of the coordinator's log but for the milliseconds in which it was written, behind version, producer id,
    epoch, timeout and state.
    """
    return record[:18] + record[26:]


def test_owners_that_follow_each_other(worn: Worn) -> None:
    """Every chunk by an owner of its own, which leaves a transaction open for the next one to abort."""
    job = worn.followers
    at = 0
    while at < job.total:
        with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
            producer.take_over([job.target], job.group)
            assert position(producer.progress, job) >= at
            at = copy_next(producer, job, write_here(cluster, job))
            left_open = producer.transaction()
            write_here(cluster, job)(left_open.tickets([[(job.target, 0)]]), 0, job.chunk)
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
    assert_whole(job)
    assert_one_turn(commits(job), range(FOLLOWERS // 4, FOLLOWERS // 2))


def test_no_step_is_left_out() -> None:
    assert {*OwnerStep} - {*STEPS} == {*NOT_PASSED} & {*OwnerStep}


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, id=step.name, marks=() if step in SAMPLE else pytest.mark.exhaustive) for step in STEPS],
)
def test_killed_at_a_step_of_the_transaction_that_crosses(
    worn: Worn, nursery: Nursery, tmp_path: Path, step: OwnerStep
) -> None:
    """An owner is killed there, and the next one goes on."""
    job, former = worn.killed[step], worn.producer_ids[step]
    log = tmp_path / "log"
    point = CrashPoint(step, 2 if step in COMMITTING else 1)
    owner = nursery.start(job, CrashPlan(tmp_path / "plan", point), log)
    assert owner.wait() == -signal.SIGKILL, owner.said()
    answered = (OwnerStep.COMMIT_ANSWERED, OwnerStep.MARKERS_SEEN, OwnerStep.EPOCH_SKIPPED, OwnerStep.ABORT_ANSWERED)
    crossed = step in (*TAKING_OVER, *answered)
    on_the_way = step in (OwnerStep.COMMIT_SENT, OwnerStep.ABORT_SENT)
    wait_for(
        lambda: stands_across(job, former, crossed=None if on_the_way else crossed),
        "the identity of the transaction that crosses",
    )
    successor = nursery.start(job, CrashPlan(tmp_path / "nothing"), log)
    assert successor.wait() == 0, successor.said()
    assert_whole(job)
    assert identity_of(job)[0] != former


def stands_across(job: Job, former: int, *, crossed: bool | None) -> bool:
    """Whether the id is at its last epoch (not ``crossed``) or at the first one of another producer id; either of them
    where it is not known.
    """
    producer_id, epoch = identity_of(job)
    if producer_id == former:
        return not crossed and epoch == LAST_EPOCH
    return crossed is not False and epoch < EACH
