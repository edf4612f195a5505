"""Transactions as coordinators and leaders describe them, and the marker that ends one if its coordinator did not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.producer import WriteTxnMarkersRequest

from semel.wire import error_codes
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import Leaders, TopicPartition, by_topic
from semel.wire.target import TransactionCoordinator

__all__ = [
    "OPEN",
    "MarkerToWrite",
    "OpenTransaction",
    "TransactionDescription",
    "describe",
    "describe_all",
    "describe_ids",
    "list_transactions",
    "marker_of",
    "open_transactions",
    "write_markers",
]

#: Kafka's words for a transaction that has begun and not ended.
OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The coordinator's description of one id.

    ``state`` is Kafka's word (Ongoing, PrepareCommit, CompleteAbort, …), times are ms since the epoch.
    """

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open on one partition, as its leader has it."""

    producer_id: int
    epoch: int
    start_offset: int
    coordinator_epoch: int
    last_timestamp: int
    last_sequence: int


@dataclass(frozen=True, slots=True)
class MarkerToWrite:
    """The end of a transaction on one partition, ready to be written there. ``epoch`` is that of the rows."""

    producer_id: int
    epoch: int
    commit: bool
    coordinator_epoch: int


def marker_of(opened: OpenTransaction, *, commit: bool) -> MarkerToWrite:
    """Return the marker that ends it.

    The coordinator's epoch is never a higher one than the partition knows: that would fence the coordinator.
    """
    return MarkerToWrite(opened.producer_id, opened.epoch, commit, max(0, opened.coordinator_epoch))


def describe(client: Client, transactional_id: str, deadline: Deadline | None = None) -> TransactionDescription | None:
    """Return the coordinator's description of the id. None if the coordinator does not know it (never used, or
    expired).
    """
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    answer = client.ask(
        TransactionCoordinator(transactional_id),
        request,
        (0, 0),
        code=lambda answer: int(answer.transaction_states[0].error_code),
        deadline=deadline,
    )
    return _description(answer.transaction_states[0])


def describe_all(
    client: Client,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    *,
    wanted: Callable[[str], bool] = lambda _: True,
) -> list[TransactionDescription]:
    """Return all ids that the cluster knows. Each broker lists and describes the ids that it coordinates.

    ``states`` (``Ongoing``, …) and ``producer_ids`` narrow the result, and so does ``wanted``, by the id. Brokers leave
    out ids that the caller may not describe.
    """
    descriptions: list[TransactionDescription] = []
    for node in client.brokers():
        ids = [one for one in _listed(client, node, states, producer_ids) if wanted(one)]
        descriptions += _describe_on(client, node, ids)
    return descriptions


def describe_ids(client: Client, ids: Iterable[str], deadline: Deadline) -> list[TransactionDescription]:
    """Return the descriptions of these ids, in one request a coordinator. Ids that none knows are left out."""
    by_coordinator: dict[int, list[str]] = {}
    for transactional_id, node in client.transaction_coordinators(ids, deadline).items():
        by_coordinator.setdefault(node, []).append(transactional_id)
    return [
        description for node, its in by_coordinator.items() for description in _describe_on(client, node, its, deadline)
    ]


def _describe_on(
    client: Client, node: int, ids: Iterable[str], deadline: Deadline | None = None
) -> list[TransactionDescription]:
    request = DescribeTransactionsRequest(transactional_ids=sorted(ids))
    if not request.transactional_ids:
        return []
    answer = client.ask(node, request, (0, 0), code=lambda _: 0, deadline=deadline)
    descriptions: list[TransactionDescription] = []
    for row in answer.transaction_states:
        # it may have moved to another coordinator since its own was looked up
        moved = error_codes.of("DescribeTransactions", row.error_code).temporary
        if moved:
            client.forget(TransactionCoordinator(row.transactional_id))
        description = describe(client, row.transactional_id, deadline) if moved else _description(row)
        if description is not None:
            descriptions.append(description)
    return descriptions


def _description(row: Any) -> TransactionDescription | None:
    if row.error_code == 105:
        return None
    if row.error_code:
        subject = f"describing transactional id {row.transactional_id!r}"
        raise error_codes.error("DescribeTransactions", row.error_code, subject, "Nothing was changed.")
    return TransactionDescription(
        row.transactional_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        row.transaction_start_time_ms,
        tuple((topic.topic, index) for topic in row.topics for index in topic.partitions),
    )


def list_transactions(client: Client, states: Iterable[str] = ()) -> dict[str, str]:
    """Return the transactional ids that the cluster knows, with their states, from every broker.

    ``states`` (``Ongoing``, …) narrows the result.
    """
    return {
        transactional_id: state
        for node in client.brokers()
        for transactional_id, state in _listed(client, node, states).items()
    }


def _listed(client: Client, node: int, states: Iterable[str], producer_ids: Iterable[int] = ()) -> dict[str, str]:
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=-1
    )
    answer = client.ask(node, request, (0, 1))
    if answer.error_code:
        raise error_codes.error(
            "ListTransactions", answer.error_code, f"listing transactions on broker {node}", "Nothing was changed."
        )
    return {row.transactional_id: row.transaction_state for row in answer.transaction_states}


def open_transactions(
    client: Client,
    partitions: Iterable[TopicPartition],
    deadline: Deadline | None = None,
    leaders: Leaders | None = None,
) -> dict[TopicPartition, list[OpenTransaction]]:
    """Return the transactions that are open on each partition, as its leader reports them (DescribeProducers; needs
    Read on the topics).

    With ``leaders`` only these brokers are asked, once; a partition whose leader gave no answer is left out.
    """

    def build(led: list[TopicPartition]) -> Any:
        make = DescribeProducersRequest.TopicRequest
        return DescribeProducersRequest(
            topics=[make(name=topic, partition_indexes=indexes) for topic, indexes in by_topic(led).items()]
        )

    def rows(answer: Any) -> dict[TopicPartition, Any]:
        return {(topic.name, row.partition_index): row for topic in answer.topics for row in topic.partitions}

    answers = client.ask_leaders(partitions, build, rows, (0, 0), leaders=leaders, deadline=deadline)
    return {
        partition: [
            OpenTransaction(
                p.producer_id,
                p.producer_epoch,
                p.current_txn_start_offset,
                p.coordinator_epoch,
                p.last_timestamp,
                p.last_sequence,
            )
            for p in row.active_producers
            if p.current_txn_start_offset >= 0
        ]
        for partition, row in answers.items()
    }


def write_markers(
    client: Client, markers: Mapping[TopicPartition, MarkerToWrite], leaders: Leaders, deadline: Deadline
) -> set[TopicPartition]:
    """Write each partition's marker by its leader, asked once. A coordinator does the same at the end of a transaction.
    It needs Alter on the cluster.

    Return the partitions whose leader has written the marker. Raise :class:`~semel.errors.ConfigError` without the
    right. Raise :class:`~semel.errors.Unsupported` for brokers before 4.2, which would take the marker into the next
    transaction too.
    """

    def build(led: list[TopicPartition]) -> Any:
        make = WriteTxnMarkersRequest.WritableTxnMarker
        alike: dict[MarkerToWrite, list[TopicPartition]] = {}
        for partition in led:
            alike.setdefault(markers[partition], []).append(partition)
        return WriteTxnMarkersRequest(
            markers=[
                make(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.epoch
                    + 1,  # as the coordinator does since KIP-890: late requests with the rows' epoch are refused
                    transaction_result=marker.commit,
                    topics=[
                        make.WritableTxnMarkerTopic(name=topic, partition_indexes=at)
                        for topic, at in by_topic(partitions).items()
                    ],
                    coordinator_epoch=marker.coordinator_epoch,
                    transaction_version=2,
                )
                for marker, partitions in alike.items()
            ]
        )

    def rows(answer: Any) -> dict[TopicPartition, Any]:
        return {
            (t.name, row.partition_index): row
            for marker in answer.markers
            for t in marker.topics
            for row in t.partitions
        }

    return set(client.ask_leaders(markers, build, rows, (2, 2), leaders=leaders, deadline=deadline))
