"""Every request that an owner, its participants and its readers send, lost, answered in vain, torn apart or sent more than once (DESIGN section 5).

Owner and participants speak through a fault proxy. For each API in turn a new owner takes over, aborts once and copies while one request of that API
meets the fault; the next one goes on where it stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

import semel
from semel.errors import AbortAndRetry
from semel.sandbox import Sandbox
from semel.testing.proxy import Fault, FaultProxy
from semel.transaction.producer import Producer
from semel.transaction.ticket import Receipt, Ticket
from tests.crash.arena import assert_whole, new_job
from tests.crash.pipeline import Job, copy_next, position, write_here

#: Each API, and which of its requests meets the fault: the first one of a takeover, and where there is one, one in a transaction.
REQUESTS = [
    ("ApiVersions", 1),
    ("Metadata", 1),
    ("Metadata", 2),
    ("FindCoordinator", 1),
    ("FindCoordinator", 2),
    ("DescribeConfigs", 1),
    ("DescribeGroups", 1),
    ("DescribeTransactions", 1),
    ("InitProducerId", 1),
    ("Produce", 1),
    ("Produce", 2),
    ("Produce", 4),
    ("ListOffsets", 1),
    ("ListOffsets", 2),
    ("Fetch", 1),
    ("DescribeProducers", 1),
    ("OffsetFetch", 1),
    ("AddPartitionsToTxn", 1),
    ("AddPartitionsToTxn", 2),
    ("TxnOffsetCommit", 1),
    ("EndTxn", 1),
    ("EndTxn", 2),
]
FAULTS: dict[str, Callable[[FaultProxy, str, int], Fault]] = {
    "reply lost": lambda proxy, api, n: proxy.drop_reply(api, n),
    "request lost": lambda proxy, api, n: proxy.drop_request(api, n),
    "reply cut": lambda proxy, api, n: proxy.cut(api, n, reply=True),
    "request cut": lambda proxy, api, n: proxy.cut(api, n),
    "repeated at once": lambda proxy, api, n: proxy.repeat_request(api, n, times=2),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_one_request_meets_a_fault(kafka: Sandbox, kind: str) -> None:
    # a copy of InitProducerId is another owner to the broker: it has tests of its own
    requests = [request for request in REQUESTS if (kind, request[0]) != ("repeated at once", "InitProducerId")]
    job = new_job(kafka, "wire", chunks=3 * len(requests))
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        through = replace(job, servers=proxy.bootstrap_servers)
        for api, n in requests:
            fault = FAULTS[kind](proxy, api, n)
            with semel.Cluster(through.properties()) as cluster, cluster.producer(job.prefix) as producer:
                _live(producer, cluster, job)
            assert fault.happened.is_set(), f"{api} was not sent {n} times"
        _finish(through, job)
    assert_whole(job)


@pytest.mark.parametrize(
    "api", ["AddPartitionsToTxn", "Produce", "TxnOffsetCommit", "EndTxn", "ListOffsets", "DescribeProducers", "Metadata", "Fetch", "FindCoordinator"]
)
def test_a_request_is_repeated_after_its_transaction(kafka: Sandbox, api: str) -> None:
    """The copy comes on a connection of its own when the next transaction is open and written, as a network may keep it."""
    job = new_job(kafka, "late", chunks=7)
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        copy_next(producer, job, write_here(cluster, job))  # so that there is progress to be fetched
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        through = replace(job, servers=proxy.bootstrap_servers)
        now = threading.Event()
        with semel.Cluster(through.properties()) as cluster, cluster.producer(job.prefix) as producer:
            late = proxy.repeat_request(api, later=now)
            producer.take_over([job.target], job.group)
            copy_next(producer, job, write_here(cluster, job))
            write = write_here(cluster, job)

            def write_and_wait(tickets: Sequence[Ticket], start: int, end: int) -> list[Receipt]:
                receipts = write(tickets, start, end)
                now.set()
                assert late.finished.wait(30)
                return receipts

            copy_next(producer, job, write_and_wait)
        _finish(through, job)
    assert_whole(job)


def test_an_init_that_comes_late_fences_its_successor_cleanly(kafka: Sandbox) -> None:
    """A repeated InitProducerId is another owner to the broker: whoever holds the id then stops, and nothing is doubled."""
    job = new_job(kafka, "late", chunks=6)
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        through = replace(job, servers=proxy.bootstrap_servers)
        now = threading.Event()
        late = proxy.repeat_request("InitProducerId", later=now)
        with semel.Cluster(through.properties()) as cluster, cluster.producer(job.prefix) as producer:
            producer.take_over([job.target], job.group)
            copy_next(producer, job, write_here(cluster, job))
            producer.settle()
            now.set()
            assert late.finished.wait(30)
            with pytest.raises(semel.Fenced):
                copy_next(producer, job, write_here(cluster, job))
        _finish(through, job)
    assert_whole(job)


def test_an_init_that_is_sent_twice_costs_a_restart(kafka: Sandbox) -> None:
    job = new_job(kafka, "twice", chunks=2)
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        through = replace(job, servers=proxy.bootstrap_servers)
        twice = proxy.repeat_request("InitProducerId")
        with semel.Cluster(through.properties()) as cluster, cluster.producer(job.prefix) as producer:
            producer.take_over([job.target], job.group)
            assert twice.finished.wait(30)
            with pytest.raises(semel.Fenced):
                copy_next(producer, job, write_here(cluster, job))
        _finish(through, job)
    assert_whole(job)


def _live(producer: Producer, cluster: semel.Cluster, job: Job) -> None:
    write = write_here(cluster, job)
    producer.take_over([job.target], job.group)
    done = position(producer.progress, job) + 2 * job.chunk
    abort = True
    while position(producer.progress, job) < done:
        try:
            copy_next(producer, job, write, abort=abort)
        except AbortAndRetry:
            continue
        abort = False


def _finish(through: Job, job: Job) -> None:
    with semel.Cluster(through.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
        while position(producer.progress, job) < job.total:
            copy_next(producer, job, write_here(cluster, job))
