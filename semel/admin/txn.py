"""Open transactions of a cluster, for the operator: their ids, their partitions, and the readers that wait for them.

The lists change nothing. :func:`abort_transaction` ends the transaction that was shown, and not one that its owner has
begun since. It checks again, and names producer id and epoch in its request (DESIGN rule 13 has the reason). With
clients of KIP-890, semel among them, each transaction has its own epoch, so no other transaction can be hit. With older
clients, a new transaction can begin in the time of one request.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from semel.errors import ConfigError, Retriable
from semel.transaction.markers.wait import heal_command
from semel.transaction.producer import Producer
from semel.transaction.transactional_id import IdKind, Name, parse
from semel.transaction.two_phase.recovery import Recovered, identity_of, open_prepared
from semel.wire.api.describe_transactions import OPEN, TransactionDescription, describe, describe_all, open_transactions
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.api.transactions import Identity, end
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition, named

__all__ = [
    "NEVER_MS",
    "HeldPartition",
    "TransactionInfo",
    "abort_transaction",
    "check_not_part",
    "commit_transaction",
    "describe_transaction",
    "end_parts",
    "list_transactions",
]

#: The timeout of a transaction that only a decision ends (KIP-939).
NEVER_MS = (1 << 31) - 1

_INTERNAL = ("__consumer_offsets", "__transaction_state")


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """A partition with rows of an open transaction, from ``first_offset`` on. That is None if it has no rows yet.

    ``waiting`` is the number of offsets that it hides from a read_committed reader. It is 0 if another transaction
    holds the reader back.
    """

    topic: str
    index: int
    first_offset: int | None
    waiting: int


@dataclass(frozen=True, slots=True)
class TransactionInfo:
    """A transactional id as its coordinator has it, and the partitions of its open transaction, without those of
    consumer groups' offsets.
    """

    name: Name
    transaction: TransactionDescription
    held: tuple[HeldPartition, ...]

    @property
    def open(self) -> bool:
        """True if the transaction has begun and not ended."""
        return self.transaction.state in OPEN

    @property
    def prepared(self) -> bool:
        """True if the transaction can be prepared: it waits for a decision, or its process still writes it."""
        return self.name.kind is not IdKind.OWNER and self.transaction.state == "Ongoing"

    @property
    def waiting(self) -> int:
        """The number of offsets that it hides from readers, over all partitions."""
        return sum(held.waiting for held in self.held)


@dataclass(frozen=True, slots=True)
class _Log:
    """A partition: the first offset of each producer's open transaction, the last stable offset, the end."""

    firsts: Mapping[int, int]
    last_stable: int
    end: int


def list_transactions(client: Client, *, only_open: bool = True) -> list[TransactionInfo]:
    """Return the transactional ids of the cluster, the oldest transaction first.

    Brokers leave out ids that the caller may not describe.
    """
    states = OPEN if only_open else ()
    described = describe_all(client, states)
    # a transaction may have ended since it was listed
    chosen = [description for description in described if not only_open or description.state in OPEN]
    return sorted(
        _with_held_partitions(client, chosen),
        key=lambda one: (not one.open, one.transaction.started_ms, one.transaction.transactional_id),
    )


def describe_transaction(client: Client, transactional_id: str) -> TransactionInfo:
    """Return the description of one id. Raise :class:`ConfigError` if the cluster does not know it."""
    description = describe(client, transactional_id)
    if description is None:
        raise ConfigError(
            f"transactional id {transactional_id!r} is not known here: never used, or forgotten after"
            " transactional.id.expiration.ms. Nothing was changed. `semel txn list --all` shows those that are.",
            tag="UNKNOWN_TRANSACTIONAL_ID",
        )
    (looked_at,) = _with_held_partitions(client, [description])
    return looked_at


def _with_held_partitions(client: Client, described: Sequence[TransactionDescription]) -> list[TransactionInfo]:
    """Return the transactions with the partitions that they hold back.

    All their partitions are looked up together: an id may be one of thousands.
    """
    log = _log(client, {partition for description in described for partition in _partitions(description)})
    return [
        TransactionInfo(parse(description.transactional_id), description, tuple(_held(description, log)))
        for description in described
    ]


def _partitions(description: TransactionDescription) -> list[TopicPartition]:
    return (
        sorted(partition for partition in description.partitions if partition[0] not in _INTERNAL)
        if description.state in OPEN
        else []
    )


def _log(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, _Log]:
    """Return the log of each partition that still exists: a topic may be deleted under an open transaction."""
    there = client.existing({topic for topic, _ in partitions})
    left = [(topic, index) for topic, index in partitions if topic in there and index in there[topic].partitions]
    if not left:
        return {}
    latest = dict.fromkeys(left, LATEST)
    stable, ends = (list_offsets(client, latest, read_committed=committed) for committed in (True, False))
    opened = open_transactions(client, left)
    return {
        p: _Log({one.producer_id: one.start_offset for one in opened[p]}, stable[p].offset, ends[p].offset)
        for p in left
    }


