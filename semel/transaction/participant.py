"""A participant: writes the partitions of its ticket, in whatever process it lives, and hands back a receipt (PROTOCOL
3.4).

With a plain ticket (at-least-once) it writes outside of any transaction, and attempts do not matter.

It knows the identity of the transaction but owns nothing: it cannot begin, end or fence. Rows outside its ticket are
refused before anything is sent, and a second attempt is refused at once (DESIGN rule 2): the broker answers a repeated
sequence with OK and keeps the first rows, so a second attempt with other rows would lose them silently.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.errors import AbortAndRetry, ConfigError
from semel.records.codecs import Codec
from semel.records.encode import SEQUENCES, Batch, encode
from semel.records.header import HEADER_SIZE, pack, scan
from semel.same_version import check_same_version
from semel.steps import ParticipantStep, reached
from semel.transaction.routing import by_partition, check_columns, plain_columns, targets
from semel.transaction.ticket import Receipt, Ticket, Written
from semel.wire.api.produce import Acknowledged, Appender
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["SECOND_ATTEMPT", "Participant"]

#: The tag of the refusal of a task attempt above 0.
SECOND_ATTEMPT = "SECOND_ATTEMPT"


class Participant:
    """Writes with one ticket.

    ``attempt``, ``stage`` and ``task`` are Spark's. An attempt above 0 is refused, and so is a ticket of another
    version of semel. ``sticky`` moves the partition at which rows without a key begin.
    """

    def __init__(
        self, client: Client, ticket: Ticket, *, attempt: int = 0, stage: int = -1, task: int = -1, sticky: int = 0
    ) -> None:
        check_same_version(
            ticket.version, "this ticket"
        )  # first of all: nothing else of another version's ticket was read
        self._shared = ticket.identity.producer_id >= 0
        if attempt > 0 and self._shared:
            raise AbortAndRetry(
                f"task attempt {attempt} was started for ticket {ticket.number}: a second attempt may not write into"
                " a shared transaction. Nothing of the batch is visible. Abort it and run it again as a whole, as"
                " the sink does.",
                tag=SECOND_ATTEMPT,
            )
        self._client = client
        self._attempt, self._stage, self._task = attempt, stage, task
        self._sequences: dict[TopicPartition, int] = defaultdict(int)
        self._codec = Codec.parse(client.config.compression_type)
        self._sticky = ticket.number + sticky
        self._process = os.getpid()
        self._failed = False
        self._sealed = False
        # sequences are given out and sent in one order: two threads at once would send two batches under one number
        self._lock = threading.RLock()
        self._topic_ids: dict[str, UUID] = {}
        self._appender = Appender(client, self._topic_ids, ticket.identity.transactional_id or None)
        self.widen(ticket)
        reached(ParticipantStep.STARTED, str(ticket.number))

    @property
    def ticket(self) -> Ticket:
        """The ticket that it writes with."""
        return self._ticket

    def widen(self, ticket: Ticket) -> None:
        """Continue with the same ticket, which has more partitions now."""
        self._ticket = ticket
        self._allowed = {topic: _allowed(ticket, topic) for topic in ticket.topics}
        self._topic_ids.update({name: topic.id for name, topic in ticket.topics.items()})

    def __enter__(self) -> Participant:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._failed = self._failed or kind is not None

    def send(self, topic: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Write rows and wait until they are acknowledged.

        ``rows`` has ``value`` and may have ``key`` (binary or string), ``partition``, ``timestamp`` and ``headers``.
        Raises :class:`ConfigError` for rows outside the ticket or that cannot be encoded, before anything is sent, and
        what :meth:`flush` raises.
        """
        self.write(topic, rows)
        self.flush()

    def write(self, topic: str, rows: pa.Table | pa.RecordBatch, *, keys: bool = True, more: bool = False) -> None:
        """Write rows without waiting for the last acknowledgements: :meth:`flush` or :attr:`receipt` waits.

        Without ``keys``, keys choose no partition: rows without a partition go to any of the ticket's. With ``more``,
        rows that do not fill a request wait for those of the next call: a broker asks the coordinator once for each
        request that brings a transaction to a partition.
        """
        with self._writing():
            check_columns(rows)
            if not rows.num_rows:
                return
            rows = plain_columns(rows)
            self._write_placed(topic, rows, self._targets(topic, rows, keys=keys), more=more)

    def write_placed(
        self, topic: str, rows: pa.Table | pa.RecordBatch, target: npt.NDArray[np.int64], *, more: bool = False
    ) -> None:
        """Write rows as :meth:`write` does, each to its partition in ``target``, one number a row.

        ``rows`` have passed :func:`~semel.transaction.routing.plain_columns`, and there is at least one.
        """
        with self._writing():
            self._check(topic, target)
            self._write_placed(topic, rows, target, more=more)

    def _write_placed(
        self, topic: str, rows: pa.Table | pa.RecordBatch, target: npt.NDArray[np.int64], *, more: bool
    ) -> None:
        encoded = [
            [((topic, index), batch) for batch in self._encode((topic, index), part)]
            for index, part in by_partition(rows, target)
        ]
        # in turn, a batch of each partition: so few requests carry them, and not one request each
        self._appender.submit(
            (batch for turn in zip_longest(*encoded) for batch in turn if batch is not None), more=more
        )
        if not more:
            reached(ParticipantStep.SENT, topic)

    def write_encoded(self, topic: str, partitions: npt.NDArray[np.int64], batches: Iterable[memoryview]) -> None:
        """Write whole record batches, each to its partition, in their order. They were encoded without an identity, or
        read from another log.

        They get the ticket's producer id, epoch and sequence here, and a new checksum. Values that a log has put into
        their headers are removed. The caller answers for the bytes: each batch has all of its records and is no control
        batch. The mirror has checked the old checksum of what it read from another log.

        Raises :class:`ConfigError` for a partition outside the ticket, before anything is sent.
        """
        with self._writing():
            self._check(topic, partitions)
            stamped = (
                ((topic, index), self._stamp((topic, index), batch))
                for index, batch in zip(partitions.tolist(), batches, strict=True)
            )
            self._appender.submit(stamped)
            reached(ParticipantStep.SENT, topic)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._check_not_forked()
        with self._lock:
            if self._sealed:
                raise ConfigError(
                    f"ticket {self._ticket.number} has its receipt, and more rows were to be written with it. None of"
                    " them was sent. Take the receipt when everything is written, or ask for another ticket.",
                    tag="SEALED",
                )
            failed, self._failed = (
                self._failed,
                True,
            )  # until all of it is on its way: a receipt must not be had for half of it
            yield
            self._failed = failed

    def flush(self) -> None:
        """Wait until everything written is acknowledged by all in-sync replicas.

        Raises :class:`AbortAndRetry` if a broker refused rows because of their transaction, and :class:`ConfigError`
        because of the rows or of rights. Raises :class:`~semel.errors.Retriable` if not all was acknowledged within
        ``delivery.timeout.ms``, and :class:`~semel.errors.DataLoss` for an unreadable answer. Then there is no receipt.
        """
        self._check_not_forked()
        with self._lock:
            failed, self._failed = self._failed, True
            self._appender.flush()
            self._failed = failed
        reached(ParticipantStep.ACKNOWLEDGED, str(self._ticket.number))

    @property
    def receipt(self) -> Receipt:
        """The proof that all is written; nothing more can be written then.

        Raises :class:`AbortAndRetry` after a failure: there is none to give.
        """
        self._check_not_forked()
        with self._lock:
            if self._failed:
                raise self._no_receipt("a write failed")
            self._sealed = True
            self.flush()
        wrote = {
            partition: Written(
                min(a.first for a in done),
                max(a.last for a in done),
                sum(a.records for a in done),
                sum(a.size for a in done),
            )
            for partition, done in self._appender.acknowledged.items()
        }
        for partition, count in self._sequences.items():
            if wrote[partition].records != count:
                raise self._no_receipt(
                    f"{partition[0]}-{partition[1]} acknowledged {wrote[partition].records} of {count} records"
                )
        reached(ParticipantStep.RECEIPT, str(self._ticket.number))
        return Receipt(self._ticket.number, self._ticket.identity, wrote, self._stage, self._task, self._attempt)

    @property
    def acknowledged(self) -> dict[TopicPartition, list[Acknowledged]]:
        """Each batch that is in the log, in its order there: for who must know where rows came to lie."""
        return {
            partition: sorted(done, key=lambda one: one.first)
            for partition, done in self._appender.acknowledged.items()
        }

    def _check_not_forked(self) -> None:
        if os.getpid() != self._process:
            raise ConfigError(
                f"the participant of ticket {self._ticket.number} was made in process {self._process}, and this is a"
                " fork of it. None of these rows was sent: both would use the same sequences, and rows of one would be"
                " lost. Hand the ticket to that process, and make the participant there.",
                tag="FORKED",
            )

    def _no_receipt(self, reason: str) -> AbortAndRetry:
        meaning = (
            "Nothing of the transaction is visible once it is aborted: abort it, and run"
            if self._shared
            else "Some rows may be visible: run"
        )
        return AbortAndRetry(
            f"ticket {self._ticket.number} has no receipt: {reason}. {meaning} the same work again.", tag="NO_RECEIPT"
        )

    def _encode(self, partition: TopicPartition, rows: pa.Table | pa.RecordBatch) -> list[Batch]:
        batches = encode(
            rows,
            producer_id=self._ticket.identity.producer_id,
            producer_epoch=self._ticket.identity.epoch,
            base_sequence=self._sequences[partition] % SEQUENCES if self._shared else -1,
            transactional=self._shared,
            codec=self._codec,
            max_bytes=self._ticket.topics[partition[0]].max_bytes,
            max_record=self._client.config.max_request_size,
            where=f"{partition[0]}-{partition[1]}",
        )
        self._sequences[partition] += rows.num_rows
        return batches

    def _stamp(self, partition: TopicPartition, batch: memoryview) -> Batch:
        (header,) = scan(batch, where=f"{partition[0]}-{partition[1]}")
        body = batch[HEADER_SIZE:]
        sequence = self._sequences[partition] % SEQUENCES if self._shared else -1
        # changed in place: it was made here, and dataclasses.replace takes a tenth of a whole copy's time
        header.base_offset, header.base_sequence, header.leader_epoch = 0, sequence, -1
        header.producer_id, header.producer_epoch = self._ticket.identity.producer_id, self._ticket.identity.epoch
        header.transactional, header.log_append_time, header.delete_horizon = self._shared, False, False
        self._sequences[partition] += header.count
        return Batch((pack(header, [body]), body), len(batch), header.count, sequence)

    def _targets(self, topic: str, rows: pa.Table | pa.RecordBatch, *, keys: bool) -> npt.NDArray[np.int64]:
        """Return the partition of each row. Without one or a key, it is a partition of the ticket that changes from
        call to call.
        """
        mine = np.flatnonzero(self._mask(topic))
        self._sticky += 1
        target = targets(
            topic, rows, self._ticket.topics[topic].partitions, int(mine[self._sticky % len(mine)]), keys=keys
        )
        self._check(topic, target)
        return target

    def _mask(self, topic: str) -> npt.NDArray[np.bool_]:
        if topic not in self._allowed:
            raise ConfigError(
                f"topic {topic!r} is not on ticket {self._ticket.number}. None of these rows was sent. Write them"
                " with a ticket of that topic.",
                tag="OUTSIDE_TICKET",
            )
        return self._allowed[topic]

    def _check(self, topic: str, target: npt.NDArray[np.int64]) -> None:
        outside = target[~self._mask(topic)[target]]
        if len(outside):
            raise ConfigError(
                f"a row belongs to {topic}-{outside[0]}, which is not on ticket {self._ticket.number}. None of these"
                " rows was sent. Write it with a ticket of that partition.",
                tag="OUTSIDE_TICKET",
            )


def _allowed(ticket: Ticket, topic: str) -> npt.NDArray[np.bool_]:
    mask = np.zeros(ticket.topics[topic].partitions, np.bool_)
    mask[[index for name, index in ticket.partitions if name == topic]] = True
    return mask
