"""Every request that an owner and its participants send, lost, answered in vain, torn apart, repeated or late (DESIGN
section 5).

On three brokers, behind a fault proxy. A life without a fault shows which requests follow each step. Then one owner
after the other takes over, aborts once and copies, and each request behind each step meets each fault once; the next
owner goes on where that one stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import zip_longest

import pytest

import semel
from semel.sandbox import Sandbox
from semel.steps import ParticipantStep, Step
from semel.testing.proxy.fault_proxy import Fault, FaultProxy
from semel.transaction.ticket import Receipt, Ticket
from tests.support.broker_faults import STEPS as OWNER_STEPS
from tests.support.broker_faults import copy_chunks, finish, observing, striking
from tests.support.coordinator import wait_until_ended
from tests.transaction.support.pipeline import Job, copy_next, write_here
from tests.transaction.support.pipeline_checks import assert_whole, new_job

#: How many chunks each life copies, behind one that it aborts.
_CHUNKS = 2
FAULTS: dict[str, Callable[[FaultProxy, str], Fault]] = {
    "reply lost": lambda proxy, api: proxy.drop_reply(api),
    "request lost": lambda proxy, api: proxy.drop_request(api),
    "reply cut": lambda proxy, api: proxy.cut(api, reply=True),
    "request cut": lambda proxy, api: proxy.cut(api),
    "repeated at once": lambda proxy, api: proxy.repeat_request(api, times=2),
    "late": lambda proxy, api: proxy.delay_request(api, seconds=1.5 * _IMPATIENT_MS / 1000),
}
#: Where requests are late: the client has given up and sent it again when the broker gets the first one.
_IMPATIENT_MS = 400
#: What a life passes where no marker is lost; behind None is what it sends before the first step.
STEPS: list[Step | None] = [None, *OWNER_STEPS, *ParticipantStep]


#: Done, and the client cannot know it.
_SAMPLE = ("reply lost",)


@pytest.mark.parametrize(
    "kind", [kind if kind in _SAMPLE else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in FAULTS]
)
def test_each_request_behind_each_step_meets_a_fault(kafka3: Sandbox, kind: str) -> None:
    job = new_job(kafka3, "wire", chunks=_CHUNKS * 36)
    met: set[tuple[Step | None, str]] = set()
    with FaultProxy(kafka3.bootstrap_servers) as proxy:
        through = replace(
            job,
            servers=proxy.bootstrap_servers,
            request_timeout_ms=_IMPATIENT_MS if kind == "late" else job.request_timeout_ms,
        )
        behind = _requests_behind_steps(proxy, through)
        if kind in (
            "repeated at once",
            "late",
        ):  # a copy of InitProducerId is another owner to the broker: it has tests of its own
            behind = [(step, api) for step, api in behind if api != "InitProducerId"]
        half = (len(behind) + 1) // 2
        for pairs in zip_longest(
            behind[:half], behind[half:]
        ):  # two in each life, far apart: one takes over, the other commits
            faults: dict[tuple[Step | None, str], Fault] = {}
            with ExitStack() as armed:
                for pair in filter(None, pairs):
                    armed.enter_context(_armed(pair, partial(FAULTS[kind], proxy, pair[1]), faults))
                _live(through)
            assert faults.keys() == set(filter(None, pairs))
            met.update(pair for pair, fault in faults.items() if fault.happened.is_set())
            for fault in faults.values():
                proxy.withdraw(fault)
        finish(through)
    assert_whole(job)
    assert {step for step, _ in met} == set(STEPS)
    assert {api for _, api in met} == {api for _, api in behind}
    # what is asked only while a marker is on its way comes in one life, and not in the next
    assert len(met) >= 0.9 * len(behind), f"not met: {set(behind) - met}"


@pytest.mark.parametrize(
    "api",
    [
        "AddPartitionsToTxn",
        "Produce",
        "TxnOffsetCommit",
        "EndTxn",
        *(
            pytest.param(api, marks=pytest.mark.exhaustive)
            for api in ("ListOffsets", "DescribeProducers", "Metadata", "Fetch", "FindCoordinator")
        ),
    ],
)
def test_a_request_is_repeated_after_its_transaction(kafka3: Sandbox, api: str) -> None:
    """The copy comes on a connection of its own when the next transaction is open and written, as a network may keep
    it.
    """
    job = new_job(kafka3, "late", chunks=7)
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        copy_next(producer, job, write_here(cluster, job))  # so that there is progress to be fetched
    with FaultProxy(kafka3.bootstrap_servers) as proxy:
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
        finish(through)
    assert_whole(job)


def test_an_init_that_comes_late_fences_its_successor_cleanly(kafka3: Sandbox) -> None:
    """A repeated InitProducerId is another owner to the broker: whoever holds the id then stops, and nothing is
    doubled.
    """
    job = new_job(kafka3, "late", chunks=6)
    with FaultProxy(kafka3.bootstrap_servers) as proxy:
        through = replace(job, servers=proxy.bootstrap_servers)
        now = threading.Event()
        late = proxy.repeat_request("InitProducerId", later=now)
        with semel.Cluster(through.properties()) as cluster, cluster.producer(job.prefix) as producer:
            producer.take_over([job.target], job.group)
            copy_next(producer, job, write_here(cluster, job))
            producer.wait_visible()
            wait_until_ended(kafka3.bootstrap_servers, job.prefix)  # until then it refuses another owner
            now.set()
            assert late.finished.wait(30)
            with pytest.raises(semel.Fenced):
                copy_next(producer, job, write_here(cluster, job))
        finish(through)
    assert_whole(job)


def test_an_init_that_is_sent_twice_costs_a_restart(kafka3: Sandbox) -> None:
    job = new_job(kafka3, "twice", chunks=2)
    with FaultProxy(kafka3.bootstrap_servers) as proxy:
        through = replace(job, servers=proxy.bootstrap_servers)
        twice = proxy.repeat_request("InitProducerId")
        with semel.Cluster(through.properties()) as cluster, cluster.producer(job.prefix) as producer:
            producer.take_over([job.target], job.group)
            assert twice.finished.wait(30)
            with pytest.raises(semel.Fenced):
                copy_next(producer, job, write_here(cluster, job))
        finish(through)
    assert_whole(job)


def _requests_behind_steps(proxy: FaultProxy, job: Job) -> list[tuple[Step | None, str]]:
    """The APIs that are spoken behind each step, in a life without a fault that goes on from another one.

    Those before the next step, or where there are none (and where one that was sent has not reached the proxy yet) the
    next ones.
    """
    _live(job)
    passed: list[tuple[Step | None, int]] = [(None, len(proxy.log))]
    with observing(lambda step: passed.append((step, len(proxy.log)))):
        _live(job)
    ends = [*(at for _, at in passed[1:]), len(proxy.log)]
    behind: dict[tuple[Step | None, str], None] = {}
    later: list[str] = []
    for (step, at), end in reversed(list(zip(passed, ends, strict=True))):
        later = [seen.api for seen in proxy.log[at:end]] or later
        behind.update({(step, api): None for api in later})
    return list(reversed(behind))


@contextmanager
def _armed(
    pair: tuple[Step | None, str], fault: Callable[[], Fault], faults: dict[tuple[Step | None, str], Fault]
) -> Iterator[None]:
    """Set the fault up when the step of the pair is passed for the first time; it is under the pair then."""
    step, _ = pair
    if step is None:
        faults[pair] = fault()
        yield
    else:
        with striking(step, lambda: faults.update({pair: fault()})):
            yield


def _live(job: Job) -> None:
    """A new owner takes over, aborts once, and copies. It is told of nothing that one fault explains but an abort."""
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        producer.take_over([job.target], job.group)
        copy_chunks(producer, cluster, job, _CHUNKS)