def _held(description: TransactionDescription, log: Mapping[TopicPartition, _Log]) -> Iterator[HeldPartition]:
    for topic, index in _partitions(description):
        if (topic, index) in log:
            one = log[topic, index]
            first = one.firsts.get(description.producer_id)
            holds = first is not None and first == one.last_stable
            yield HeldPartition(topic, index, first, one.end - one.last_stable if holds else 0)


def abort_transaction(client: Client, shown: TransactionInfo, deadline: Deadline | None = None) -> None:
    """Abort the transaction that was shown, and return when its markers are seen. An owner that lives finds it aborted.

    Raise :class:`ConfigError` if there is nothing to abort, or another transaction by now, and for the part of a batch,
    which its owner decides. Raise :class:`Retriable` if a marker is not seen in time.
    """
    check_not_part(shown)
    _end(client, shown, deadline, commit=False)


def commit_transaction(client: Client, shown: TransactionInfo, deadline: Deadline | None = None) -> None:
    """Commit the prepared transaction that was shown, by its decision, and return when its markers are seen.

    Be careful: only ``Cluster.commit`` can check that all of its rows are there, by the text. Raise as
    :func:`abort_transaction`, and :class:`ConfigError` for an owner's transaction, which its progress record decides.
    """
    if shown.name.kind is IdKind.OWNER:
        raise ConfigError(
            f"{shown.name.prefix!r} is the id of a query or producer, which alone commits its transactions, with its"
            " progress. Nothing was changed. Start it again, or abort the transaction.",
            tag="NOT_PREPARED",
        )
    check_not_part(shown)
    _end(client, shown, deadline, commit=True)


def check_not_part(shown: TransactionInfo) -> None:
    """Raise :class:`ConfigError` for the part of a batch: it is not ended alone."""
    if shown.name.kind is IdKind.TASK:
        raise ConfigError(
            f"{shown.transaction.transactional_id!r} is a part of a batch of {shown.name.prefix!r}, and the progress of"
            " that prefix decides about it. Nothing was changed. Start its query again, which ends all parts. If it"
            f" never starts again: semel txn sweep {shlex.quote(shown.name.prefix)}",
            tag="PART_OF_BATCH",
        )


def end_parts(client: Client, prefix: str, progress_topic: str) -> Recovered:
    """End what the tasks of a prefix have prepared, as its progress says, and fence a query that runs.

    Raise what taking over raises.
    """
    listed = open_prepared(client, prefix, IdKind.TASK)
    with Producer(client, prefix, scope="query", progress_topic=progress_topic, may_have_lost_progress=True) as owner:
        owner.take_over()
        record = owner.decided
    decided = {one.identity: one for one in record.enlisted} if record is not None else {}
    parts = {identity_of(one) for one in listed}
    return Recovered(
        [one for identity, one in decided.items() if identity in parts],
        sorted(one.transactional_id for one in parts - decided.keys()),
    )


def _end(client: Client, shown: TransactionInfo, deadline: Deadline | None, *, commit: bool) -> None:
    deadline = deadline or client.deadline(client.config.delivery_timeout_ms)
    transaction = shown.transaction
    tag = "NOTHING_TO_COMMIT" if commit else "NOTHING_TO_ABORT"
    if transaction.state != "Ongoing":
        raise ConfigError(
            f"transactional id {transaction.transactional_id!r} has no transaction to end: it is in state"
            f" {transaction.state}. Nothing was changed. One that is being ended (Prepare…) ends by itself when its"
            " partitions have leaders.",
            tag=tag,
        )
    identity = Identity(transaction.transactional_id, transaction.producer_id, transaction.epoch)
    if (
        not _still(transaction, describe(client, transaction.transactional_id))
        or end(client, identity, commit=commit, deadline=deadline).code
    ):
        raise ConfigError(
            f"the transaction of {transaction.transactional_id!r} that was shown is over: its owner has ended it in"
            " the meantime, or another has taken over. Nothing was changed. Look again.",
            tag=tag,
        )
    _await_markers(client, shown, deadline, "commit" if commit else "abort")


def _still(shown: TransactionDescription, now: TransactionDescription | None) -> bool:
    return now is not None and (now.state, now.producer_id, now.epoch, now.started_ms) == (
        shown.state,
        shown.producer_id,
        shown.epoch,
        shown.started_ms,
    )


def _await_markers(client: Client, shown: TransactionInfo, deadline: Deadline, ended: str) -> None:
    first: Mapping[TopicPartition, int] = {
        (held.topic, held.index): held.first_offset for held in shown.held if held.first_offset is not None
    }
    left = set(first)
    while left:
        opened = open_transactions(client, left, deadline)
        left = {
            p
            for p in left
            if any(
                one.start_offset == first[p] for one in opened[p] if one.producer_id == shown.transaction.producer_id
            )
        }
        if left and deadline.passed:
            raise Retriable(
                f"the transaction of {shown.transaction.transactional_id!r} is ended ({ended}), and after"
                f" {deadline.timeout_ms:.0f} ms its markers are not on {named(left)}: readers wait there still. Where"
                " they do not come, the brokers have lost them (KAFKA-20734), and for each:"
                f" {heal_command(min(left), shown.transaction.producer_id, shown.transaction.transactional_id)} --as"
                f" {ended}",
                tag="MARKER_MISSING",
            )
        if left:
            deadline.pause()
