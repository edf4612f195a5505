"""The transaction APIs: take an identity, add partitions, commit offsets, end.

These functions send requests and sort answers; they decide nothing. Codes with a meaning only in the owner's context
(SETTLE in :mod:`semel.wire.error_codes`) are returned; :mod:`semel.transaction` treats them by PROTOCOL section 4. All
other codes raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from semel.wire import error_codes
from semel.wire.api.offsets import offset_rows
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.error_codes import Action
from semel.wire.metadata import TopicPartition, by_topic, named
from semel.wire.target import ANY, GroupCoordinator, TransactionCoordinator

__all__ = [
    "EndAnswer",
    "Identity",
    "add_partitions",
    "commit_offsets",
    "end",
    "fence",
    "init_producer_id",
]


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a transaction for a broker."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class EndAnswer:
    """The answer to EndTxn: a code, and with code 0 the identity for the next transaction."""

    code: int
    identity: Identity


def init_producer_id(client: Client, transactional_id: str, timeout_ms: int, deadline: Deadline) -> Identity:
    """Take the id: every predecessor is fenced, and its open transaction aborted.

    The answer does not say that markers are written.
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
    """Return a producer id and epoch without a transactional id. A plain batch that has them is in the log once,
    however often it is sent.

    It needs Write on any topic.
    """
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    answer = client.ask(ANY, request, (4, 5), deadline=deadline)
    if answer.error_code:
        raise error_codes.error("InitProducerId", answer.error_code, "asking for a producer id", "Nothing was written.")
    return answer.producer_id, answer.producer_epoch


def fence(client: Client, transactional_id: str, deadline: Deadline | None = None) -> Identity:
    """Fence the owner of the id and abort its open transaction, without a transaction of our own (KIP-618's
    ``fenceProducers``).
    """
    return init_producer_id(client, transactional_id, 60_000, deadline or client.deadline())


def add_partitions(client: Client, identity: Identity, partitions: Iterable[TopicPartition], deadline: Deadline) -> int:
    """Add all partitions to the transaction in one request. Return 0 or a code for PROTOCOL 4."""
    # version 3 is the last for clients: from 4 on brokers send the request to each other (KIP-890)
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
    partition_codes = codes(answer)
    code = _worst("AddPartitionsToTxn", partition_codes.values())
    return _settled(
        "AddPartitionsToTxn",
        code,
        lambda: f"adding {_with(partition_codes, code)} to the transaction of {identity.transactional_id!r}",
        codes=partition_codes,
    )


def commit_offsets(
    client: Client, identity: Identity, group: Any, offsets: Mapping[TopicPartition, int], deadline: Deadline
) -> int:
    """Put offsets of a group into the transaction. The offsets partition is added with them (KIP-890). Return 0 or a
    code for PROTOCOL 4.

    ``group`` has ``id``, ``generation``, ``member`` and ``instance`` (a
    :class:`~semel.transaction.ticket.GroupMetadata`).
    """
    make = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    request = TxnOffsetCommitRequest(
        transactional_id=identity.transactional_id,
        group_id=group.id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=group.generation,
        member_id=group.member,
        group_instance_id=group.instance,
        topics=offset_rows(make, make.TxnOffsetCommitRequestPartition, offsets),
    )

    def codes(answer: Any) -> dict[TopicPartition, int]:
        return {
            (topic.name, row.partition_index): row.error_code for topic in answer.topics for row in topic.partitions
        }

    def worst(answer: Any) -> int:
        return _worst("TxnOffsetCommit", codes(answer).values())

    answer = client.ask(GroupCoordinator(group.id), request, (5, 5), code=worst, deadline=deadline)
    partition_codes = codes(answer)
    code = _worst("TxnOffsetCommit", partition_codes.values())

    def subject() -> str:
        return (
            f"committing offsets of {_with(partition_codes, code)} for group {group.id!r} in the transaction of"
            f" {identity.transactional_id!r}"
        )

    return _settled("TxnOffsetCommit", code, subject, codes=partition_codes)


def end(
    client: Client, identity: Identity, *, commit: bool, deadline: Deadline, sent: Callable[[], None] | None = None
) -> EndAnswer:
    """Ask the coordinator to end the transaction, and repeat until it answers.

    Raise :class:`~semel.errors.Retriable` if it never does.
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


def _worst(api: str, codes: Iterable[int]) -> int:
    """Return the code that decides about a request of many partitions: a final code before a temporary one."""
    # 55 only says that the broker did not try this partition because of another one's code
    wrong = [code for code in codes if code not in (0, 55)]
    return next((code for code in wrong if not error_codes.of(api, code).temporary), wrong[0] if wrong else 0)


def _with(codes: Mapping[TopicPartition, int], code: int) -> str:
    """Return the partitions that got this code, for a message."""
    return named(partition for partition, got in codes.items() if got == code)


def _settled(
    api: str,
    code: int,
    subject: Callable[[], str],
    meaning: str = "Nothing was committed.",
    codes: Mapping[TopicPartition, int] | None = None,
) -> int:
    """Return the code if PROTOCOL 4 treats it, and raise its error if not.

    ``subject`` is only called for an error: it names up to a thousand partitions. ``codes`` has the code of each.
    """
    if error_codes.of(api, code) in (Action.OK, Action.SETTLE, Action.ABORT):
        return code
    first = next((partition for partition, got in (codes or {}).items() if got == code), None)
    raise error_codes.error(api, code, subject(), meaning).at(first)
