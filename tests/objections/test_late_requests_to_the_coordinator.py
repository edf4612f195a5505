"""EndTxn, AddPartitionsToTxn and TxnOffsetCommit that are delayed past the next begin: a network may keep them, and
they change nothing then.

(Copies that come late: ``tests/transaction/crash/test_faults_on_the_wire.py``.)
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

import semel
from semel.sandbox import Sandbox
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.transaction.ticket import Receipt, Ticket
from tests.transaction.support.pipeline import copy_next, position, write_here
from tests.transaction.support.pipeline_checks import assert_whole, new_job


@pytest.mark.parametrize(
    ("api", "abort"),
    [
        ("EndTxn", False),
        ("EndTxn", True),
        ("AddPartitionsToTxn", False),
        ("AddPartitionsToTxn", True),
        ("TxnOffsetCommit", False),
    ],
)
def test_a_delayed_request_comes_in_the_next_transaction(kafka: Sandbox, api: str, abort: bool) -> None:
    """The owner gives up waiting, repeats it on another connection, and goes on; the first one reaches the broker
    behind the next begin.
    """
    job = new_job(kafka, "delayed", chunks=6)
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        properties = {**replace(job, servers=proxy.bootstrap_servers).properties(), "request.timeout.ms": 1000}
        with semel.Cluster(properties) as cluster, cluster.producer(job.prefix) as producer:
            producer.take_over([job.target], job.group)
            copy_next(producer, job, write_here(cluster, job))
            now = threading.Event()
            held = proxy.delay_request(api, until=now)
            copy_next(producer, job, write_here(cluster, job), abort=abort)
            assert held.happened.is_set()

            def write_then_let_go(tickets: Sequence[Ticket], start: int, end: int) -> list[Receipt]:
                receipts = write_here(cluster, job)(tickets, start, end)
                now.set()
                assert held.finished.wait(30)
                return receipts

            copy_next(producer, job, write_then_let_go)
            while position(producer.progress, job) < job.total:
                copy_next(producer, job, write_here(cluster, job))
    assert_whole(job)
