"""The writers of a task: records and offsets in one transaction, or at least once with offsets now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.connect.api import Offset, Partition
from semel.connect.stores.own_offsets import Offsets
from semel.connect.tasks.outputs import Outputs, Part, offset_part
from semel.connect.tasks.rows import Rows
from semel.connect.topic_creation import TopicCreation
from semel.errors import ConfigError
from semel.records.arrays import array, numbers
from semel.steps import ConnectStep, reached
from semel.transaction.output_topics import non_transactional_tickets
from semel.transaction.participant import Participant
from semel.transaction.producer import Producer
from semel.transaction.ticket import TicketTopic
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

    One begins with the first records behind the last commit.
    """

    def __init__(
        self, client: Client, transactional_id: str, store: Offsets, creation: TopicCreation | None = None
    ) -> None:
        self._outputs, self._store = Outputs(client, store, creation), store
        # the offsets topic is the truth: an id that Kafka Connect has used before has no progress of ours
        self._producer = Producer(client, transactional_id, scope="connect", may_have_lost_progress=True)
        self._client = client
        self._due: dict[str, tuple[Partition, Offset]] = {}
        self._open: _Open | None = None

    def start(self) -> None:
        """Take the id over: who had it is fenced, and what it left open is aborted."""
        self._producer.take_over({self._store.topic})

    @property
    def open_ms(self) -> float | None:
        """The age of its open transaction in milliseconds, or None."""
        return self._producer.age_ms

    def refusal(self, topic: str, table: pa.Table) -> ConfigError | None:
        """Why the topic would not take one of these rows."""
        self._outputs.fixed = self._open is not None
        return self._outputs.refusal(topic, table)

    def write(self, rows: Rows) -> None:
        """Write, and do not wait: the last records go out with the next ones, or with the offsets. Raises what a
        transaction raises; the task starts again after that.
        """
        self._outputs.fixed = self._open is not None
        parts, places = self._outputs.place(rows), self._store.places(rows.offsets)
        if parts:
            if self._open is None:
                self._open = _Open(self._client, self._producer.transaction())
            with self._aborting():
                self._open.write(parts, self._outputs.topics, soon=[(self._store.topic, places)], more=True)
        self._due.update(rows.offsets)

    def commit(self) -> None:
        """Write the offsets that are due, and commit. With nothing due, nothing is sent."""
        if not self._due:
            return
        if self._open is None:  # offsets alone: their records were left out, or aborted
            self._open = _Open(self._client, self._producer.transaction())
        reached(ConnectStep.RECORDS_WRITTEN, self._producer.transactional_id)
        with self._aborting():
            self._open.write([offset_part(self._store, self._due)], self._outputs.topics)
            reached(ConnectStep.OFFSETS_SENT, self._producer.transactional_id)
            self._open.commit()
        self._open = None
        self._store.committed(self._due)
        self._due.clear()
        reached(ConnectStep.COMMITTED, self._producer.transactional_id)

    def abort(self) -> None:
        """Abort what is open, and commit its offsets."""
        if self._open is not None:
            self._open.transaction.abort()
            self._open = None
        self.commit()

    def idle(self) -> None:
        """Do nothing: nothing is due."""

    def close(self) -> None:
        """Abort the open transaction, and release the id."""
        self._producer.close()

    @contextmanager
    def _aborting(self) -> Iterator[None]:
        """Abort where anything is raised: what the transaction says of that is what its user must know."""
        assert self._open is not None
        transaction = self._open.transaction
        try:
            yield
        except BaseException as error:
            self._open = None
            transaction.__exit__(type(error), error, None)
            raise


class _Open:
    """A transaction that is open, and who writes which of its partitions."""

    def __init__(self, client: Client, transaction: Transaction) -> None:
        self._client, self.transaction = client, transaction
        self._participants: list[Participant] = []
        #: By topic, the partitions that each of them has a ticket for.
        self._writers: dict[str, list[tuple[NDArray[np.int64], Participant]]] = {}

    def write(
        self,
        parts: Sequence[Part],
        topics: Mapping[str, TicketTopic],
        *,
        soon: Sequence[tuple[str, Sequence[int]]] = (),
        more: bool = False,
    ) -> None:
        """Write rows. Partitions that it has not seen yet are added, in one request for all, and those that will be
        written ``soon``: a small transaction is then a request shorter. With ``more``, the last rows wait for others.
        """
        wanted = [*((part.topic, part.indexes) for part in parts), *soon]
        self._add({topic: set(indexes) - self._seen(topic) for topic, indexes in wanted}, topics)
        for part in parts:
            writers = self._writers[part.topic]
            for indexes, writer in writers:
                if len(writers) == 1:
                    writer.write(part.topic, part.table, more=more)
                    continue
                targets = numbers(part.table.column("partition").combine_chunks().cast(pa.int64()))
                mine = np.flatnonzero(np.isin(targets, indexes))
                if len(mine):
                    writer.write(part.topic, part.table.take(array(mine, pa.int64())), more=more)

    def commit(self) -> None:
        """Wait until all is acknowledged, and commit."""
        self.transaction.accept([participant.receipt for participant in self._participants])
        self.transaction.commit()

    def _add(self, new: Mapping[str, set[int]], topics: Mapping[str, TicketTopic]) -> None:
        """Add partitions, with one ticket for all of them. Two writers at once would be in each other's way: a broker
        asks the coordinator about one request of a transaction at a time, and has the other one repeated.
        """
        share = [(topic, index) for topic, indexes in new.items() for index in indexes]
        if not share:
            return
        (ticket,) = self.transaction.tickets([share], topics=topics)
        participant = Participant(self._client, ticket)
        self._participants.append(participant)
        for topic, indexes in new.items():
            if indexes:
                self._writers.setdefault(topic, []).append((np.array(sorted(indexes), np.int64), participant))

    def _seen(self, topic: str) -> set[int]:
        return {int(index) for indexes, _ in self._writers.get(topic, ()) for index in indexes}


class AtLeastOnce:
    """Records as they come, and their offsets every ``interval_ms``. After a crash, records come again."""

    def __init__(self, client: Client, store: Offsets, interval_ms: int, creation: TopicCreation | None = None) -> None:
        self._client, self._store = client, store
        self._outputs = Outputs(client, store, creation)
        self._interval_s = interval_ms / 1000
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
        for part in self._outputs.place(rows):
            self._append(part)
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
        self._append(offset_part(self._store, self._due))
        self._store.committed(self._due)
        self._due.clear()
        self._flushed = time.monotonic()
        reached(ConnectStep.OFFSETS_SENT, self._store.topic)

    def _append(self, part: Part) -> None:
        shares = [[(part.topic, index) for index in part.indexes]]
        (ticket,) = non_transactional_tickets(shares, self._outputs.topics)
        with Participant(self._client, ticket) as writer:
            writer.send(part.topic, part.table)
