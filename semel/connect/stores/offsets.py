"""The offsets topic: one offset for each source partition, read by a claim.

Kafka Connect reads such a topic up to an end that a broker names. That end may be old, and then records come twice. So
a reader here first writes its own claim to each partition, and reads up to that. Everything that was acknowledged
before is below it, on every broker that can answer.

Later markers settle the records. Open records under other connectors' keys are skipped. Open records under this
connector's key are awaited, because the marker of a fenced predecessor comes after the answer to its successor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

from semel.connect.api import Offset, Partition
from semel.connect.stores.internal_topics import record_table
from semel.errors import DataLoss
from semel.read.claimed_log import read_settled
from semel.read.raw_log import LogRecord
from semel.records.encode import encode
from semel.records.partitioner import partition_of
from semel.serdes.connect_offsets import (
    canonical,
    claim_key,
    encode_key,
    encode_value,
    parse_key,
    parse_value,
)
from semel.steps import ConnectStep, reached
from semel.transaction.routing import by_partition
from semel.wire.api.produce import Appender
from semel.wire.client import Client
from semel.wire.deadline import Deadline

__all__ = ["OffsetStore"]


class OffsetStore:
    """The offsets of one connector."""

    def __init__(self, client: Client, topic: str, connector: str) -> None:
        self._client, self.topic, self._connector = client, topic, connector
        self._partitions = 0
        #: By the canonical text of a source partition: the bytes of its key, and its offset.
        self._found: dict[str, tuple[bytes, Offset]] = {}

    def read(self) -> None:
        """Read all offsets of the connector, up to a claim. Raises :class:`Retriable` if one stays open."""
        known = self._client.refresh({self.topic}).topics[self.topic]
        self._partitions = len(known.partitions)
        claims = self._claim(known.partitions)
        reached(ConnectStep.OFFSETS_CLAIMED, self._connector)
        deadline = self._client.deadline(self._client.config.delivery_timeout_ms)
        for index, claim in claims.items():
            for record in self._settled(index, claim, deadline):
                self._keep(record, index)
        reached(ConnectStep.OFFSETS_READ, self._connector)

    def find(self, partition: Partition) -> Offset:
        """Return the offset of a source partition, as it was read."""
        encode_key(self._connector, partition)  # report one that is not flat now
        _, offset = self._found.get(canonical(partition), (b"", None))
        return offset

    def knows(self, partition: Partition) -> bool:
        """Return whether this source partition has an offset here, or had one that was removed."""
        return canonical(partition) in self._found

    def append(self, rows: pa.Table) -> None:
        """Write records that :meth:`rows` made, in no transaction, and wait until they are acknowledged."""
        appender = Appender(self._client, {self.topic: self._client.topics({self.topic})[self.topic].id})
        for index, part in by_partition(rows, rows.column("partition").to_numpy()):
            appender.submit(((self.topic, index), batch) for batch in encode(part, where=self.topic))
        appender.flush()

    def committed(self, offsets: Mapping[str, tuple[Partition, Offset]]) -> None:
        """Do nothing: the offsets are here."""

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Offset]]:
        """Each source partition, as it was spelt, and its offset. Those that were removed are left out."""
        for key, offset in self._found.values():
            parsed = parse_key(key)
            if parsed is not None and offset is not None:
                yield parsed[1], offset

    def rows(self, offsets: Mapping[str, tuple[Partition, Offset]]) -> pa.Table:
        """Return the records of these offsets, each in its partition of the topic."""
        keys, values = [], []
        for name, (partition, offset) in offsets.items():
            key = self._key(name, partition)
            self._found[name] = key, offset
            keys.append(key)
            values.append(encode_value(self._connector, offset))
        return record_table(keys, values, [self._place(key) for key in keys])

    def places(self, offsets: Mapping[str, tuple[Partition, Offset]]) -> list[int]:
        """Return the partitions of the topic that hold these offsets."""
        return sorted({self._place(self._key(name, partition)) for name, (partition, _) in offsets.items()})

    def _key(self, name: str, partition: Partition) -> bytes:
        """Return the bytes of a key, in its first spelling."""
        found = self._found.get(name)
        return found[0] if found is not None else encode_key(self._connector, partition)

    def _claim(self, partitions: Collection[int]) -> dict[int, int]:
        """Write a claim to each of these partitions: the offset of each."""
        topic_id = self._client.topics({self.topic})[self.topic].id
        row = record_table([claim_key(self._connector)], [None], [0])
        appender = Appender(self._client, {self.topic: topic_id})
        appender.submit(((self.topic, index), batch) for index in partitions for batch in encode(row, where=self.topic))
        appender.flush()
        return {index: appender.acknowledged[self.topic, index][0].last for index in partitions}

    def _settled(self, index: int, claim: int, deadline: Deadline) -> list[LogRecord]:
        """Return the committed records of this connector below the claim, once none of them is open."""
        return read_settled(
            self._client,
            (self.topic, index),
            claim,
            deadline,
            wanted=self._is_ours,
            claim_again=lambda: self._claim([index])[index],
            subject=f"an offset of connector {self._connector!r}",
        )

    def _is_ours(self, record: LogRecord) -> bool:
        parsed = parse_key(record.key)
        return parsed is not None and parsed[0] == self._connector

    def _keep(self, record: LogRecord, index: int) -> None:
        parsed = parse_key(record.key)
        assert parsed is not None
        assert record.key is not None
        try:
            offset: dict[str, Any] | None = parse_value(record.value)
        except ValueError as error:
            raise DataLoss(
                f"the offset at {self.topic}-{index} offset {record.offset} cannot be read ({error}). Nothing was read"
                f" from the source of {self._connector!r}. Another program writes into this topic: give Connect one of"
                " its own.",
                tag="OFFSET_DAMAGED",
            ) from None
        name = canonical(parsed[1])
        # a topic that was given more partitions has an older record elsewhere
        if name not in self._found or index == self._place(record.key):
            self._found[name] = record.key, offset

    def _place(self, key: bytes) -> int:
        """Return the partition that Kafka Connect's producer chooses for a key."""
        return partition_of(key, self._partitions)
