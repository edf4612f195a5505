"""Workers of streams on brokers that fail, and on a wire that loses answers: each record is there once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.testing.crash import CrashPlan
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.wire.client import Client
from tests.streams.support.streams_checks import assert_exact, fill, new_job
from tests.streams.support.streams_worker import StreamsJob, done
from tests.support.broker_faults import wait_whole
from tests.support.forked_owners import Nursery, Owner
from tests.support.waiting import wait_for

#: What a start, a rebalance and a commit ask; each answer is lost once, and once cut off in its middle.
ASKED = [
    "JoinGroup",
    "SyncGroup",
    "InitProducerId",
    "OffsetFetch",
    "ListOffsets",
    "Fetch",
    "AddPartitionsToTxn",
    "Produce",
    "TxnOffsetCommit",
    "EndTxn",
    "Heartbeat",
    "FindCoordinator",
    "Metadata",
]
SHAPES = ["count", "copy", "join"]


@pytest.fixture(scope="module")
def kafka3() -> Iterator[Sandbox]:
    settings = {
        "group.min.session.timeout.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "replica.lag.time.max.ms": "3000",
    }
    with Sandbox.start(nodes=3, settings=settings) as sandbox:
        yield sandbox


def wait_done(job: StreamsJob, worker: Owner) -> None:
    with Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client:
        wait_for(lambda: done(client, job), worker.said, 180)


@pytest.mark.exhaustive
@pytest.mark.parametrize("cut", [False, True], ids=["lost", "cut"])
@pytest.mark.parametrize("shape", SHAPES)
def test_answers_are_lost(broker: Sandbox, nursery: Nursery, tmp_path: Path, shape: str, cut: bool) -> None:
    """The worker starts while the fault waits for it, and ends after it has met the fault, wherever that is."""
    rows = 100
    job = replace(new_job(broker, tmp_path, 0, rows * len(ASKED), shape=shape), instance="one", mode="again", chunk=10)
    with FaultProxy(broker.bootstrap_servers) as proxy:
        through = replace(job, servers=proxy.bootstrap_servers, request_timeout_ms=3_000)
        for number, api in enumerate(ASKED):
            fill(job, rows * number, rows * number + rows // 2)
            fault = proxy.cut(api, reply=True) if cut else proxy.drop_reply(api)
            plan = CrashPlan(tmp_path / f"plan-{number}")
            worker = nursery.start(replace(through, total=rows * (number + 1)), plan, tmp_path / f"{api}.log")
            with closing(worker):
                wait_for(fault.happened.is_set, worker.said, 60)
                fill(job, rows * number + rows // 2, rows * (number + 1))
                assert worker.wait(180) == 0, f"{api}: {worker.said()}"
            proxy.withdraw(fault)
    assert_exact(job)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES)
def test_each_broker_of_three_is_killed(kafka3: Sandbox, nursery: Nursery, tmp_path: Path, shape: str) -> None:
    """Under load, and back again: leaders, the group's coordinator and the transactions' move."""
    rows = 400
    job = replace(new_job(kafka3, tmp_path, 0, rows * 6, shape=shape, replication=3), instance="one", mode="again")
    with closing(nursery.start(job, CrashPlan(tmp_path / "plan"), tmp_path / "log")) as worker:
        for number, node in enumerate(kafka3.nodes):
            fill(job, rows * 2 * number, rows * (2 * number + 1))
            node.kill()
            fill(job, rows * (2 * number + 1), rows * (2 * number + 2))
            wait_done(replace(job, total=rows * (2 * number + 2)), worker)
            node.start()
            wait_whole(kafka3)
        assert worker.wait() == 0, worker.said()
    assert_exact(job)
