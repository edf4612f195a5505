"""The transaction APIs: take an identity, add partitions, commit offsets, end, describe.

These functions send and sort; they decide nothing. Codes that mean something only in the owner's context (SETTLE in
:mod:`semel.wire.error_codes`) are returned, and PROTOCOL section 4, in :mod:`semel.transaction`, says what to do.
Everything else raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

from semel.wire import error_codes
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.error_codes import Action
from semel.wire.metadata import Leaders, TopicPartition, by_topic, named
from semel.wire.target import ANY, GroupCoordinator, TransactionCoordinator

__all__ = [
    "OPEN",
    "EndAnswer",
    "Identity",
    "MarkerToWrite",
    "OpenTransaction",
    "TransactionDescription",
    "add_partitions",
    "commit_offsets",
    "describe",
    "describe_all",
    "end",
    "fence",
    "init_producer_id",
    "list_transactions",
    "marker_of",
    "open_transactions",
    "write_markers",
]

#: Kafka's words for a transaction that has begun and not ended.
OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a broker knows a transaction by."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class EndAnswer:
    """The answer to EndTxn: a code, and with code 0 the identity to go on with."""

    code: int
    identity: Identity


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """What the coordinator says of one id.

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
    """The end of a transaction on one partition, as it is to be written there. ``epoch`` is that of the rows."""

    producer_id: int
    epoch: int
    commit: bool
    coordinator_epoch: int


def marker_of(opened: OpenTransaction, *, commit: bool) -> MarkerToWrite:
    """The marker that ends it.

    The coordinator's epoch is never a higher one than the partition knows: that would fence the coordinator.
    """
    return MarkerToWrite(opened.producer_id, opened.epoch, commit, max(0, opened.coordinator_epoch))


def init_producer_id(client: Client, transactional_id: str, timeout_ms: int, deadline: Deadline) -> Identity:
    """Take the id: every predecessor is fenced, its open transaction aborted.

    Says nothing about markers being written.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, producer_id=-1, producer_epoch=-1
    )
    answer = client.ask(TransactionCoordinator(transactional_id), request, (4, 5), deadline=deadline)
    if answer.error_code:
        raise error_codes.error(
            "InitProducerId",
            answer.error_code,
            f"taking over transactional id {transactional_id!r}",
            "Nothing was written.",
        )
    return Identity(transactional_id, answer.producer_id, answer.producer_epoch)


def idempotent_producer(client: Client, deadline: Deadline) -> tuple[int, int]:
    """Producer id and epoch of nobody's: a plain batch that has them is in the log once, however often it is sent.

    It needs Write on some topic.
    """
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    answer = client.ask(ANY, request, (4, 5), deadline=deadline)
    if answer.error_code:
        raise error_codes.error("InitProducerId", answer.error_code, "asking for a producer id", "Nothing was written.")
    return answer.producer_id, answer.producer_epoch


def fence(client: Client, transactional_id: str, deadline: Deadline | None = None) -> Identity:
    """Fence whoever owns the id and abort what it has open, without meaning to write (KIP-618's ``fenceProducers``)."""
    return init_producer_id(client, transactional_id, 60_000, deadline or client.deadline())


def add_partitions(client: Client, identity: Identity, partitions: Iterable[TopicPartition], deadline: Deadline) -> int:
    """Add all partitions to the transaction in one request. Returns 0 or a code for PROTOCOL 4."""
    # version 3 is the clients' last: from 4 on the request is one broker's to another (KIP-890)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=identity.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ],
    )

    def codes(answer: Any) -> dict[TopicPartition, int]:
        rows = (
            (topic.name, row) for topic in answer.results_by_topic_v3_and_below for row in topic.results_by_partition
        )
        return {(name, row.partition_index): row.partition_error_code for name, row in rows}

    def worst(answer: Any) -> int:
        return _worst("AddPartitionsToTxn", codes(answer).values())

    answer = client.ask(
        TransactionCoordinator(identity.transactional_id), request, (2, 3), code=worst, deadline=deadline
    )
    found = codes(answer)
    code = _worst("AddPartitionsToTxn", found.values())
    return _settled(
        "AddPartitionsToTxn",
        code,
        lambda: f"adding {_with(found, code)} to the transaction of {identity.transactional_id!r}",
    )


