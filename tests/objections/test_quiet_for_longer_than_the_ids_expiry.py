"""A query that is quiet for longer than the broker keeps its id goes on afterwards, unless another owner has used the
id meanwhile (rule 4).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

import semel
from semel.cli import app
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, Step
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.transaction.ticket import Receipt, Ticket
from semel.wire.api.describe_transactions import describe
from tests.support.delete_front import cut
from tests.support.other_client import delete
from tests.support.raw_producer import Raw
from tests.support.waiting import PATIENCE_S, wait_for
from tests.transaction.support.pipeline import Job, copy_next, position, write_here
from tests.transaction.support.pipeline_checks import assert_whole, new_job

FORGETFUL = {
    "transactional.id.expiration.ms": "1500",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}
SHORT = {"request.timeout.ms": 500, "delivery.timeout.ms": 4_000}


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Sandbox]:
    with Sandbox.start(settings=FORGETFUL) as sandbox:
        yield sandbox


def wait_until_forgotten(job: Job) -> None:
    raw = Raw(job.servers)
    wait_for(lambda: describe(raw.client, job.prefix) is None, "the expiry of the id")
    raw.close()


def finish(producer: Producer, cluster: semel.Cluster, job: Job) -> None:
    while position(producer.progress, job) < job.total:
        copy_next(producer, job, write_here(cluster, job))


@pytest.mark.parametrize(
    "before",
    [
        "taking over",
        "a commit",
        *(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("an abort", "an error with nothing sent")),
    ],
)
def test_it_goes_on(forgetful: Sandbox, before: str) -> None:
    job = new_job(forgetful, "quiet", chunks=4)
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
        if before != "taking over":
            copy_next(producer, job, write_here(cluster, job), abort=before == "an abort")
        producer.wait_visible()
        wait_until_forgotten(job)
        if before == "an error with nothing sent":
            with pytest.raises(KeyError), producer.transaction():
                raise KeyError("the user's own")
        finish(producer, cluster, job)
    assert_whole(job)


@pytest.mark.parametrize("then", ["deleted", "made again"])
def test_progress_that_was_deleted_meanwhile_is_named_and_no_other_owner(forgetful: Sandbox, then: str) -> None:
    """The coordinator has forgotten, and this owner has not: what it committed must be there."""
    job = new_job(forgetful, "quiet", chunks=4)
    kept = f"{job.prefix}-progress"
    with (
        semel.Cluster({**job.properties(), **SHORT}) as cluster,
        cluster.producer(job.prefix, progress_topic=kept) as producer,
    ):
        producer.take_over([job.target], job.group)
        copy_next(producer, job, write_here(cluster, job))
        producer.wait_visible()
        delete(job.servers, kept)
        if then == "made again":
            with cluster.producer(f"{job.prefix}-other", progress_topic=kept) as other:
                other.take_over()
        wait_until_forgotten(job)
        with pytest.raises(semel.DataLoss, match="PROGRESS_LOST"):
            copy_next(producer, job, write_here(cluster, job))


@pytest.mark.parametrize("scope", ["producer", "batch"])
def test_progress_that_was_cut_off_stays_lost_when_the_id_is_forgotten(forgetful: Sandbox, scope: str) -> None:
    """A claim is left in front of which records are gone: this one does not expire.

    The other scope, which has never committed, knows no better.
    """
    job = new_job(forgetful, "quiet", chunks=4)
    kept = f"{job.prefix}-progress"
    arguments = [
        "progress",
        "reset",
        job.prefix,
        "--scope",
        scope,
        "--progress-topic",
        kept,
        "--bootstrap-server",
        job.servers,
        "--yes",
    ]
    with semel.Cluster(job.properties()) as cluster:
        with cluster.producer(job.prefix, progress_topic=kept) as producer:
            producer.take_over([job.target], job.group)
            copy_next(producer, job, write_here(cluster, job))
        with cluster.producer(job.prefix, progress_topic=kept) as producer:
            assert producer.take_over() is not None, "it leaves a claim behind the progress"
        cut(job.servers, job.prefix, kept, but=1)
        wait_until_forgotten(job)
        for _ in range(2):
            with (
                pytest.raises(semel.DataLoss, match="PROGRESS_LOST"),
                Producer(cluster._client, job.prefix, scope=scope, progress_topic=kept) as owner,
            ):
                owner.take_over()
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        with Producer(cluster._client, job.prefix, scope=scope, progress_topic=kept) as owner:
            assert owner.take_over() is None


def test_another_scopes_record_alone_says_that_the_id_is_not_new(forgetful: Sandbox) -> None:
    """Nobody knows the id, and no claim is left in the log."""
    job = new_job(forgetful, "quiet", chunks=4)
    kept = f"{job.prefix}-progress"
    with semel.Cluster(job.properties()) as cluster:
        for scope in ("producer", "batch"):
            with (
                Producer(cluster._client, job.prefix, scope=scope, progress_topic=kept) as owner,
                owner.transaction() as txn,
            ):
                txn.commit(Progress(batch=1))
        cut(job.servers, job.prefix, kept, but=2)
        wait_until_forgotten(job)
        for _ in range(2):
            with (
                pytest.raises(semel.DataLoss, match="PROGRESS_LOST"),
                cluster.producer(job.prefix, progress_topic=kept) as producer,
            ):
                producer.take_over()
        with Producer(cluster._client, job.prefix, scope="batch", progress_topic=kept) as owner:
            assert owner.take_over() is not None, "the control"


def test_both_stop_where_another_owner_came_and_was_forgotten_too(forgetful: Sandbox) -> None:
    job = new_job(forgetful, "quiet", chunks=4)
    with (
        semel.Cluster(job.properties()) as cluster,
        cluster.producer(job.prefix) as first,
        cluster.producer(job.prefix) as second,
    ):
        for owner in (first, second):
            owner.take_over([job.target], job.group)
            copy_next(owner, job, write_here(cluster, job))
            owner.wait_visible()
        wait_until_forgotten(job)
        with pytest.raises(semel.Fenced, match="another owner has used it since"):
            copy_next(first, job, write_here(cluster, job))
        with pytest.raises(semel.Fenced):
            first.transaction()
        with pytest.raises(semel.Fenced):
            copy_next(second, job, write_here(cluster, job))
        with cluster.producer(job.prefix) as third:
            third.take_over([job.target], job.group)
            finish(third, cluster, job)
    assert_whole(job)


def test_a_second_takeover_that_fails_is_not_repeated_on_what_was_decided_before(forgetful: Sandbox) -> None:
    """Meanwhile another owner may have gone on: only a new start compares again."""
    job = new_job(forgetful, "quiet", chunks=4)
    with (
        FaultProxy(job.servers) as proxy,
        semel.Cluster({"bootstrap.servers": proxy.bootstrap_servers, **SHORT}) as cluster,
        cluster.producer(job.prefix) as producer,
        semel.Cluster(job.properties()) as direct,
        direct.producer(job.prefix) as successor,
    ):
        producer.take_over([job.target], job.group)
        producer.wait_visible()
        wait_until_forgotten(job)
        held = [proxy.delay_request("Produce", n) for n in range(1, 20)]
        with pytest.raises(semel.Retriable), producer.transaction() as txn:
            txn.tickets([[(job.target, 0)]])
        for fault in held:
            fault.release()
        successor.take_over([job.target], job.group)
        finish(successor, direct, job)
        with pytest.raises(semel.Retriable, match="OUTCOME_UNKNOWN"):
            producer.transaction()
    assert_whole(job)


def test_an_owner_that_slept_through_the_expiry_leaves_its_successors_rows_alone(
    forgetful: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands behind InitProducerId until another has the id, by a producer id of its own, with one transaction
    behind it and one open.
    """
    job = new_job(forgetful, "quiet", chunks=4)
    asleep, awake = threading.Event(), threading.Event()

    def sleep(step: Step, detail: str) -> None:
        if step is OwnerStep.INITIALISED and threading.current_thread().name.startswith("sleeper"):
            asleep.set()
            assert awake.wait(PATIENCE_S)

    def take_over() -> None:
        with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
            producer.take_over([job.target], job.group)

    monkeypatch.setattr(semel.steps, "_observer", sleep)
    with (
        ThreadPoolExecutor(1, "sleeper") as sleeper,
        semel.Cluster(job.properties()) as cluster,
        cluster.producer(job.prefix) as successor,
    ):
        woken = sleeper.submit(take_over)
        assert asleep.wait(PATIENCE_S)
        wait_until_forgotten(job)
        successor.take_over([job.target], job.group)
        write = write_here(cluster, job)
        copy_next(successor, job, write)

        def write_and_wait(tickets: Sequence[Ticket], start: int, end: int) -> list[Receipt]:
            receipts = write(tickets, start, end)
            awake.set()
            with pytest.raises(semel.Fenced, match="has expired at its coordinator"):
                woken.result(PATIENCE_S)
            return receipts

        copy_next(successor, job, write_and_wait)
        finish(successor, cluster, job)
    assert_whole(job)
