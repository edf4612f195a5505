"""How a former transaction of an id ended, by what it left behind (PROTOCOL 5.3).

Asked where its marker was lost: the rows are there, open, and nothing on their partition says how they were meant to end. What is written here as
their end must be what the coordinator decided then, and it does not remember: its answers are about the newest transaction of an id alone.

Not promised: an answer. Where data and progress have both lost their marker and the owner died before it wrote down how it had ended them, nobody
knows, and the caller stops.
"""

from __future__ import annotations

from semel.read.journal import end_behind
from semel.transaction.progress import Recorded, Settled
from semel.wire.client import Client
from semel.wire.deadline import Deadline

__all__ = ["decide"]


def decide(client: Client, producer_id: int, epoch: int, settled: Settled, current: int, deadline: Deadline) -> bool | None:
    """Whether the transaction of this pair was committed; None where nothing tells.

    ``settled`` is what was read of the prefix's progress up to a claim of the owner's, ``current`` that owner's producer id.
    """
    for decided in settled.decided:
        if (decided.producer_id, decided.epoch) == (producer_id, epoch):
            return decided.committed
    own = [record for record in settled.everything if (record.producer_id, record.epoch) == (producer_id, epoch)]
    if own:
        newest = max(own, key=lambda record: record.offset)
        return newest.committed if newest.committed is not None else _by_its_rows(client, newest, deadline)
    # progress is written last, so without a record nothing was committed; yet compaction drops a record behind a newer one, and whoever has
    # never taken this id over with semel has written no progress at all
    if not settled.claimed or any(_newer(record, producer_id, epoch, current) for record in settled.everything):
        return None
    return False


def _newer(record: Recorded, producer_id: int, epoch: int, current: int) -> bool:
    """Whether the record may be of a later transaction than the pair's. Producer ids are not in order: brokers give them out in blocks."""
    if record.producer_id == producer_id:
        return record.epoch > epoch
    return producer_id != current


def _by_its_rows(client: Client, record: Recorded, deadline: Deadline) -> bool | None:
    """The progress record lost its marker too: a marker behind any of the rows that it names speaks for all of them."""
    for topic, parts in sorted(record.progress.wrote.items()):
        known = client.existing({topic}, deadline)
        for index, (_, last) in sorted(parts.items()):
            if topic in known and index in known[topic].partitions:
                found = end_behind(client, (topic, index), record.producer_id, last, deadline)
                if found is not None:
                    return found.commit
    return None