def commit_offsets(
    client: Client, identity: Identity, group: Any, offsets: Mapping[TopicPartition, int], deadline: Deadline
) -> int:
    """Put offsets of a group into the transaction; the offsets partition is added with them (KIP-890). Returns 0 or a
    code for PROTOCOL 4.

    ``group`` has ``id``, ``generation``, ``member`` and ``instance`` (a
    :class:`~semel.transaction.ticket.GroupMetadata`).
    """
    make = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    make_partition = make.TxnOffsetCommitRequestPartition
    request = TxnOffsetCommitRequest(
        transactional_id=identity.transactional_id,
        group_id=group.id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=group.generation,
        member_id=group.member,
        group_instance_id=group.instance,
        topics=[
            make(
                name=topic,
                partitions=[
                    make_partition(
                        partition_index=index,
                        committed_offset=offsets[topic, index],
                        committed_leader_epoch=-1,
                        committed_metadata="",
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )

    def codes(answer: Any) -> dict[TopicPartition, int]:
        return {
            (topic.name, row.partition_index): row.error_code for topic in answer.topics for row in topic.partitions
        }

    def worst(answer: Any) -> int:
        return _worst("TxnOffsetCommit", codes(answer).values())

    answer = client.ask(GroupCoordinator(group.id), request, (5, 5), code=worst, deadline=deadline)
    found = codes(answer)
    code = _worst("TxnOffsetCommit", found.values())

    def subject() -> str:
        return (
            f"committing offsets of {_with(found, code)} for group {group.id!r} in the transaction of"
            f" {identity.transactional_id!r}"
        )

    return _settled("TxnOffsetCommit", code, subject)


def end(
    client: Client, identity: Identity, *, commit: bool, deadline: Deadline, sent: Callable[[], None] | None = None
) -> EndAnswer:
    """Ask the coordinator to end the transaction, repeating until it answers.

    Raises :class:`~semel.errors.Retriable` if it never does.
    """
    request = EndTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commit,
    )
    answer = client.ask(
        TransactionCoordinator(identity.transactional_id), request, (5, 5), deadline=deadline, sent=sent
    )
    subject = f"{'committing' if commit else 'aborting'} the transaction of {identity.transactional_id!r}"
    code = _settled(
        "EndTxn",
        answer.error_code,
        lambda: subject,
        "It is committed as a whole or not at all; the next owner finds out which.",
    )
    following = (
        Identity(identity.transactional_id, answer.producer_id, answer.producer_epoch) if code == 0 else identity
    )
    return EndAnswer(code, following)


def describe(client: Client, transactional_id: str, deadline: Deadline | None = None) -> TransactionDescription | None:
    """What the coordinator says of the id; None if it does not know it (never used, or expired)."""
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
    client: Client, states: Iterable[str] = (), producer_ids: Iterable[int] = ()
) -> list[TransactionDescription]:
    """All ids that the cluster knows, in as few requests as it has brokers: each describes those that it coordinates.

    ``states`` (``Ongoing``, …) and ``producer_ids`` narrow it. Ids that the caller may not describe are left out by the
    brokers.
    """
    found: list[TransactionDescription] = []
    for node in client.brokers():
        ids = _listed(client, node, states, producer_ids)
        answer = (
            client.ask(node, DescribeTransactionsRequest(transactional_ids=sorted(ids)), (0, 0), code=lambda _: 0)
            if ids
            else None
        )
        for row in answer.transaction_states if answer is not None else ():
            moved = error_codes.of(
                "DescribeTransactions", row.error_code
            ).temporary  # to another coordinator, since it was listed
            told = describe(client, row.transactional_id) if moved else _description(row)
            if told is not None:
                found.append(told)
    return found


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
    """Transactional ids that the cluster knows, with their states, from every broker.

    ``states`` narrows it (``Ongoing``, …).
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
    """The transactions that are open on each partition, asked of its leader (DescribeProducers; needs Read on the
    topics).

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
    """Write each partition's marker by its leader, asked once: what a coordinator does at the end of a transaction
    (needs Alter on the cluster).

    Returns the partitions whose leader has written it. Raises :class:`~semel.errors.ConfigError` without the right,
    :class:`~semel.errors.Unsupported` for brokers before 4.2, which would take it into the next transaction as well.
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
                    + 1,  # as the coordinator does since KIP-890: whatever comes late with the rows' epoch is refused
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


def _worst(api: str, codes: Iterable[int]) -> int:
    """The code that decides about a request of many partitions: one that is final before one that is temporary."""
    # 55 only says that another partition's code kept the broker from trying this one
    wrong = [code for code in codes if code not in (0, 55)]
    return next((code for code in wrong if not error_codes.of(api, code).temporary), wrong[0] if wrong else 0)


def _with(codes: Mapping[TopicPartition, int], code: int) -> str:
    """The partitions that got this code, for a message."""
    return named(partition for partition, got in codes.items() if got == code)


def _settled(api: str, code: int, subject: Callable[[], str], meaning: str = "Nothing was committed.") -> int:
    """The code, where PROTOCOL 4 says what to do with it.

    ``subject`` is asked for what an error says: it names up to a thousand partitions.
    """
    if error_codes.of(api, code) in (Action.OK, Action.SETTLE, Action.ABORT):
        return code
    raise error_codes.error(api, code, subject(), meaning)
