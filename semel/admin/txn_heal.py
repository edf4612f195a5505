"""A lost marker, written by an operator: for owners without the right, and for transactions whose end is unknown
(PROTOCOL 5.5).

The search writes nothing but a look into the progress topic. A marker is refused while a coordinator has an open or
unfinished transaction under that producer id. Its marker may be on its way, and `semel txn abort` ends it.

A producer id that no coordinator names may have expired, or the caller may not see its owner. Then progress under the
id that the caller names must show the owner, or the caller vouches for it. Timestamps of rows prove nothing: they
usually come from the source, and from no clock of this cluster.

If a record shows how the transaction ended, only that marker may be written. If not, the operator decides, and the
decision is recorded first. So the transaction's other partitions are ended alike. Two operators may decide at once, on
different partitions: the first decision in the log counts for both, and the second writes no other marker.
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.errors import ConfigError, Retriable
from semel.read.raw_log import aborted_from
from semel.transaction.markers.outcome import outcome_of_open_rows
from semel.transaction.progress.log import ProgressLog
from semel.transaction.progress.reader import read_everything
from semel.transaction.progress.record import RecordedOutcome
from semel.transaction.progress.topic import DEFAULT_TOPIC, ProgressTopic
from semel.transaction.transactional_id import parse
from semel.wire.api.describe_transactions import (
    OPEN,
    OpenTransaction,
    TransactionDescription,
    describe,
    describe_all,
    marker_of,
    open_transactions,
    write_markers,
)
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition
from semel.wire.metadata_cache import newest_leaders

__all__ = ["OpenRows", "find_open_rows", "write_marker"]

_STATE_TOPIC = "__transaction_state"


@dataclass(frozen=True, slots=True)
class OpenRows:
    """Rows of one producer id that are open on a partition although no coordinator has an open transaction under it.

    ``waiting`` is the number of offsets from the first of them on that readers cannot reach. ``transactional_id`` is
    their owner's, if known. ``committed`` is the recorded end of their transaction, or None if there is no record.
    """

    partition: TopicPartition
    opened: OpenTransaction
    waiting: int
    transactional_id: str | None
    committed: bool | None


def find_open_rows(
    client: Client,
    partition: TopicPartition,
    producer_id: int,
    transactional_id: str | None = None,
    *,
    progress_topic: str = DEFAULT_TOPIC,
    owner_gone: bool = False,
) -> OpenRows:
    """Find the open rows of a producer id. ``transactional_id`` is for a producer id that no coordinator knows any
    more.

    With ``owner_gone`` the caller vouches that no program writes under this producer id any more. It is for an owner
    that neither a coordinator nor progress names.

    Raise :class:`ConfigError` if no rows of that producer id are open, if its transaction has not ended, if its owner
    is not named, or if a transaction log has no leader, so that its coordinator cannot be asked. Raise
    :class:`Retriable` if brokers do not answer.
    """
    opened = _opened(client, partition, producer_id)
    description = _owner_description(client, opened, transactional_id)
    whose = description.transactional_id if description is not None else transactional_id
    settled = _progress(client, whose, progress_topic) if whose is not None else ProgressLog(())
    if not owner_gone and (description is None or description.producer_id != producer_id):
        _check_named(opened, settled)
    committed = outcome_of_open_rows(
        client,
        partition,
        opened,
        settled,
        description.producer_id if description is not None else None,
        client.deadline(),
    )
    latest = {partition: LATEST}
    stable, end = (
        list_offsets(client, latest, read_committed=committed)[partition].offset for committed in (True, False)
    )
    waiting = end - stable if stable == opened.start_offset else 0
    return OpenRows(partition, opened, waiting, whose, committed)


def write_marker(
    client: Client,
    shown: OpenRows,
    *,
    commit: bool,
    progress_topic: str = DEFAULT_TOPIC,
    deadline: Deadline | None = None,
) -> None:
    """Write the marker, and return when it is seen on the partition. A caller who vouched for the owner in the search
    still does.

    Raise :class:`ConfigError` if the open rows have changed, if ``commit`` contradicts the recorded decision (also one
    of the same moment), or without the right to write markers. Raise :class:`Retriable` if the marker is not seen in
    time.
    """
    deadline = deadline or client.deadline(client.config.delivery_timeout_ms)
    if shown.committed is not None and shown.committed is not commit:
        raise ConfigError(
            f"the record of that transaction says that it was {'committed' if shown.committed else 'aborted'}. Nothing"
            " was changed: ended otherwise here, it would be torn. Heal it with --as"
            f" {'commit' if shown.committed else 'abort'}.",
            tag="DECISION_KNOWN",
        )
    now = find_open_rows(
        client,
        shown.partition,
        shown.opened.producer_id,
        shown.transactional_id,
        progress_topic=progress_topic,
        owner_gone=True,
    )
    if (now.opened, now.transactional_id, now.committed) != (shown.opened, shown.transactional_id, shown.committed):
        raise ConfigError(
            "the open rows have changed since they were shown. Nothing was changed. Look again.", tag="NOTHING_TO_HEAL"
        )
    if shown.committed is None and shown.transactional_id is not None:
        _write_down(
            client,
            shown,
            ProgressTopic(client, parse(shown.transactional_id).prefix, "query", progress_topic),
            deadline,
            commit=commit,
        )
    _write_marker(client, shown, deadline, commit=commit)


def _write_down(client: Client, shown: OpenRows, topic: ProgressTopic, deadline: Deadline, *, commit: bool) -> None:
    """Record the decision. No check lies between this and the marker: a later operator finds this decision before its
    own.
    """
    opened = shown.opened
    if not topic.exists(deadline):
        return
    holds = topic.record_outcome(RecordedOutcome(opened.producer_id, opened.epoch, commit), deadline)
    if holds is commit:
        return
    word = "abort" if commit else "commit"
    raise ConfigError(
        f"another operator, or the query, has recorded first that this transaction ends as {word}. No marker was"
        f" written here: {'commit' if commit else 'abort'} would tear it. Heal its open rows with --as {word}, or start"
        " the query again, which does it.",
        tag="DECISION_KNOWN",
    )


def _write_marker(client: Client, shown: OpenRows, deadline: Deadline, *, commit: bool) -> None:
    marker = marker_of(shown.opened, commit=commit)
    for _ in deadline.attempts():
        leaders = newest_leaders(client, [shown.partition], deadline)
        if leaders[shown.partition][0] >= 0:
            write_markers(client, {shown.partition: marker}, leaders, deadline)
            if not _still_open(client, shown):
                _check_no_other_end(client, shown, deadline, commit=commit)
                return
    raise Retriable(
        f"the marker was sent to {shown.partition[0]}-{shown.partition[1]}, and is not seen there after"
        f" {deadline.timeout_ms:.0f} ms: readers wait still. Look again later with the same command; a second"
        " marker does no harm.",
        tag="MARKER_MISSING",
    )


def _check_no_other_end(client: Client, shown: OpenRows, deadline: Deadline, *, commit: bool) -> None:
    """Check that the rows ended as decided. The first marker settles rows, and a second one changes nothing. If no
    decision could be recorded, another operator's marker may have come first.
    """
    aborted = aborted_from(client, shown.partition, shown.opened.producer_id, shown.opened.start_offset, deadline)
    if aborted is None or aborted is not commit:
        return
    raise ConfigError(
        f"another marker came first on {shown.partition[0]}-{shown.partition[1]}: these rows are"
        f" {'aborted' if commit else 'committed'}, and stay so. The marker that was written here changes nothing. Agree"
        " on one outcome before you heal other partitions of this transaction: with two it would be torn.",
        tag="DECISION_KNOWN",
    )


def _opened(client: Client, partition: TopicPartition, producer_id: int) -> OpenTransaction:
    there = open_transactions(client, [partition])[partition]
    opened = next((one for one in there if one.producer_id == producer_id), None)
    if opened is None:
        others = ", ".join(str(one.producer_id) for one in there)
        raise ConfigError(
            f"{partition[0]}-{partition[1]} has no open rows of producer id {producer_id}"
            + (f", but of these: {others}. " if others else ", nor of any other. ")
            + "Nothing was changed. `semel txn list` shows what holds readers back elsewhere.",
            tag="NOTHING_TO_HEAL",
        )
    return opened


def _owner_description(client: Client, opened: OpenTransaction, claimed: str | None) -> TransactionDescription | None:
    """Return the description of these rows' owner by its coordinator.

    Raise :class:`ConfigError` if its transaction has not ended.
    """
    _check_coordinators_present(client, opened.producer_id)
    descriptions = [
        one for one in describe_all(client, producer_ids=[opened.producer_id]) if one.producer_id == opened.producer_id
    ]
    if claimed is not None:
        description = describe(client, claimed)
        descriptions += [description] if description is not None else []
        if any(one.producer_id == opened.producer_id and one.transactional_id != claimed for one in descriptions):
            raise ConfigError(
                f"producer id {opened.producer_id} belongs to transactional id {descriptions[0].transactional_id!r},"
                f" and not to {claimed!r}. Nothing was changed.",
                tag="FOREIGN_PRODUCER_ID",
            )
    for one in descriptions:
        _check_not_open(one)
    return descriptions[0] if descriptions else None


def _check_named(opened: OpenTransaction, settled: ProgressLog) -> None:
    """Check that progress names the producer id. Brokers silently leave out ids that the caller may not describe: no
    answer does not mean that the owner is gone.
    """
    if all(record.producer_id != opened.producer_id for record in settled.everything):
        raise ConfigError(
            f"no broker tells whose producer id {opened.producer_id} is: its transactional id has expired, or this"
            " login may not describe it, and then its transaction may be under way. Nothing was changed. Name its"
            " transactional id (--transactional-id), use a login that may describe it, or, if no program that may"
            " have written these rows is alive any more, say so (--owner-gone).",
            tag="TRANSACTION_OPEN",
        )


def _check_coordinators_present(client: Client, producer_id: int) -> None:
    leaderless = [
        p.index for topic in client.existing({_STATE_TOPIC}).values() for p in topic.partitions.values() if p.leader < 0
    ]
    if leaderless:
        raise ConfigError(
            f"{_STATE_TOPIC} has no leader for partition {leaderless[0]}: its coordinator may have a transaction of"
            f" producer id {producer_id} under way, and cannot be asked. Nothing was changed. Bring its brokers back"
            " first.",
            tag="COORDINATOR_AWAY",
        )


def _check_not_open(description: TransactionDescription) -> None:
    if description.state in OPEN:
        raise ConfigError(
            f"the coordinator says of {description.transactional_id!r} (producer id {description.producer_id}):"
            f" {description.state}. That transaction has not ended, so its marker is not lost. Nothing was changed. One"
            " that is being ended (Prepare…) ends by itself; an Ongoing one is ended by its owner, by its timeout, or"
            f" by: semel txn abort {description.transactional_id}",
            tag="TRANSACTION_OPEN",
        )


def _progress(client: Client, transactional_id: str, progress_topic: str) -> ProgressLog:
    deadline = client.deadline()
    topic = ProgressTopic(client, parse(transactional_id).prefix, "query", progress_topic)
    return read_everything(topic, deadline) if topic.exists(deadline) else ProgressLog(())


def _still_open(client: Client, shown: OpenRows) -> bool:
    there = open_transactions(client, [shown.partition])[shown.partition]
    return any(
        (one.producer_id, one.start_offset) == (shown.opened.producer_id, shown.opened.start_offset) for one in there
    )
