"""The producer of a session: transactions whose positions are a group's offsets, and nothing else (KIP-447)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

from semel.errors import Fenced, Retriable
from semel.transaction.ownership import SESSION
from semel.transaction.positions import GroupOffsets
from semel.transaction.producer import Producer
from semel.transaction.ticket import GroupMetadata
from semel.transaction.transaction import Transaction
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["SessionProducer"]

#: As in Kafka Streams: the next owner of a dead worker's partitions waits this long for its transaction.
_TIMEOUT_MS = 10_000


class SessionProducer:
    """One transactional id, owned by one worker. One thread uses it.

    A transaction begins with the first rows, or with the commit of offsets alone.
    """

    def __init__(self, client: Client, transactional_id: str) -> None:
        self._producer = Producer(
            client, transactional_id, scope=SESSION, positions=GroupOffsets, timeout_ms=_TIMEOUT_MS
        )
        self._transaction: Transaction | None = None
        #: The last offset that the last commit has written to each partition.
        self.written: Mapping[TopicPartition, int] = {}

    @property
    def open(self) -> bool:
        """True if a transaction has begun and not ended."""
        return self._transaction is not None and self._transaction.open

    def check_outcome(self) -> None:
        """Raise :class:`~semel.errors.Retriable` tagged OUTCOME_UNKNOWN if it is not known how the last transaction
        ended.
        """
        if self._producer.outcome_unknown:
            raise Retriable(
                f"it is not known whether the last transaction of {self._producer.transactional_id!r} was committed."
                " It is committed with its positions, or not at all. Open the session again: it reads on where the"
                " group stands.",
                tag="OUTCOME_UNKNOWN",
            )

    def take_over(self) -> None:
        """Take the id. Raises what :meth:`GroupOffsets.take_over` raises."""
        self._producer.take_over()

    def send(self, topic: str, rows: pa.Table | pa.RecordBatch, *, wait: bool = True) -> None:
        """Write rows; acknowledged when it returns, unless it does not ``wait``. Raises what :meth:`Transaction.write`
        raises.

        After an :class:`~semel.errors.AbortAndRetry` the transaction is aborted; after anything else :meth:`abort` is
        due.
        """
        self._begun().write({topic: rows}, wait=wait)

    def commit(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        """Commit what was sent, and the next offsets to read, fenced by the generation and the member of ``group``.

        Raises :class:`~semel.errors.AbortAndRetry` where it was aborted instead, tagged with the broker's word for why:
        ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID where the group has gone on without this member.
        :class:`Fenced` if another owner has the id, :class:`~semel.errors.Retriable` tagged OUTCOME_UNKNOWN if no
        answer said how it ended.
        """
        transaction = self._begun()
        if offsets:
            transaction.send_offsets(offsets, group)
        transaction.commit()
        self.written = {partition: wrote.last for partition, wrote in transaction.wrote.items()}

    def abort(self) -> None:
        """Abort what is open. Nothing of it becomes visible."""
        if self._transaction is not None and self._transaction.open:
            self._transaction.abort()

    def close(self) -> None:
        """Abort the open transaction, wait for its markers, and close. An owner that was fenced just closes."""
        with suppress(Fenced):
            self._producer.close()

    def _begun(self) -> Transaction:
        if self._transaction is None or not self._transaction.open:
            self._transaction = self._producer.transaction()
        return self._transaction
