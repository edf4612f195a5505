"""Produce: encoded record batches to the leaders of their partitions, pipelined, each acknowledged by all in-sync
replicas.

Up to :data:`IN_FLIGHT` requests are under way on a connection: a broker recognises repetitions of that many batches of
one producer id and partition. A batch with a temporary failure is repeated in the order of its sequences, one request
at a time, after all others under way have been answered. A partition that moves meanwhile keeps its former broker until
then. So no batch of a transaction can overtake another. Without a transaction, a broker that refuses a batch for a
moment may take the next ones before its repetition. The broker answers a repetition that it already has with the offset
of the first.

The body is encoded here, not by kafka-python: its encoder would copy every batch twice.
"""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any
from uuid import UUID

from kafka.protocol.producer import ProduceRequest

from semel.errors import AbortAndRetry, Retriable, SemelError
from semel.records.encode import Batch
from semel.wire import error_codes
from semel.wire.client import Client
from semel.wire.connection import Buffer, Connection
from semel.wire.deadline import Deadline
from semel.wire.error_codes import Action
from semel.wire.flexible import text, varint
from semel.wire.metadata import TopicPartition, named

__all__ = ["IN_FLIGHT", "Acknowledged", "Appender"]

IN_FLIGHT = 5
#: One request carries one batch for each of many partitions; this bounds it far below the broker's
#: ``socket.request.max.bytes``.
_REQUEST_BYTES = 16 << 20
#: A broker asks the coordinator about a transaction once for each partition. It drops a question of a producer id if a
#: second one comes meanwhile, and answers NOT_ENOUGH_REPLICAS. The next try usually succeeds at once.
_FIRST_PAUSE_MS = 2
_OUT_OF_ORDER = 45
#: The answers of a leader that has another topic of that name.
_OTHER_TOPIC = ("UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID")

