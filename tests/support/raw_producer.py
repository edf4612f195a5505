"""Single requests, sent once and answered once, whatever the answer: what a broker does, with nothing of ours repeated
or decided in between.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest

from semel.config import ClientConfig
from semel.records.codecs import Codec
from semel.records.encode import encode
from semel.testing.records import read
from semel.transaction.ticket import GroupMetadata
from semel.wire.api import topics, transactions
from semel.wire.api.describe_transactions import open_transactions
from semel.wire.api.offsets import LATEST, committed, list_offsets
from semel.wire.api.transactions import Identity
from semel.wire.api_versions import Versions
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition, by_topic
from semel.wire.target import GroupCoordinator, Target, TransactionCoordinator
from tests.support.waiting import TRANSACTION_MS, wait_for

_numbers = itertools.count(1)

OUT_OF_ORDER, INVALID_EPOCH, INVALID_STATE, UNKNOWN_ID, CONCURRENT, UNSTABLE, FENCED = 45, 47, 48, 49, 51, 88, 90


class Raw:
    """One transactional id and one topic of its own on a cluster."""

    def __init__(self, servers: str, *, partitions: int = 1, **config: str) -> None:
        number = next(_numbers)
        self.servers = servers
        self.client = Client(ClientConfig.parse({"bootstrap.servers": servers}))
        self.id, self.topic, self.group = f"raw-{number}", f"raw-{number}", f"raw-{number}"
        created = {key.replace("_", "."): value for key, value in config.items()}
        topics.create(self.client, self.topic, partitions=partitions, config=created)
        everywhere = dict.fromkeys(self.at(*range(partitions)), LATEST)
        list_offsets(self.client, everywhere, read_committed=False)  # repeated until every leader knows that it leads

    def close(self) -> None:
        self.client.close()

    def at(self, *indexes: int) -> list[TopicPartition]:
        return [(self.topic, index) for index in indexes]

    # ---- as our code sends them, repeated until they are settled

    def init(self, timeout_ms: int = TRANSACTION_MS) -> Identity:
        return transactions.init_producer_id(self.client, self.id, timeout_ms, self.client.deadline())

    def add(self, identity: Identity, *indexes: int) -> int:
        return transactions.add_partitions(self.client, identity, self.at(*indexes), self.client.deadline())

    def end(self, identity: Identity, *, commit: bool) -> tuple[int, Identity]:
        answer = transactions.end(self.client, identity, commit=commit, deadline=self.client.deadline())
        return answer.code, answer.identity

    def commit_offset(self, identity: Identity, offset: int, *, topic: str = "", index: int = 0) -> int:
        where = (topic or self.topic, index)
        return transactions.commit_offsets(
            self.client, identity, GroupMetadata(self.group), {where: offset}, self.client.deadline()
        )

    def settled(self, *indexes: int) -> None:
        """Wait until nothing is open on these partitions."""
        wait_for(lambda: not any(open_transactions(self.client, self.at(*indexes)).values()), "the markers")

    # ---- once

    def once(self, target: Target, request: Any, version: int, purpose: str = "control") -> Any:
        return self.client.connect(target, purpose=purpose).call(request, version)

    def produce(
        self,
        identity: Identity | None,
        values: Iterable[str],
        *,
        index: int = 0,
        sequence: int = 0,
        client: Client | None = None,
    ) -> tuple[int, int]:
        """Error code and base offset."""
        client = client or self.client
        answer = client.connect(self.leader(index), purpose="produce").call(
            self.produce_request(identity, values, index, sequence=sequence), 12
        )
        row = answer.responses[0].partition_responses[0]
        return int(row.error_code), int(row.base_offset)

    def produce_request(
        self,
        identity: Identity | None,
        values: Iterable[str],
        *indexes: int,
        sequence: int = 0,
        keys: Sequence[str] = (),
        codec: Codec = Codec.NONE,
    ) -> Any:
        """Return a request with the same batch for each partition."""
        columns = {"value": pa.array(list(values), pa.string())} | (
            {"key": pa.array(keys, pa.string())} if keys else {}
        )
        rows = pa.table(columns)
        if identity is None:
            (batch,) = encode(rows, codec=codec, max_bytes=1 << 30)
        else:
            (batch,) = encode(
                rows,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                base_sequence=sequence,
                transactional=True,
            )
        make = ProduceRequest.TopicProduceData
        records = b"".join(bytes(chunk) for chunk in batch.chunks)
        partitions = [make.PartitionProduceData(index=index, records=records) for index in indexes or (0,)]
        return ProduceRequest(
            transactional_id=identity.transactional_id if identity else None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[make(name=self.topic, partition_data=partitions)],
        )

    def leader(self, index: int = 0) -> int:
        return self.client.topics({self.topic})[self.topic].partitions[index].leader

    def end_request(self, identity: Identity, *, commit: bool) -> Any:
        return EndTxnRequest(
            transactional_id=identity.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        )

    def end_once(self, identity: Identity, *, commit: bool) -> tuple[int, Identity]:
        answer = self.once(TransactionCoordinator(self.id), self.end_request(identity, commit=commit), 5)
        return int(answer.error_code), Identity(self.id, answer.producer_id, answer.producer_epoch)

    def add_once(self, identity: Identity, *indexes: int) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=identity.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=found)
                for topic, found in by_topic(self.at(*indexes)).items()
            ],
        )
        answer = self.once(TransactionCoordinator(self.id), request, 3)
        return max(
            int(row.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        )

    def init_once(self, *, producer_id: int = -1, epoch: int = -1) -> tuple[int, Identity]:
        whose = {"transactional_id": self.id, "producer_id": producer_id, "producer_epoch": epoch}
        request = InitProducerIdRequest(**whose, transaction_timeout_ms=TRANSACTION_MS)
        answer = self.once(TransactionCoordinator(self.id), request, 5)
        return int(answer.error_code), Identity(self.id, answer.producer_id, answer.producer_epoch)

    def offset_once(self, *, stable: bool, named: bool = True) -> tuple[int, int | None]:
        """Error code and the committed offset of partition 0; None where the answer leaves the partition out."""
        make = OffsetFetchRequest.OffsetFetchRequestGroup
        wanted = [make.OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0])] if named else None
        request = OffsetFetchRequest(
            groups=[make(group_id=self.group, member_id=None, member_epoch=-1, topics=wanted)], require_stable=stable
        )
        answer = self.once(GroupCoordinator(self.group), request, 9)
        rows = [row for topic in answer.groups[0].topics for row in topic.partitions]
        return (
            (int(rows[0].error_code or answer.groups[0].error_code), int(rows[0].committed_offset))
            if rows
            else (0, None)
        )

    # ---- what is there

    def visible(self, index: int | None = None) -> list[str]:
        """Values that another client's read_committed reader sees, in the order of partitions and offsets."""
        rows = (
            read(self.servers, [self.topic], {"value": "value"})
            .sort_by([("partition", "ascending"), ("offset", "ascending")])
            .to_pylist()
        )
        return [row["value"] for row in rows if index is None or row["partition"] == index]

    def group_offset(self, index: int = 0) -> int | None:
        """Return the offset that the group has committed."""
        where = (self.topic, index)
        found = committed(self.client, self.group, [where], require_stable=True, deadline=self.client.deadline())
        return found.get(where)

    def ends(self, index: int = 0) -> tuple[int, int]:
        """Last stable offset, and high watermark."""
        where = dict.fromkeys(self.at(index), LATEST)
        stable, high = (
            list_offsets(self.client, where, read_committed=committed)[self.topic, index].offset
            for committed in (True, False)
        )
        return stable, high


def versions(servers: str) -> Versions:
    """Return the API versions of a broker."""
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        return client.versions()
