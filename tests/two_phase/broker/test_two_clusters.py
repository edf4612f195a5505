"""An owner on one cluster decides for what is prepared on another, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import semel
from semel.config import ClientConfig
from semel.errors import AbortAndRetry, ConfigError, Fenced
from semel.sandbox import Sandbox
from semel.steps import OwnerStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.records import read
from semel.wire.api.describe_transactions import list_transactions
from semel.wire.client import Client
from tests.support.topics import create
from tests.support.waiting import PATIENCE_S

ROWS = pa.table({"value": ["one", "two"]})


def cluster_of(brokers: Sandbox) -> semel.Cluster:
    return semel.Cluster({"bootstrap.servers": brokers.bootstrap_servers})


def count(brokers: Sandbox, topic: str) -> int:
    """How many rows readers see. A transaction that is left open holds them back, and fails this."""
    return len(read(brokers.bootstrap_servers, [topic], {"value": "value"}))


@dataclass(frozen=True)
class Pair:
    """Two clusters, with a topic of one name on both."""

    a: Sandbox
    b: Sandbox

    def topic(self, name: str) -> str:
        for brokers in (self.a, self.b):
            create(brokers.bootstrap_servers, name, 1)
        return name

    def open(self) -> tuple[semel.Cluster, semel.Cluster]:
        return cluster_of(self.a), cluster_of(self.b)

    def rows(self, topic: str) -> tuple[int, int]:
        return count(self.a, topic), count(self.b, topic)

    def is_open_on_b(self, prefix: str) -> bool:
        with Client(ClientConfig.parse({"bootstrap.servers": self.b.bootstrap_servers})) as client:
            return any(name.startswith(f"{prefix}.") for name in list_transactions(client, ["Ongoing"]))


@pytest.fixture(scope="module")
def pair(kafka: Sandbox) -> Iterator[Pair]:
    with Sandbox.start() as other:
        yield Pair(kafka, other)


def prepared_on(cluster: semel.Cluster, prefix: str, topic: str) -> semel.Prepared:
    with cluster.producer(prefix, two_phase="bounded") as producer, producer.transaction() as part:
        part.send(topic, ROWS)
        return part.prepare()


def test_a_commit_decides_for_both_and_an_abort_too(pair: Pair) -> None:
    topic = pair.topic("both")
    a, b = pair.open()
    with a, b, a.producer("both", clusters=[b]) as owner:
        for commits in (True, False):
            with owner.transaction() as txn:
                txn.send(topic, ROWS)
                txn.enlist([prepared_on(b, "both", topic)])
                if not commits:
                    txn.abort()
        owner.wait_visible()
    assert not pair.is_open_on_b("both")
    assert pair.rows(topic) == (2, 2)


def test_what_has_ended_before_the_decision_aborts_it(pair: Pair) -> None:
    topic = pair.topic("ended-before")
    a, b = pair.open()
    with a, b, a.producer("ended-before", clusters=[b]) as owner:
        txn = owner.transaction()
        txn.send(topic, ROWS)
        prepared = prepared_on(b, "ended-before", topic)
        txn.enlist([prepared])
        b.abort(prepared)
        with pytest.raises(AbortAndRetry, match="ENLISTED_ENDED"):
            txn.commit()
    assert pair.rows(topic) == (0, 0)


def test_a_successor_aborts_what_was_not_decided_and_fences_the_one_that_wakes(pair: Pair) -> None:
    topic = pair.topic("succeeded")
    a, b = pair.open()
    with a, b, a.producer("succeeded", clusters=[b]) as owner, a.producer("succeeded", clusters=[b]) as successor:
        txn = owner.transaction()
        txn.send(topic, ROWS)
        txn.enlist([prepared_on(b, "succeeded", topic)])
        successor.take_over([topic])
        assert not pair.is_open_on_b("succeeded")
        with pytest.raises(Fenced):
            txn.commit()
    assert pair.rows(topic) == (0, 0)


def test_an_abort_without_rows_of_its_own_ends_what_was_enlisted(pair: Pair) -> None:
    topic = pair.topic("enlisted-only")
    a, b = pair.open()
    with a, b, a.producer("enlisted-only", clusters=[b]) as owner:
        txn = owner.transaction()
        txn.enlist([prepared_on(b, "enlisted-only", topic)])
        txn.abort()
        assert not pair.is_open_on_b("enlisted-only")


def test_one_that_wakes_behind_its_successor_ends_what_it_enlists(pair: Pair) -> None:
    topic = pair.topic("wakes")
    a, b = pair.open()
    with a, b, a.producer("wakes", clusters=[b]) as owner, a.producer("wakes", clusters=[b]) as successor:
        txn = owner.transaction()
        txn.send(topic, ROWS)
        successor.take_over([topic])
        txn.enlist([prepared_on(b, "wakes", topic)])
        with pytest.raises(Fenced):
            txn.commit()
        assert not pair.is_open_on_b("wakes")


def test_wrong_ones_are_refused_before_the_decision(pair: Pair) -> None:
    topic = pair.topic("refused")
    a, b = pair.open()
    with a, b, a.producer("refused") as alone, a.producer("refused-2", clusters=[b]) as owner:
        prepared = prepared_on(b, "refused", topic)
        with pytest.raises(ConfigError, match="OTHER_CLUSTER"), alone.transaction() as txn:
            txn.enlist([prepared])
        with pytest.raises(ConfigError, match="OTHER_PREFIX"), owner.transaction() as txn:
            txn.enlist([prepared])
        with pytest.raises(ConfigError, match=r"clusters=\[\.\.\.\] needs an ordinary producer"):
            a.producer("refused", two_phase="bounded", clusters=[b])  # type: ignore[call-overload]
        b.abort(prepared)
        own = prepared_on(a, "refused-2", topic)
        with pytest.raises(ConfigError, match="OWN_CLUSTER"), owner.transaction() as txn:
            txn.enlist([own])
        a.abort(own)


def test_a_start_without_the_other_cluster_says_so(pair: Pair, tmp_path: Path) -> None:
    """It is killed behind its decision: only a start that knows both clusters can end what was decided."""
    topic = pair.topic("left-out")
    plan = CrashPlan(tmp_path / "plan", CrashPoint(OwnerStep.COMMIT_ANSWERED))
    servers = [pair.a.bootstrap_servers, pair.b.bootstrap_servers]
    command = [sys.executable, "-m", "tests.two_phase.support.two_clusters_program", *servers, topic, "3", "decided"]
    killed = subprocess.run(command, env={**os.environ, **plan.environment()}, timeout=PATIENCE_S)
    assert killed.returncode == -signal.SIGKILL
    a, b = pair.open()
    with a, b:
        with a.producer(topic) as successor, pytest.raises(ConfigError, match="OTHER_CLUSTER"):
            successor.take_over()
        assert pair.is_open_on_b(topic)
        with a.producer(topic, clusters=[b]) as successor:
            progress = successor.take_over()
    assert progress is not None
    assert progress.batch == 0
    assert pair.rows(topic) == (5, 5)
