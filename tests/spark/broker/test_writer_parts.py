"""The parts of a batch of ``format("semel")``: planned, prepared and decided as in Spark's processes, without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import pyarrow as pa
import pytest

from semel.config import ClientConfig
from semel.errors import AbortAndRetry, DataLoss
from semel.sandbox import Sandbox
from semel.spark.writer.commit import abort_parts, commit_parts, decision_of
from semel.spark.writer.options import WriterOptions
from semel.spark.writer.plan import BatchPlan, plan_job
from semel.spark.writer.task import Part
from semel.testing.records import read
from semel.transaction.transactional_id import IdKind
from semel.transaction.two_phase.producer import TwoPhaseProducer
from semel.transaction.two_phase.recovery import open_prepared
from semel.wire.client import Client
from tests.support.other_client import delete_records
from tests.support.topics import create
from tests.support.waiting import wait_for

_numbers = count(1)


@pytest.fixture
def client(kafka: Sandbox) -> Iterator[Client]:
    with Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as made:
        yield made


class Job:
    """A batch job, version by version."""

    def __init__(self, kafka: Sandbox, client: Client, **options: str) -> None:
        self.servers, self.client = kafka.bootstrap_servers, client
        self.topic = create(self.servers, f"writer-parts-{next(_numbers)}", 2)
        self.options = {
            "kafka.bootstrap.servers": self.servers,
            "topic": self.topic,
            "transactionalIdPrefix": self.topic,
            **options,
        }

    def plan(self, version: int) -> BatchPlan:
        return plan_job(WriterOptions.parse({**self.options, "version": str(version)}), ("value",))

    def part(self, plan: BatchPlan, *values: str) -> Part:
        config = plan.options.config
        with Client(config) as client:
            unit = TwoPhaseProducer(client, self.topic, "bounded", kind=IdKind.TASK).transaction()
            unit.send(self.topic, pa.table({"value": list(values)}))
            return Part(plan.batch, True, unit.prepare(), plan.decision)

    def commit(self, plan: BatchPlan, *parts: Part) -> None:
        commit_parts(plan.options, parts, plan.batch)

    @property
    def visible(self) -> list[str]:
        values = read(self.servers, [self.topic], {"value": "value"}, wait_for_open=False)["value"].to_pylist()
        return sorted(str(value) for value in values)

    @property
    def open(self) -> list[str]:
        return [one.transactional_id for one in open_prepared(self.client, self.topic, IdKind.TASK)]


@pytest.fixture
def new_job(kafka: Sandbox, client: Client) -> Callable[..., Job]:
    return lambda **options: Job(kafka, client, **options)


def test_attempts_that_lost_do_not_hold_readers_back(new_job: Callable[..., Job]) -> None:
    """One that Spark gave up has prepared too, as one of an executor that is lost, or of speculation."""
    job = new_job()
    plan = job.plan(1)
    job.part(plan, "lost")
    job.commit(plan, job.part(plan, "a"), job.part(plan, "b"))
    assert job.open == []
    assert job.visible == ["a", "b"]


def test_a_failed_batch_leaves_nothing_open(new_job: Callable[..., Job]) -> None:
    """Also what tasks have that have not answered."""
    job = new_job()
    plan = job.plan(1)
    job.part(plan, "no answer")
    decision = decision_of([job.part(plan, "a"), None], plan.batch)
    assert decision is not None
    abort_parts(plan.options, decision)
    assert job.open == []
    again = job.plan(1)
    job.commit(again, job.part(again, "a"))
    assert job.visible == ["a"]


def test_what_has_ended_is_not_looked_for_again(new_job: Callable[..., Job]) -> None:
    """Its rows are deleted, and its topic is another one: nothing of that is lost."""
    job = new_job()
    plan = job.plan(1)
    part = job.part(plan, "a", "b")
    job.commit(plan, part)
    assert part.prepared is not None
    for (topic, index), (first, rows) in part.prepared.rows.items():
        delete_records(job.servers, topic, index, first + rows)
    plan = job.plan(2)
    job.commit(plan, job.part(plan, "c"))
    assert job.visible == ["c"]


def test_a_decision_that_comes_too_late_is_none(new_job: Callable[..., Job]) -> None:
    """In bounded mode: what expires before the answer to a decision would be lost."""
    job = new_job(**{"kafka.transaction.timeout.ms": "2000"})
    plan = job.plan(1)
    part = job.part(plan, "a")
    assert part.prepared is not None
    late_ms = (part.prepared.until_ms or 0) - 300
    wait_for(lambda: time.time() * 1000 > late_ms, "most of its time")
    with pytest.raises(AbortAndRetry) as refused:
        job.commit(plan, part)
    assert refused.value.tag in ("ENLISTED_LATE", "ENLISTED_ENDED")
    decision = decision_of([part], plan.batch)
    assert decision is not None
    abort_parts(plan.options, decision)
    again = job.plan(1)
    job.commit(again, job.part(again, "a"))
    assert job.visible == ["a"]


def test_rows_that_are_gone_are_not_committed(new_job: Callable[..., Job]) -> None:
    job = new_job()
    plan = job.plan(1)
    part, other = job.part(plan, "a", "b"), job.part(plan, "c")
    assert part.prepared is not None
    for (topic, index), (first, rows) in part.prepared.rows.items():
        delete_records(job.servers, topic, index, first + rows)
    with pytest.raises(DataLoss) as lost:
        job.commit(plan, part, other)
    assert lost.value.tag == "ROWS_GONE"
    assert job.visible == []
