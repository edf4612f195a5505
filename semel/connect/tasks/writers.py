"""How a task writes: records and offsets in one transaction, or at least once with offsets now and then."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from semel.connect.api import Offset, Partition
from semel.connect.stores.offsets import OffsetStore
from semel.connect.tasks.rows import Rows
from semel.errors import ConfigError
from semel.steps import ConnectStep, reached
from semel.transaction.output_topics import describe_output_topics, non_transactional_tickets
from semel.transaction.participant import Participant
from semel.transaction.producer import Producer
from semel.transaction.routing import targets, with_partitions
from semel.transaction.ticket import TicketTopic
from semel.wire.client import Client

__all__ = ["AtLeastOnce", "ExactlyOnce", "Writer"]


class Writer(Protocol):
    """Writes what a task polled."""

    def start(self) -> None:
        """Stop every predecessor from writing, where that can be done."""

    def write(self, rows: Rows) -> None:
        """Write the records of one poll, and keep their offsets."""

    def idle(self) -> None:
        """Do what is due when there is nothing to write."""

    def close(self) -> None:
        """Write what is still due, and let go."""


class ExactlyOnce:
    """One transaction for each poll, on an id of the task: its records, its offsets, and one commit."""

    def __init__(self, client: Client, transactional_id: str, store: OffsetStore) -> None:
        self._outputs, self._store = _Outputs(client, store), store
        # the offsets topic is the truth: an id that Kafka Connect has used before has no progress of ours
        self._producer = Producer(client, transactional_id, scope="connect", may_have_lost_progress=True)
        self._client = client

    def start(self) -> None:
        """Take the id over: who had it is fenced, and what it left open is aborted."""
        self._producer.take_over({self._store.topic})

    def write(self, rows: Rows) -> None:
        """Write and commit. Raises what a transaction raises; the task starts anew after that."""
        parts = [*self._outputs.place(rows), _offsets(self._store, rows.offsets)]
        with self._producer.transaction() as txn:
            shares = [[(part.topic, index) for index in part.indexes] for part in parts]
            tickets = txn.tickets(shares, topics=self._outputs.topics)
            writers = [Participant(self._client, ticket) for ticket in tickets]
            *for_records, for_offsets = zip(writers, parts, strict=True)
            for writer, part in for_records:
                writer.write(part.topic, part.table)
            reached(ConnectStep.RECORDS_SENT, self._producer.transactional_id)
            writer, part = for_offsets
            writer.write(part.topic, part.table)
            reached(ConnectStep.OFFSETS_SENT, self._producer.transactional_id)
            txn.accept([writer.receipt for writer in writers])
        reached(ConnectStep.COMMITTED, self._producer.transactional_id)

    def idle(self) -> None:
        """Nothing is due."""

    def close(self) -> None:
        """Abort what is open, and let go of the id."""
        self._producer.close()


class AtLeastOnce:
    """Records as they come, and their offsets every ``interval_ms``. After a crash, records come again."""

    def __init__(self, client: Client, store: OffsetStore, interval_ms: int) -> None:
        self._client, self._store = client, store
        self._outputs = _Outputs(client, store)
        self._interval_s = interval_ms / 1000
        self._due: dict[str, tuple[Partition, Offset]] = {}
        self._flushed = time.monotonic()

    def start(self) -> None:
        """Nobody can be stopped without a transactional id."""

    def write(self, rows: Rows) -> None:
        """Write the records; they are acknowledged, and visible, when it returns."""
        for part in self._outputs.place(rows):
            self._append(part)
        reached(ConnectStep.RECORDS_SENT, self._store.topic)
        self._due.update(rows.offsets)
        self.idle()

    def idle(self) -> None:
        """Write the offsets, if their time has come."""
        if self._due and time.monotonic() - self._flushed >= self._interval_s:
            self._flush()

    def close(self) -> None:
        """Write the offsets that are due."""
        if self._due:
            self._flush()

    def _flush(self) -> None:
        self._append(_offsets(self._store, self._due))
        self._due.clear()
        self._flushed = time.monotonic()
        reached(ConnectStep.OFFSETS_SENT, self._store.topic)

    def _append(self, part: _Part) -> None:
        shares = [[(part.topic, index) for index in part.indexes]]
        (ticket,) = non_transactional_tickets(shares, self._outputs.topics)
        with Participant(self._client, ticket) as writer:
            writer.send(part.topic, part.table)


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one topic, each with its partition; ``indexes`` are all of these."""

    topic: str
    table: pa.Table
    indexes: list[int]


def _offsets(store: OffsetStore, offsets: Mapping[str, tuple[Partition, Offset]]) -> _Part:
    table = store.rows(offsets)
    return _Part(store.topic, table, sorted(set(table.column("partition").to_pylist())))


class _Outputs:
    """The topics that a task writes to, and which partition each of its records goes to."""

    def __init__(self, client: Client, store: OffsetStore) -> None:
        self._client, self._store = client, store
        self.topics: dict[str, TicketTopic] = {}
        self._described = 0.0
        # records without a key go to one partition for each poll, and to the next one with the next poll
        self._sticky = random.randrange(1 << 16)

    def place(self, rows: Rows) -> list[_Part]:
        """One part for each topic."""
        self._describe({topic for topic, _ in rows.tables})
        self._sticky += 1
        tables: dict[str, list[pa.Table]] = {}
        indexes: dict[str, set[int]] = {}
        for topic, table in rows.tables:
            count = self.topics[topic].partitions
            placed = targets(topic, table, count, self._sticky % count)
            indexes.setdefault(topic, set()).update(np.unique(placed).tolist())
            tables.setdefault(topic, []).append(with_partitions(table, placed))
        return [
            _Part(topic, pa.concat_tables(some, promote_options="default"), sorted(indexes[topic]))
            for topic, some in tables.items()
        ]

    def _describe(self, names: set[str]) -> None:
        if self._store.topic in names:
            raise ConfigError(
                f"records were to be written to {self._store.topic}, which holds the offsets of this connector: source"
                " tasks may not produce to their own offsets topics. Nothing of this poll is visible. Write them to"
                " another topic.",
                tag="OFFSETS_TOPIC",
            )
        now = time.monotonic()
        if now - self._described > self._client.config.metadata_max_age_ms / 1000:  # topics may have grown
            self.topics, self._described = {}, now
        wanted = {*names, self._store.topic} - self.topics.keys()
        self.topics.update(describe_output_topics(self._client, wanted, self._client.deadline()))
