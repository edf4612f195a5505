"""The outcome of an id's former transaction, by what it left behind (PROTOCOL 5.3).

Used when a marker was lost: the rows are open, and their partition does not show how the transaction ended. The marker
must repeat the coordinator's decision. But the coordinator does not remember it: it knows only the newest transaction
of an id.

Not promised: an answer. If both data and progress have lost their marker, and the owner died before it recorded the
outcome, the outcome is unknown, and the caller stops.
"""

from __future__ import annotations

from semel.read.raw_log import end_after, written_by
from semel.transaction.progress.log import ProgressLog, ProgressRecord
from semel.wire.api.describe_transactions import OpenTransaction
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition

__all__ = ["outcome_of_open_rows", "transaction_outcome"]


def transaction_outcome(
    client: Client, producer_id: int, epoch: int, settled: ProgressLog, current: int | None, deadline: Deadline
) -> bool | None:
    """Return whether the transaction of this pair was committed, or None if nothing shows it.

    ``settled`` is what was read of the prefix's progress up to a claim, ``current`` the producer id that its
    transactional id has now, or None if it is unknown.
    """
    written_down = settled.decided_of(producer_id, epoch)
    if written_down is not None:
        return written_down
    own = [record for record in settled.everything if (record.producer_id, record.epoch) == (producer_id, epoch)]
    if own:
        newest = max(own, key=lambda record: record.offset)
        return newest.committed if newest.committed is not None else _by_its_rows(client, newest, deadline)
    # progress is written last, so without a record nothing was committed. But compaction drops a record after a newer
    # one; and without any record, the writer of these rows may keep no progress, or keep it in another topic. A claim
    # shows nothing here: every owner leaves one
    written = [record for record in settled.everything if not record.progress.moved]
    if not written or any(_newer(record, producer_id, epoch, current) for record in written):
        return None
    return False


def outcome_of_open_rows(
    client: Client,
    partition: TopicPartition,
    opened: OpenTransaction,
    settled: ProgressLog,
    current: int | None,
    deadline: Deadline,
) -> bool | None:
    """Return the same of rows that are open on a partition.

    The leader tells the epoch of the last ones; where the first have another, nothing tells.
    """
    if written_by(client, partition, opened.start_offset, deadline) != (opened.producer_id, opened.epoch):
        return None  # two transactions lie in one
    return transaction_outcome(client, opened.producer_id, opened.epoch, settled, current, deadline)


def _newer(record: ProgressRecord, producer_id: int, epoch: int, current: int | None) -> bool:
    """Return whether the record may be of a later transaction than the pair's.

    Producer ids are not in order: brokers give them out in blocks.
    """
    if record.producer_id == producer_id:
        return record.epoch > epoch
    return producer_id != current


def _by_its_rows(client: Client, record: ProgressRecord, deadline: Deadline) -> bool | None:
    """Return the outcome by a marker after any row that the progress record names: it counts for all of them. The
    record has lost its own marker.
    """
    for topic, parts in sorted(record.progress.wrote.items()):
        topics = client.existing({topic}, deadline)
        for index, (_, last) in sorted(parts.items()):
            if topic in topics and index in topics[topic].partitions:
                end_marker = end_after(client, (topic, index), record.producer_id, last, deadline)
                if end_marker is not None:
                    return end_marker.commit
    return None