_Wave = dict[TopicPartition, Batch]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A batch that is in the log of its partition: first and last offset, records and bytes."""

    first: int
    last: int
    records: int
    size: int


class Appender:
    """Appends batches to partitions, for one transaction or (without ``transactional_id``) for none.

    ``topic_ids`` pins each topic: a broker that has a re-created topic of that name refuses. Sequences are the
    caller's; they must rise without gaps.
    """

    def __init__(self, client: Client, topic_ids: Mapping[str, UUID], transactional_id: str | None = None) -> None:
        self._client = client
        self._ids = topic_ids
        self._transactional_id = transactional_id
        self._under_way: dict[int, tuple[Connection, deque[_Wave]]] = {}
        self._nodes: dict[TopicPartition, int] = {}  # where the unanswered batches of a partition were sent
        self._held: list[tuple[TopicPartition, Batch]] = []  # for the next request
        self._failed: dict[TopicPartition, list[Batch]] = defaultdict(list)
        self._problem = ""
        self.acknowledged: dict[TopicPartition, list[Acknowledged]] = defaultdict(list)

    def __del__(self) -> None:
        self._abandon()  # answers may be on their way if it is dropped early

    def submit(self, batches: Iterable[tuple[TopicPartition, Batch]], *, more: bool = False) -> None:
        """Send batches in order. Return when they are sent; :meth:`flush` waits for the acknowledgements.

        With ``more``, what does not fill a request waits for the batches of the next call, or for :meth:`flush`.
        """
        deadline = self._deadline()
        held, self._held = self._held, []
        with self._abandoned_on_error():
            for node, wave in self._waves(chain(held, batches), deadline, more=more):
                self._send(node, wave, deadline)
                if self._failed:
                    self._recover()

    def flush(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait until all submitted batches are acknowledged. If this raises, it is not known which of the missing
        batches were written.

        ``meanwhile`` is called first, while answers are under way. Its exceptions are raised.
        """
        if self._held:
            self.submit(())
        with self._abandoned_on_error():
            meanwhile()
            self._receive_all()
            if self._failed:
                self._recover()

    @contextmanager
    def _abandoned_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Close the connections on which answers are on their way: no other caller may read them."""
        for connection, _ in self._under_way.values():
            connection.close()
        self._under_way.clear()
        self._held.clear()

    # ---- pipelined

    def _waves(
        self, batches: Iterable[tuple[TopicPartition, Batch]], deadline: Deadline, *, more: bool
    ) -> Iterable[tuple[int, _Wave]]:
        """Yield the requests to send: one batch of a partition in each, in order."""
        waves: dict[int, _Wave] = {}
        sizes: dict[int, int] = defaultdict(int)
        for partition, batch in batches:
            node = self._node(partition, waves, deadline)
            while wave := waves.get(node):
                if partition not in wave and sizes[node] + batch.size <= _REQUEST_BYTES:
                    break
                yield node, waves.pop(node)
                sizes[node] = 0
                node = self._node(partition, waves, deadline)  # it may have moved while that was sent
            waves.setdefault(node, {})[partition] = batch
            sizes[node] += batch.size
        if more:
            self._held.extend(chain.from_iterable(wave.items() for wave in waves.values()))
        else:
            yield from waves.items()

    def _node(self, partition: TopicPartition, waves: Mapping[int, _Wave], deadline: Deadline) -> int:
        """Return the broker for its next batch: that of the batches before it until they are answered, then its
        leader. On another connection it could overtake them.
        """
        for node, wave in waves.items():
            if partition in wave:
                return node
        node = self._nodes.get(partition, -1)
        return node if node >= 0 else self._leader(partition, deadline)

    def _leader(self, partition: TopicPartition, deadline: Deadline) -> int:
        topic, index = partition
        # a topic that was created again may have fewer partitions: then this one has no leader either
        while True:
            metadata = self._client.topics({topic}, deadline)[topic].partitions.get(index)
            if metadata is not None and metadata.leader >= 0:
                return metadata.leader
            if deadline.passed:
                raise error_codes.given_up(
                    f"{topic}-{index} did not take the records",
                    f"no leader for {deadline.timeout_ms:.0f} ms",
                    self._meaning,
                )
            deadline.pause()
            self._client.refresh({topic}, deadline)

    def _send(self, node: int, wave: _Wave, deadline: Deadline) -> None:
        self._nodes |= dict.fromkeys(wave, node)
        if node in self._under_way and self._under_way[node][0].renewal_due:
            self._receive_until(node, 0)  # a login is renewed while no answer is on its way
        if node not in self._under_way:
            try:
                self._under_way[node] = (self._client.lease(node, deadline), deque())
            except Retriable as error:
                self._problem = error.message
                self._fail(wave)
                return
        connection, waves = self._under_way[node]
        waves.append(wave)
        try:
            connection.send_raw(self._body(wave, connection), ProduceRequest, self._version(connection))
        except Retriable as error:
            self._problem = error.message
            self._lost(node)
            return
        self._receive_until(node, IN_FLIGHT - 1)

    def _receive_all(self) -> None:
        """Wait for every answer, and give the connections back."""
        for node in list(self._under_way):
            self._receive_until(node, 0)
        for node, (connection, _) in self._under_way.items():
            self._client.give_back(node, connection)
        self._under_way.clear()
        self._nodes.clear()

    def _receive_until(self, node: int, left: int) -> None:
        connection, waves = self._under_way[node]
        while len(waves) > left:
            try:
                answer = connection.receive()
            except Retriable as error:
                self._problem = error.message
                self._lost(node)
                return
            self._sort(waves.popleft(), answer)

    def _lost(self, node: int) -> None:
        """Send all batches of a broken connection again: it is not known whether the broker took them."""
        connection, waves = self._under_way.pop(node)
        connection.close()
        for wave in waves:
            self._fail(wave)

    def _fail(self, wave: _Wave) -> None:
        for partition, batch in wave.items():
            self._failed[partition].append(batch)

    # ---- answers

    def _sort(self, wave: _Wave, answer: Any) -> None:
        for partition, row in self._rows(answer).items():
            batch = wave[partition]
            verdict = error_codes.of("Produce", row.error_code)
            if verdict is Action.OK:
                done = Acknowledged(row.base_offset, row.base_offset + batch.count - 1, batch.count, batch.size)
                self.acknowledged[partition].append(done)
            elif verdict.temporary or (row.error_code == _OUT_OF_ORDER and self._failed.get(partition)):
                # 45 after a failed batch only says that the failed one is missing
                self._problem = error_codes.name(row.error_code)
                self._failed[partition].append(batch)
            else:
                raise self._refused(partition, row)

    def _rows(self, answer: Any) -> dict[TopicPartition, Any]:
        names = {str(topic_id): name for name, topic_id in self._ids.items()}
        return {
            (topic.name or names[str(topic.topic_id)], row.index): row
            for topic in answer.responses
            for row in topic.partition_responses
        }

    def _refused(self, partition: TopicPartition, row: Any) -> SemelError:
        details = "; ".join(str(entry.batch_index_error_message) for entry in (row.record_errors or ())[:3])
        why = row.error_message or details
        subject = f"writing to {partition[0]}-{partition[1]}{f' ({why})' if why else ''}"
        return error_codes.error("Produce", row.error_code, subject, self._meaning).at(partition)

    def _created_again(self, topic: str) -> SemelError:
        """Return the error for a topic that was created again: no broker will take rows by the former id."""
        kind = Retriable if self._transactional_id is None else AbortAndRetry
        return kind(
            f"topic {topic} was deleted and created again, and these records were for the former one. {self._meaning}"
            " Run the same work again to write to the new one.",
            tag="TOPIC_CREATED_AGAIN",
        )

    @property
    def _meaning(self) -> str:
        """The consequence of a failure for the records that were sent before it, or with it."""
        if self._transactional_id is None:
            return "Some of these records may be in it, and visible."
        return "Nothing of this transaction is visible, and without these records it is not committed."

    # ---- one at a time, after something failed

    def _recover(self) -> None:
        self._receive_all()
        deadline = self._deadline(first_pause_ms=_FIRST_PAUSE_MS)
        pending = {partition: deque(_in_order(batches)) for partition, batches in self._failed.items()}
        self._failed.clear()
        while pending:
            if deadline.passed:
                subject = (
                    f"{named(pending)} did not take the records within delivery.timeout.ms={deadline.timeout_ms:.0f}"
                )
                raise error_codes.given_up(subject, self._problem, self._meaning)
            deadline.warn(f"{named(pending)} to take records: {self._problem}")
            deadline.pause()
            topics = self._client.refresh({topic for topic, _ in pending}, deadline).topics
            for topic in {topic for topic, _ in pending}:
                # only if its leader says so: another broker may lag and name the former topic
                if topics[topic].id != self._ids[topic] and self._problem in _OTHER_TOPIC:
                    raise self._created_again(topic)
            for partition in list(pending):
                self._repeat(partition, pending, deadline)

    def _repeat(
        self, partition: TopicPartition, pending: dict[TopicPartition, deque[Batch]], deadline: Deadline
    ) -> None:
        batches = pending[partition]
        while batches:
            wave = {partition: batches[0]}
            try:
                self._call(self._leader(partition, deadline), wave, deadline)
            except Retriable as error:
                self._problem = error.message
                return
            if self._failed.pop(partition, None):
                return
            batches.popleft()
        del pending[partition]

    def _call(self, node: int, wave: _Wave, deadline: Deadline) -> None:
        connection = self._client.lease(node, deadline)
        try:
            connection.send_raw(self._body(wave, connection), ProduceRequest, self._version(connection))
            answer = connection.receive()
        except BaseException:
            connection.close()
            raise
        finally:
            self._client.give_back(node, connection)
        self._sort(wave, answer)

    # ---- bytes

    def _deadline(self, first_pause_ms: float = float("inf")) -> Deadline:
        config = self._client.config
        pause_ms = min(first_pause_ms, config.retry_backoff_ms)
        return Deadline(config.delivery_timeout_ms, backoff_ms=pause_ms, backoff_max_ms=config.retry_backoff_max_ms)

    def _version(self, connection: Connection) -> int:
        return connection.versions.pick(ProduceRequest, 12, 13)

    def _body(self, wave: _Wave, connection: Connection) -> list[Buffer]:
        version = self._version(connection)
        grouped: dict[str, list[tuple[int, Batch]]] = defaultdict(list)
        for (topic, index), batch in wave.items():
            grouped[topic].append((index, batch))
        head = (
            text(self._transactional_id)
            + struct.pack(">hi", -1, self._client.config.request_timeout_ms)
            + varint(len(grouped) + 1)
        )
        pieces: list[Buffer] = [head]
        for topic, rows in grouped.items():
            pieces.append((self._ids[topic].bytes if version >= 13 else text(topic)) + varint(len(rows) + 1))
            for index, batch in rows:
                pieces.append(struct.pack(">i", index) + varint(batch.size + 1))
                pieces.extend(batch.chunks)
                pieces.append(b"\0")
            pieces.append(b"\0")
        pieces.append(b"\0")
        return pieces


def _in_order(batches: Sequence[Batch]) -> list[Batch]:
    """Return the batches by their sequences, which wrap at 2**31: a large distance means that they have wrapped."""
    sequences = [batch.base_sequence for batch in batches]
    shift = 1 << 30 if max(sequences) - min(sequences) > 1 << 30 else 0
    return sorted(batches, key=lambda batch: (batch.base_sequence + shift) % (1 << 31))
