"""The topic ``semel-mirror-segments`` on the target: each round's runs, in the transaction of its records.

Rows are kept for 7 days, and up to a day longer, since brokers delete whole log segments. How far each partition has
come on both sides stays in the progress record for ever.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from semel.errors import Retriable
from semel.mirror.offsets.segments import Form, Runs, Segments, read_form, write_forms
from semel.mirror.positions import Positions
from semel.read.internal_topic import InternalTopic
from semel.read.ranges import Range, id_text
from semel.read.reader import Reader
from semel.records.partitioner import partition_of
from semel.transaction.participant import Participant
from semel.transaction.ticket import Receipt, Ticket, TicketTopic
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["SEGMENTS", "SegmentTopic"]

SEGMENTS: Final = "semel-mirror-segments"
#: As the progress topic has; a flow lies on murmur2(its id) mod this.
_PARTITIONS = 16
_TOPIC = InternalTopic(
    SEGMENTS,
    f"topic {SEGMENTS}",
    "Nothing was copied. Delete it, and it is made as it should be; older offsets can then not be translated.",
    {
        "cleanup.policy": "delete",
        "retention.ms": "604800000",
        "segment.ms": "86400000",
        "compression.type": "producer",
    },
    tag="SEGMENTS_TOPIC",
)
#: So often the topic is read from its beginning: what retention has deleted meanwhile leaves the memory too.
_AGAIN_S = 86_400
_MAX_BYTES = 1_048_588


class SegmentTopic:
    """The segments of one flow, by its id."""

    def __init__(self, client: Client, flow: str) -> None:
        self._client, self._flow = client, flow
        self.partition: TopicPartition = (SEGMENTS, partition_of(flow.encode(), _PARTITIONS))
        self._read_to = 0
        self._began = time.monotonic()
        self._segments = Segments()

    def ensure(self, replication: int) -> TicketTopic:
        """Find or create the topic."""
        found = _TOPIC.find_or_make(self._client, _PARTITIONS, replication)
        _TOPIC.check_partitions(found, least=_PARTITIONS)
        return TicketTopic(found.id, len(found.partitions), _MAX_BYTES)

    def write(
        self, ticket: Ticket, positions: Positions, found: Mapping[TopicPartition, Runs], *, adopted: bool = False
    ) -> Receipt:
        """Write the runs of a round whose ``positions`` these are, by the round's ticket for :attr:`partition`.

        With ``adopted`` it is the adoption of all these partitions.
        """
        with Participant(self._client, ticket) as participant:
            texts = write_forms(positions, found, adopted=adopted)
            if texts:
                rows = pa.table(
                    {
                        "key": pa.array([self._flow.encode()] * len(texts), pa.binary()),
                        "value": pa.array(texts, pa.binary()),
                        "partition": pa.array(np.full(len(texts), self.partition[1]), pa.int32()),
                    }
                )
                participant.send(SEGMENTS, rows)
            return participant.receipt

    def read(self, positions: Positions, least: int) -> Segments:
        """All runs up to the newest committed round; each call reads on where the one before has ended, and once a day
        from the beginning.

        ``least`` is the offset after the last row that a committed round has in the topic, so that no round is missing
        whose marker is on its way. Raises :class:`Retriable` where that does not come.
        """
        known = self._client.existing({SEGMENTS}).get(SEGMENTS)
        if known is None:
            return self._segments
        deadline = self._client.deadline()
        while True:
            end = self._listed(LATEST)
            if end >= least:
                break
            if deadline.passed:
                raise Retriable(
                    f"a transaction that is open holds {SEGMENTS}-{self.partition[1]} at offset {end}. No offset was"
                    " translated. Try again when the mirror has ended its round.",
                    tag="OPEN_TRANSACTION",
                )
            deadline.pause()
        again = time.monotonic() - self._began > _AGAIN_S
        start = max(0 if again else self._read_to, self._listed(EARLIEST))
        wanted = [Range(SEGMENTS, id_text(known.id), self.partition[1], start, end)] if end > start else []
        # what retention takes away meanwhile was about to go
        found: list[Form] = []
        with Reader(self._client, wanted, fail_on_data_loss=False) as reader:
            for rows in reader:
                found += self._forms(rows.column("key").to_pylist(), rows.column("value").to_pylist(), positions)
        if again:
            self._segments, self._began = Segments(), time.monotonic()
        for one in found:  # only now: a read that fails is repeated, and a run that is there twice makes offsets wrong
            self._segments.add(one.runs, one.adopted)
        self._read_to = max(end, self._read_to)
        return self._segments

    def _forms(self, keys: Sequence[bytes | None], values: Sequence[bytes], positions: Positions) -> Iterator[Form]:
        mine = self._flow.encode()
        for key, value in zip(keys, values, strict=True):
            if key == mine:
                yield read_form(value, positions, f"{self._flow} in {SEGMENTS}")

    def _listed(self, at: int) -> int:
        return list_offsets(self._client, {self.partition: at}, read_committed=True)[self.partition].offset
