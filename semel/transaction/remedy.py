"""A lost marker, written by an operator: for owners that may not, and for transactions that nobody can tell the end of (PROTOCOL 5.5).

Looking changes nothing but for a claim in the progress topic. Writing is refused while a coordinator has anything open or unfinished under that
producer id: its marker may be on its way, and then it is `semel txn abort` that ends it. A producer id that no coordinator knows any more is fine.
Where what was written down tells how the transaction had ended, nothing else is written; where it does not, somebody decides, and the decision is
written down first, so that whoever comes to the transaction's other partitions ends them alike.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from semel.errors import ConfigError, Retriable
from semel.read.journal import written_by
from semel.transaction.decision import decide
from semel.transaction.naming import parse
from semel.transaction.ownership import DEFAULT_TIMEOUT_MS
from semel.transaction.progress import Decided
from semel.transaction.progress_topic import DEFAULT_TOPIC, ProgressTopic
from semel.transaction.survey import OPEN
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition
from semel.wire.offsets import LATEST, list_offsets
from semel.wire.topics import broker_config
from semel.wire.transactions import Marker, OpenTransaction, TransactionDescription, describe, describe_all, open_transactions, write_markers

__all__ = ["Unmarked", "heal_shown", "look"]

_STATE_TOPIC = "__transaction_state"


@dataclass(frozen=True, slots=True)
class Unmarked:
    """Rows of one producer id that stand open on a partition though no coordinator has anything open under it.

    ``waiting`` is how many offsets readers cannot reach behind the first of them, ``transactional_id`` whose they are, where that is known, and
    ``committed`` how their transaction had ended by what was written down, None where nothing tells.
    """

    partition: TopicPartition
    opened: OpenTransaction
    waiting: int
    transactional_id: str | None
    committed: bool | None


def look(
    client: Client, partition: TopicPartition, producer_id: int, transactional_id: str | None = None, *, progress_topic: str = DEFAULT_TOPIC
) -> Unmarked:
    """What stands open there. ``transactional_id`` is for a producer id that no coordinator knows any more.

    Raises :class:`ConfigError` where nothing of that producer id is open, where its transaction has not ended, or where a transaction log has no
    leader, so that nobody could say so; :class:`Retriable` if brokers stay away.
    """
    opened = _opened(client, partition, producer_id)
    whose = _whose(client, opened, transactional_id)
    latest = {partition: LATEST}
    stable, end = (list_offsets(client, latest, read_committed=committed)[partition].offset for committed in (True, False))
    waiting = end - stable if stable == opened.start_offset else 0
    committed = _written_down(client, partition, opened, whose, progress_topic) if whose is not None else None
    return Unmarked(partition, opened, waiting, whose, committed)


def heal_shown(client: Client, shown: Unmarked, *, commit: bool, progress_topic: str = DEFAULT_TOPIC, deadline: Deadline | None = None) -> None:
    """Write the marker, and return when it is seen.

    Raises :class:`ConfigError` if it is not that any more, if ``commit`` contradicts what was written down, or without the right to write markers,
    :class:`Retriable` if the marker is not seen in time.
    """
    deadline = deadline or client.deadline(client.config.delivery_timeout_ms)
    if shown.committed is not None and shown.committed is not commit:
        raise ConfigError(
            f"that transaction was {'committed' if shown.committed else 'aborted'}, by what is written down of it: ended otherwise here, it would be"
            f" torn. Nothing was changed. Heal it with --as {'commit' if shown.committed else 'abort'}.",
            tag="DECISION_KNOWN",
        )
    if look(client, shown.partition, shown.opened.producer_id, shown.transactional_id, progress_topic=progress_topic).opened != shown.opened:
        raise ConfigError("what was shown is not what stands open there now. Nothing was changed. Look again.", tag="NOTHING_TO_HEAL")
    opened = shown.opened
    if shown.committed is None and shown.transactional_id is not None:
        topic = ProgressTopic(client, parse(shown.transactional_id).prefix, "query", progress_topic)
        if topic.find(deadline):
            topic.write_down(Decided(opened.producer_id, opened.epoch, commit))
    marker = Marker(opened.producer_id, opened.epoch, commit, max(0, opened.coordinator_epoch))
    while True:
        leaders = client.newest_leaders([shown.partition], deadline)
        if leaders[shown.partition][0] >= 0:
            write_markers(client, {shown.partition: marker}, leaders, deadline)
            if not _still_open(client, shown):
                return
        if deadline.passed:
            raise Retriable(
                f"the marker was sent to {shown.partition[0]}-{shown.partition[1]}, and is not seen there after {deadline.timeout_ms:.0f} ms: readers"
                " wait still. Look again later with the same command; a second marker does no harm.",
                tag="MARKER_MISSING",
            )
        deadline.pause()


def _opened(client: Client, partition: TopicPartition, producer_id: int) -> OpenTransaction:
    there = open_transactions(client, [partition])[partition]
    found = next((one for one in there if one.producer_id == producer_id), None)
    if found is None:
        others = ", ".join(str(one.producer_id) for one in there)
        raise ConfigError(
            f"nothing of producer id {producer_id} stands open on {partition[0]}-{partition[1]}"
            + (f"; of these something does: {others}. " if others else ", nor of any other. ")
            + "Nothing was changed. What holds readers back elsewhere, `semel txn list` shows.",
            tag="NOTHING_TO_HEAL",
        )
    return found


def _whose(client: Client, opened: OpenTransaction, claimed: str | None) -> str | None:
    """The transactional id of these rows, as far as it is known. Raises :class:`ConfigError` if their transaction may still be under way."""
    _refuse_absent_coordinators(client, opened.producer_id)
    found = [one for one in describe_all(client, producer_ids=[opened.producer_id]) if one.producer_id == opened.producer_id]
    if claimed is not None:
        told = describe(client, claimed)
        found += [told] if told is not None else []
        if any(one.producer_id == opened.producer_id and one.transactional_id != claimed for one in found):
            raise ConfigError(
                f"producer id {opened.producer_id} belongs to transactional id {found[0].transactional_id!r}, and not to {claimed!r}."
                " Nothing was changed.",
                tag="FOREIGN_PRODUCER_ID",
            )
    for one in found:
        _refuse_open(one)
    if not found:
        _refuse_young(client, opened)
    return found[0].transactional_id if found else claimed


def _refuse_young(client: Client, opened: OpenTransaction) -> None:
    """Brokers leave out, without a word, the ids that one may not describe: no answer does not mean that nobody is at work."""
    try:
        longest_ms = int(broker_config(client, ["transaction.max.timeout.ms"]).get("transaction.max.timeout.ms") or DEFAULT_TIMEOUT_MS)
    except ConfigError:
        longest_ms = DEFAULT_TIMEOUT_MS
    if time.time() * 1000 - opened.last_timestamp < longest_ms:
        raise ConfigError(
            f"no broker tells whose producer id {opened.producer_id} is, and it has written within the last {longest_ms / 60_000:.0f} minutes: its"
            " transaction may be under way. Nothing was changed. Name its transactional id (--transactional-id), use a login that may describe it, or"
            " wait until it cannot be open any more.",
            tag="TRANSACTION_OPEN",
        )


def _refuse_absent_coordinators(client: Client, producer_id: int) -> None:
    leaderless = [p.index for topic in client.existing({_STATE_TOPIC}).values() for p in topic.partitions.values() if p.leader < 0]
    if leaderless:
        raise ConfigError(
            f"{_STATE_TOPIC} has no leader for partition {leaderless[0]}: its coordinator may have a transaction of producer id {producer_id} under"
            " way, and cannot be asked. Nothing was changed. Bring its brokers back first.",
            tag="COORDINATOR_AWAY",
        )


def _refuse_open(found: TransactionDescription) -> None:
    if found.state in OPEN:
        raise ConfigError(
            f"the coordinator says of {found.transactional_id!r} (producer id {found.producer_id}): {found.state}. That transaction has not ended, so"
            " its marker is not lost. Nothing was changed. One that is being ended (Prepare…) ends by itself; an Ongoing one is ended by its owner,"
            f" by its timeout, or by: semel txn abort {found.transactional_id}",
            tag="TRANSACTION_OPEN",
        )


def _written_down(client: Client, partition: TopicPartition, opened: OpenTransaction, transactional_id: str, progress_topic: str) -> bool | None:
    deadline = client.deadline()
    if written_by(client, partition, opened.start_offset, deadline) != (opened.producer_id, opened.epoch):
        return None  # two transactions lie in one: see semel.transaction.healing
    topic = ProgressTopic(client, parse(transactional_id).prefix, "query", progress_topic)
    if not topic.find(deadline):
        return None
    settled = topic.read(topic.claim(), deadline)
    return decide(client, opened.producer_id, opened.epoch, settled, opened.producer_id, deadline)


def _still_open(client: Client, shown: Unmarked) -> bool:
    there = open_transactions(client, [shown.partition])[shown.partition]
    return any((one.producer_id, one.start_offset) == (shown.opened.producer_id, shown.opened.start_offset) for one in there)
