"""Transactions whose markers are lost on purpose, and what becomes of their owners: the scene for whoever heals them.

Owners stand right in front of the end of their transaction until all are there; then a node is frozen, and everything
ends at once while it leads nothing. Some owners live on and look after their markers, of the others nothing is heard
any more.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

import semel
import semel.transaction.transaction
from semel.errors import SemelError
from semel.records.encode import encode
from semel.steps import OwnerStep, Step
from semel.testing.records import read
from semel.transaction.markers.wait import EndedTransaction
from semel.transaction.positions import ProgressRecords
from semel.transaction.producer import Producer
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.transaction import Transaction
from semel.wire.api.describe_transactions import describe, open_transactions
from semel.wire.api.produce import Appender
from semel.wire.api.transactions import Identity, add_partitions, end, fence, init_producer_id
from semel.wire.client import Client
from tests.support.leaderless_cluster import Frail, Names, frail
from tests.support.waiting import PATIENCE_S, TRANSACTION_MS, wait_for
from tests.transaction.support.last_epochs import own


class Died(BaseException):
    """An owner is gone, in the middle of whatever it was at."""


@dataclass
class Left:
    """A transaction whose markers were lost, and its owner where that one lives."""

    names: Names
    producer: Producer | None
    end: Callable[[], None]
    result: Callable[[], None]
    wake: Callable[[], None] = lambda: None


@dataclass
class Scene:
    """The cluster, and what was left there."""

    frail: Frail
    left: dict[str, Left]

    def values(self, names: Names, *, wait_for_open: bool = True) -> list[str]:
        """Return what a reader of another client sees, in order."""
        seen = read(self.frail.kafka.bootstrap_servers, [names.topic], {"value": "value"}, wait_for_open=wait_for_open)
        return sorted(seen.column("value").to_pylist())

    def take_over(self, names: Names, *, may_heal: bool = True, progress_topic: str = DEFAULT_TOPIC) -> None:
        """Take over as the next owner does, from beginning to end. Then abort one transaction, and commit another."""
        with (
            cluster(self.frail, may_heal=may_heal) as ours,
            ours.producer(names.id, progress_topic=progress_topic) as producer,
        ):
            producer.take_over([names.topic], names.group)
            go_on(producer, names)

    def nothing_is_open(self, names: Names) -> bool:
        partitions = [(names.topic, index) for index in self.frail.client.topics({names.topic})[names.topic].partitions]
        return not any(open_transactions(self.frail.client, partitions).values())


@contextmanager
def cluster(where: Frail, **how: bool) -> Iterator[semel.Cluster]:
    with semel.Cluster(where.properties(**how)) as opened:
        yield opened


def rows(text: str, names: Names, where: Frail) -> pa.Table:
    indexes = sorted(where.client.topics({names.topic})[names.topic].partitions)
    return pa.table({"value": [f"{text}-{index}" for index in indexes], "partition": indexes})


def go_on(producer: Producer, names: Names) -> None:
    """Run an abort that would also remove rows of the former transaction if they were still open, and a commit that
    would show aborted ones.
    """
    txn = producer.transaction()
    txn.send(names.topic, pa.table({"value": ["never"], "partition": [0]}))
    txn.abort()
    with producer.transaction() as txn:
        txn.send(names.topic, pa.table({"value": ["after-0"], "partition": [0]}))
        txn.send_offsets({(names.topic, 0): 9}, group=names.group)


def write_as(client: Client, stranger: Identity, names: Names) -> None:
    """Leave a transaction open, of a program that checks no markers."""
    partition = (names.topic, 0)
    assert add_partitions(client, stranger, [partition], client.deadline()) == 0
    appender = Appender(client, {names.topic: client.topics({names.topic})[names.topic].id}, names.id)
    row = pa.table({"value": ["strange"]})
    batches = encode(
        row, producer_id=stranger.producer_id, producer_epoch=stranger.epoch, base_sequence=0, transactional=True
    )
    appender.submit((partition, batch) for batch in batches)
    appender.flush()


class Stage:
    """Owners that stand right in front of the end of their transaction, until all of them are there."""

    def __init__(self, where: Frail, held: ExitStack) -> None:
        self.where = where
        self._held = held
        self._pool = held.enter_context(ThreadPoolExecutor(40))
        self._go = threading.Event()
        self._arrived: dict[str, threading.Event] = {}
        self._dying: dict[str, Step] = {}

    def observe(self, step: Step, detail: str) -> None:
        name = detail.partition(" ")[0]
        if self._dying.get(name) is step:
            del self._dying[name]
            raise Died
        if step is OwnerStep.OFFSETS_ADDED and detail in self._arrived:
            self._arrived.pop(detail).set()
            assert self._go.wait(PATIENCE_S)

    def _begin(self, transaction: Callable[[], Transaction], names: Names) -> Transaction:
        for text, offset in (("before", 1), ("lost", 7)):
            txn = transaction()
            txn.send(names.topic, rows(text, names, self.where))
            txn.send_offsets({(names.topic, 0): offset}, group=names.group)
            if text == "before":
                txn.commit()
        return txn

    def living(
        self, names: Names, end: str = "committed", *, may_heal: bool = True, dies_at: Step | None = None
    ) -> Left:
        """Commit, or abort, with an owner that checks its markers itself."""
        if dies_at is not None:
            self._dying[names.id] = dies_at
        ours = self._held.enter_context(cluster(self.where, may_heal=may_heal))
        producer = ours.producer(names.id)
        producer.take_over([names.topic], names.group)
        txn = self._begin(producer.transaction, names)
        if end == "aborted":
            return Left(names, producer, txn.abort, lambda: None)
        return self._committing(names, producer, txn)

    def dead(self, names: Names, end: str = "committed", *, progress_topic: str = DEFAULT_TOPIC) -> Left:
        """Its last act is EndTxn, or TxnOffsetCommit where it is the next owner's InitProducerId that aborts it."""
        producer = self._held.enter_context(cluster(self.where)).producer(names.id, progress_topic=progress_topic)
        producer.take_over([names.topic], names.group)
        return self._dead(names, self._begin(producer.transaction, names), end)

    def late(self, names: Names) -> Left:
        """Commit, with an owner that checks its markers when the test lets it: ``wake``."""
        producer = self._held.enter_context(cluster(self.where)).producer(names.id)
        producer.take_over([names.topic], names.group)
        txn = self._begin(producer.transaction, names)
        look_after, ended = txn._ended, list[EndedTransaction]()
        txn._ended = ended.append
        return replace(self._committing(names, producer, txn), wake=lambda: look_after(ended[0]))

    def _dead(self, names: Names, txn: Transaction, end: str) -> Left:
        txn._ended = lambda ended: None  # nobody looks after its markers
        left = self._committing(names, None, txn)
        if end == "committed":
            return left
        return Left(names, None, lambda: self._fence(names), lambda: None)

    def strange(self, names: Names, *, commit: bool) -> Left:
        """Leave a transaction of a program that is not semel, and writes no progress.

        Committed, or aborted by whoever comes next.
        """
        if describe(self.where.client, names.id) is None:
            own(self.where.kafka.bootstrap_servers, names.id)  # long ago
        stranger = init_producer_id(self.where.client, names.id, TRANSACTION_MS, self.where.client.deadline())
        write_as(self.where.client, stranger, names)
        if not commit:
            return Left(names, None, lambda: self._fence(names), lambda: None)
        return Left(names, None, lambda: self._commit_as(stranger), lambda: None)

    def _commit_as(self, stranger: Identity) -> None:
        assert end(self.where.client, stranger, commit=True, deadline=self.where.client.deadline()).code == 0

    def _fence(self, names: Names) -> None:
        fence(self.where.client, names.id)

    def _committing(self, names: Names, producer: Producer | None, txn: Transaction) -> Left:
        arrived = self._arrived[names.id] = threading.Event()
        future = self._pool.submit(self._commit, txn)
        wait_for(lambda: arrived.is_set() or future.done(), f"{names.id} in front of its commit")
        if not arrived.is_set():
            future.result()
        return Left(names, producer, lambda: None, lambda: future.result(PATIENCE_S))

    def _commit(self, txn: Transaction) -> None:
        try:
            txn.commit()
        except SemelError as error:
            if not isinstance(error, semel.Fenced):
                raise

    def let_go(self) -> None:
        """Release all held processes."""
        self._go.set()

    def lose(self, left: dict[str, Left]) -> None:
        """Everything ends while the victim leads nothing."""
        with self.where.leaderless():
            for one in left.values():
                one.end()
            self._go.set()
            for one in left.values():
                one.result()


@contextmanager
def scene_of(prepare: Callable[[Stage], dict[str, Left]]) -> Iterator[Scene]:
    """Start the cluster, let ``prepare`` bring the owners on, and lose their markers."""
    patch = pytest.MonkeyPatch()
    with frail() as where, ExitStack() as held:
        stage = Stage(where, held)
        patch.setattr(semel.steps, "_observer", stage.observe)
        # they stand between their last look at what they wrote and EndTxn: one that looks there waits for the leaders
        # that are taken away
        patch.setattr(semel.transaction.transaction, "_LOOK_AGAIN_S", math.inf)
        patch.setattr(ProgressRecords, "check_written", lambda positions, written, leaders: None)
        held.callback(stage.let_go)  # in front of the pool's own end, which waits for all of them
        left = prepare(stage)
        stage.lose(left)
        yield Scene(where, left)
        patch.undo()
