"""The writers of a task: records and offsets in one transaction, or at least once with offsets now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from semel.connect.api import Offset, Partition
from semel.connect.stores.own_offsets import Offsets
from semel.connect.tasks.outputs import Outputs
from semel.connect.tasks.rows import Rows
from semel.connect.tasks.topic_creation import TopicCreation
from semel.errors import ConfigError
from semel.steps import ConnectStep, reached
from semel.transaction.local_writer import LocalWriter
from semel.transaction.producer import Producer
from semel.transaction.ticket import NO_TRANSACTION, Tickets
from semel.transaction.transaction import Transaction
from semel.wire.client import Client

__all__ = ["AtLeastOnce", "ExactlyOnce", "Writer"]


class Writer(Protocol):
    """Writes what a task polled."""

    @property
    def open_ms(self) -> float | None:
        """The age of its open transaction in milliseconds, or None."""

    def start(self) -> None:
        """Stop every predecessor from writing, where that can be done."""

    def refusal(self, topic: str, table: pa.Table) -> ConfigError | None:
        """Why one of these rows cannot be written, before anything is; None where all can."""

    def write(self, rows: Rows) -> None:
        """Write records, and keep their offsets."""

    def commit(self) -> None:
        """Make visible what was written, with its offsets."""

    def abort(self) -> None:
        """Discard what was written since the last commit. Its offsets count all the same."""

    def idle(self) -> None:
        """Do what is due now."""

    def close(self) -> None:
        """Close. What is not committed is lost."""


class ExactlyOnce:
    """Transactions on an id of the task: each has records, their offsets, and one commit.

    One begins with the first records after the last commit.
    """

    def __init__(
        self, client: Client, transactional_id: str, store: Offsets, creation: TopicCreation | None = None
    ) -> None:
        self._outputs, self._store = Outputs(client, store, creation), store
        # The offsets topic is the truth. No task reads the progress record: it is the witness for a marker that brokers
        # lost (PROTOCOL 5), which names each partition and says how the transaction ended. An id that was Kafka
        # Connect's has none.
        self._producer = Producer(client, transactional_id, scope="connect", may_have_lost_progress=True)
        self._due: dict[str, tuple[Partition, Offset]] = {}
        self._transaction: Transaction | None = None

    def start(self) -> None:
        """Take the id over: who had it is fenced, and what it left open is aborted."""
        self._producer.take_over({self._store.topic})

    @property
    def open_ms(self) -> float | None:
        """The age of its open transaction in milliseconds, or None."""
        return self._producer.age_ms

    def refusal(self, topic: str, table: pa.Table) -> ConfigError | None:
        """Why the topic would not take one of these rows."""
        self._outputs.fixed = self._transaction is not None
        return self._outputs.refusal(topic, table)

    def write(self, rows: Rows) -> None:
        """Write, and do not wait: the last records go out with the next ones, or with the offsets. Raises what a
        transaction raises; the task starts again after that.
        """
        self._outputs.fixed = self._transaction is not None
        tables, soon = (
            self._outputs.by_topic(rows),
            [(self._store.topic, to) for to in self._store.places(rows.offsets)],
        )
        if tables:
            with self._begun() as transaction:
                transaction.write(tables, self._outputs.topics, soon=soon, wait=False, more=True)
        self._due.update(rows.offsets)

    def commit(self) -> None:
        """Write the offsets that are due, and commit. With nothing due, nothing is sent."""
        if not self._due:
            return
        with self._begun() as transaction:  # begun now if records were left out, or aborted: offsets alone
            reached(ConnectStep.RECORDS_WRITTEN, self._producer.transactional_id)
            transaction.write({self._store.topic: self._store.rows(self._due)}, self._outputs.topics, wait=False)
            reached(ConnectStep.OFFSETS_SENT, self._producer.transactional_id)
            transaction.commit()
        self._transaction = None
        self._store.committed(self._due)
        self._due.clear()
        reached(ConnectStep.COMMITTED, self._producer.transactional_id)

    def abort(self) -> None:
        """Abort what is open, and commit its offsets."""
        if self._transaction is not None:
            self._transaction.abort()
            self._transaction = None
        self.commit()

    def idle(self) -> None:
        """Do nothing: nothing is due."""

    def close(self) -> None:
        """Abort the open transaction, and release the id."""
        self._producer.close()

    @contextmanager
    def _begun(self) -> Iterator[Transaction]:
        """Give the open transaction, or a new one. It is aborted where anything is raised: what the transaction says of
        that is what its user must know.
        """
        transaction = self._transaction = self._transaction or self._producer.transaction()
        try:
            yield transaction
        except BaseException as error:
            self._transaction = None
            transaction.__exit__(type(error), error, None)
            raise


class AtLeastOnce:
    """Records as they come, and their offsets every ``interval_ms``. After a crash, records come again."""

    def __init__(self, client: Client, store: Offsets, interval_ms: int, creation: TopicCreation | None = None) -> None:
        self._client, self._store = client, store
        self._outputs = Outputs(client, store, creation)
        self._interval_s = interval_ms / 1000
        # records without a key go to one partition for each poll, and to the next one with the next poll
        self._polls = 0
        self._due: dict[str, tuple[Partition, Offset]] = {}
        self._flushed = time.monotonic()

    def start(self) -> None:
        """Do nothing: without a transactional id, no other task can be fenced."""

    @property
    def open_ms(self) -> None:
        """There is no transaction."""

    def refusal(self, topic: str, table: pa.Table) -> ConfigError | None:
        """Why the topic would not take one of these rows."""
        return self._outputs.refusal(topic, table)

    def write(self, rows: Rows) -> None:
        """Write the records; they are acknowledged, and visible, when it returns."""
        self._append(self._outputs.by_topic(rows))
        reached(ConnectStep.RECORDS_WRITTEN, self._store.topic)
        self._due.update(rows.offsets)

    def commit(self) -> None:
        """Write the offsets if they are due. Records are visible already."""
        self.idle()

    def abort(self) -> None:
        """Do nothing: records cannot be taken back. A connector that aborts is refused in this mode."""

    def idle(self) -> None:
        """Write the offsets, if their time has come."""
        if self._due and time.monotonic() - self._flushed >= self._interval_s:
            self._flush()

    def close(self) -> None:
        """Write the offsets that are due."""
        if self._due:
            self._flush()

    def _flush(self) -> None:
        self._append({self._store.topic: self._store.rows(self._due)})
        self._store.committed(self._due)
        self._due.clear()
        self._flushed = time.monotonic()
        reached(ConnectStep.OFFSETS_SENT, self._store.topic)

    def _append(self, tables: Mapping[str, pa.Table]) -> None:
        self._polls += 1
        writer = LocalWriter(
            self._client, Tickets(), identity=lambda: NO_TRANSACTION, add=lambda _: None, first=self._polls
        )
        writer.send(tables, self._outputs.topics)
