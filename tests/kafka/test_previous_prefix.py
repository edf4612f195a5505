"""A prefix goes on from another one's progress, and the other is started again at the worst moment: one of the two
stops, and nothing is doubled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import semel
import semel.steps
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, Step
from semel.transaction.producer import Producer
from tests.kafka.support.raw_producer import Raw
from tests.waiting import PATIENCE_S

BATCH = pa.table({"value": ["batch"]})


@pytest.fixture
def raw(kafka: Sandbox) -> Iterator[Raw]:
    made = Raw(kafka.bootstrap_servers)
    with (
        semel.Cluster({"bootstrap.servers": made.servers}) as cluster,
        cluster.producer(made.id) as old,
        old.transaction() as txn,
    ):
        txn.send(made.topic, pa.table({"value": ["before"]}))
    yield made
    made.close()


@pytest.fixture
def cluster(raw: Raw) -> Iterator[semel.Cluster]:
    with semel.Cluster({"bootstrap.servers": raw.servers, "delivery.timeout.ms": 60_000}) as opened:
        yield opened


def renamed(cluster: semel.Cluster, raw: Raw) -> Producer:
    """The one that goes on, with another id."""
    new = cluster.producer(f"{raw.id}-new")
    progress = new.take_over([raw.topic], previous=raw.id)
    assert progress is not None
    assert progress.batch == 0
    return new


def go_on(producer: Producer, raw: Raw) -> None:
    """The batch that is next by the progress of both."""
    assert producer.progress is not None
    assert producer.progress.batch == 0
    with producer.transaction() as txn:
        txn.send(raw.topic, BATCH)


def at(monkeypatch: pytest.MonkeyPatch, step: Step, detail: str, act: Callable[[], None]) -> None:
    """Do something when an id passes a step for the first time."""
    pending = [act]

    def observe(passed: Step, of: str) -> None:
        if passed is step and of == detail and pending:
            pending.pop()()

    monkeypatch.setattr(semel.steps, "_observer", observe)


def test_the_other_one_is_started_again_before_the_first_commit(raw: Raw, cluster: semel.Cluster) -> None:
    """It has committed the very batch that this one is about to commit."""
    with renamed(cluster, raw) as new, cluster.producer(raw.id) as old:
        old.take_over([raw.topic])
        go_on(old, raw)
        with pytest.raises(
            semel.Fenced,
            match=rf"transactional id '{raw.id}' while this one, '{raw.id}-new', was going on from its progress",
        ):
            go_on(new, raw)
    assert raw.visible() == ["before", "batch"]
    with cluster.producer(f"{raw.id}-new") as again:
        progress = again.take_over([raw.topic], previous=raw.id)
        assert progress is not None
        assert progress.batch == 1, "a new start goes on from what the other has done"


def test_a_start_that_stopped_half_way_goes_on_from_it_too(
    raw: Raw, cluster: semel.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own id was taken over, the other one not: whoever runs the work again must not begin anew."""

    def away() -> None:
        raise semel.AbortAndRetry("a partition stays away.", tag="PARTITION_AWAY")

    with cluster.producer(f"{raw.id}-new") as new:
        at(monkeypatch, OwnerStep.PROGRESS_READ, raw.id, away)
        with pytest.raises(semel.AbortAndRetry):
            new.take_over([raw.topic], previous=raw.id)
        with new.transaction() as txn:
            assert new.progress is not None
            assert new.progress.batch == 0
            txn.send(raw.topic, BATCH)
        with cluster.producer(raw.id) as old, pytest.raises(semel.ConfigError, match="PREFIX_MOVED"):
            old.take_over([raw.topic])
    assert raw.visible() == ["before", "batch"]


def test_it_cannot_go_on_from_itself(raw: Raw, cluster: semel.Cluster) -> None:
    with cluster.producer(raw.id) as producer, pytest.raises(semel.ConfigError, match="PREVIOUS_IS_ITSELF"):
        producer.take_over([raw.topic], previous=raw.id)


@pytest.mark.parametrize(
    "step", [OwnerStep.BEGUN, OwnerStep.PARTITIONS_ADDED, OwnerStep.PROGRESS_WRITTEN], ids=lambda step: step.value
)
def test_the_other_one_takes_its_id_back_in_the_middle(
    raw: Raw, cluster: semel.Cluster, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    """Up to the record that says where it has moved to, whoever takes the id may not have seen that: this one stops."""
    with renamed(cluster, raw) as new, cluster.producer(raw.id) as old, ThreadPoolExecutor(1) as aside:
        back: list[Callable[[], object]] = []

        def take_back() -> None:
            fenced = threading.Event()
            at(monkeypatch, OwnerStep.INITIALISED, raw.id, fenced.set)
            back.append(aside.submit(old.take_over, [raw.topic]).result)
            assert fenced.wait(PATIENCE_S)

        at(monkeypatch, step, f"{raw.id}-new", take_back)
        with pytest.raises(semel.Fenced, match="was going on from its progress"):
            go_on(new, raw)
        back[0]()
        go_on(old, raw)
    assert raw.visible() == ["before", "batch"]


def test_the_other_one_comes_back_behind_that(
    raw: Raw, cluster: semel.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds the record open, waits for its end, and is refused."""
    with renamed(cluster, raw) as new, cluster.producer(raw.id) as old, ThreadPoolExecutor(1) as aside:
        back: list[Callable[[], object]] = []
        at(
            monkeypatch,
            OwnerStep.COMMIT_SENT,
            f"{raw.id}-new",
            lambda: back.append(aside.submit(old.take_over, [raw.topic]).result),
        )
        go_on(new, raw)
        with pytest.raises(semel.ConfigError, match="PREFIX_MOVED"):
            back[0]()
    assert raw.visible() == ["before", "batch"]
