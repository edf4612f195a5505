"""An owner whose transaction expired while it slept meets a living successor: it is fenced, and does not fence back
(rule 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

import semel
from semel.sandbox import Sandbox
from semel.transaction.producer import Producer
from tests.support.coordinator import ABORTED, wait_until_ended
from tests.support.raw_producer import Raw
from tests.transaction.support.pipeline import Job, copy_next, position, write_here
from tests.transaction.support.pipeline_checks import assert_whole, new_job

HASTY = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(scope="module")
def hasty() -> Iterator[Sandbox]:
    with Sandbox.start(settings=HASTY) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    "wakes_with", ["commit", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("abort", "write"))]
)
def test_it_stops_and_its_successor_goes_on(hasty: Sandbox, wakes_with: str) -> None:
    job = replace(new_job(hasty, "slept", chunks=6), transaction_timeout_ms=8_000)
    raw = Raw(job.servers)
    with (
        semel.Cluster(job.properties()) as cluster,
        cluster.producer(job.prefix) as sleeper,
        semel.Cluster(replace(job, transaction_timeout_ms=60_000).properties()) as other,
        other.producer(job.prefix) as successor,
    ):
        sleeper.take_over([job.target], job.group)
        copy_next(sleeper, job, write_here(cluster, job))
        txn = sleeper.transaction()
        receipts = write_here(cluster, job)(
            txn.tickets([[(job.target, 0)], [(job.target, 1)]]), job.chunk, 2 * job.chunk
        )
        wait_until_ended(job.servers, job.prefix, ABORTED)
        successor.take_over([job.target], job.group)
        copy_next(successor, job, write_here(other, job))

        txn.accept(receipts)
        calls: dict[str, Callable[[], object]] = {
            "commit": txn.commit,
            "abort": txn.abort,
            "write": lambda: txn.send(raw.topic, pa.table({"value": ["late"]})),
        }
        with pytest.raises(semel.Fenced, match=r"was aborted|was not committed"):
            calls[wakes_with]()
        for _ in range(2):
            with pytest.raises(semel.Fenced):
                sleeper.take_over([job.target], job.group)
            with pytest.raises(semel.Fenced):
                sleeper.transaction()
        finish(successor, other, job)
    raw.close()
    assert_whole(job)


def test_it_goes_on_by_itself_where_nobody_came(hasty: Sandbox) -> None:
    job = replace(new_job(hasty, "slept", chunks=3), transaction_timeout_ms=8_000)
    raw = Raw(job.servers)
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as sleeper:
        sleeper.take_over([job.target], job.group)
        txn = sleeper.transaction()
        receipts = write_here(cluster, job)(
            txn.tickets([[(job.target, 0)], [(job.target, 1), (job.target, 2)]]), 0, job.chunk
        )
        wait_until_ended(job.servers, job.prefix, ABORTED)
        txn.accept(receipts)
        with pytest.raises(semel.AbortAndRetry, match="EXPIRED"):
            txn.commit()
        finish(sleeper, cluster, job)
    raw.close()
    assert_whole(job)


def finish(producer: Producer, cluster: semel.Cluster, job: Job) -> None:
    while position(producer.progress, job) < job.total:
        copy_next(producer, job, write_here(cluster, job))
