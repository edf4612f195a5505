"""Read what was committed under a transactional id without owning it (PROTOCOL 6, ``startingOffsets=committed``), and
find topics that keep progress.

Nothing is fenced: a look is a plain record that any process may write. Its offset bounds the read, and the answer is
given only when every record of that id below it is settled. Not promised: that the answer is still the newest when it
is used; a living owner continues.
"""

from __future__ import annotations

from semel.errors import Retriable
from semel.read.raw_log import first_record
from semel.transaction.progress.log import ProgressLog, check_not_moved
from semel.transaction.progress.record import Progress, is_progress_key
from semel.transaction.progress.settings import PARTITIONS
from semel.transaction.progress.topic import DEFAULT_TOPIC, ProgressTopic
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import Topic

__all__ = ["committed_progress", "holds_progress", "outcome_of", "read_everything", "snapshot"]


def committed_progress(
    client: Client,
    transactional_id: str,
    *,
    scope: str = "query",
    progress_topic: str = DEFAULT_TOPIC,
    deadline: Deadline | None = None,
) -> Progress | None:
    """Return the newest committed progress, or None without any or without a progress topic.

    Raises :class:`Retriable` if a transaction of this id stays open, :class:`~semel.errors.ConfigError` if another id
    has taken over.
    """
    deadline = deadline or client.deadline()
    progress = ProgressTopic(client, transactional_id, scope, progress_topic)
    if not progress.exists(deadline):
        return None
    for _ in deadline.attempts():
        settled = read_everything(progress, client.deadline())
        check_not_moved(settled, transactional_id)
        if not settled.open:
            return settled.newest.progress if settled.newest is not None else None
    raise Retriable(
        f"{transactional_id!r} still has an open transaction after {deadline.timeout_ms:.0f} ms, so its progress is not"
        " final. Nothing was read. (1) Stop the query that uses it, or wait for its transaction.timeout.ms. (2) If it"
        " stays open, its marker was lost: start that query again, which heals it.",
        tag="PROGRESS_OPEN",
    )


def outcome_of(
    client: Client, identity: Identity, scope: str, progress_topic: str, deadline: Deadline | None = None
) -> bool | None:
    """Return whether the transaction of this identity was committed, by its record. None without one: it has left none,
    or a newer one has replaced it.

    Raises :class:`Retriable` if it stays open.
    """
    deadline = deadline or client.deadline()
    progress = ProgressTopic(client, identity.transactional_id, scope, progress_topic)
    for _ in deadline.attempts():
        settled = read_everything(progress, client.deadline())
        mine = [r for r in settled.records if (r.producer_id, r.epoch) == (identity.producer_id, identity.epoch)]
        if not mine or mine[-1].committed is not None:
            return mine[-1].committed if mine else None
    raise Retriable(
        f"the transaction of {identity.transactional_id!r} at epoch {identity.epoch} is still open after"
        f" {deadline.timeout_ms:.0f} ms. It is not known whether the batch was committed. Start the query again: it"
        " finds out.",
        tag="OUTCOME_UNKNOWN",
    )


def read_everything(progress: ProgressTopic, deadline: Deadline) -> ProgressLog:
    """All that was there when this was called: a plain record is written, and bounds the read (PROTOCOL 2)."""
    return progress.read(progress.write_read_barrier(), deadline)


def snapshot(client: Client, progress: ProgressTopic, deadline: Deadline) -> ProgressLog:
    """Return what a broker shows now, for people: a deposed leader may show an older end. Writes nothing."""
    end = list_offsets(client, {progress.partition: LATEST}, read_committed=False, deadline=deadline)
    return progress.read(end[progress.partition].offset, deadline)


def holds_progress(
    client: Client, topic: Topic, looked: dict[int, int], deadline: Deadline | None = None
) -> bool | None:
    """Return whether a topic keeps progress, whatever its name: its first record shows it. None where it never had one.

    A log that is empty and does not begin at 0 had rows, which retention took: a progress topic is compacted, and keeps
    its beginning. ``looked`` is kept from look to look: up to where each partition holds markers alone, which are not
    read again. A topic of fewer partitions than a progress topic must have is none, and is not read. A partition
    without a leader is waited for; raises :class:`~semel.errors.Retriable` if none comes.
    """
    if len(topic.partitions) < PARTITIONS:
        return False
    deadline = deadline or client.deadline()
    partitions = [(topic.name, index) for index in topic.partitions]
    starts, ends = (
        list_offsets(client, dict.fromkeys(partitions, which), read_committed=False, deadline=deadline)
        for which in (EARLIEST, LATEST)
    )
    for partition in partitions:
        start = max(starts[partition].offset, looked.get(partition[1], 0))
        record = first_record(client, partition, start, ends[partition].offset, deadline)
        if record is not None:
            return is_progress_key(record.key)
        looked[partition[1]] = ends[partition].offset
    return False if any(row.offset for row in starts.values()) else None
