"""The fetched batches that a reader may see (KIP-98; DESIGN section 2).

To a read_committed reader the broker sends nothing beyond the last stable offset. It adds a list of the transactions
that were aborted in that stretch: (producer id, first offset). A producer has one transaction at a time on a partition,
so its rows are aborted from the first offset on until its next ABORT marker. Markers are never rows, but they take
offsets: the caller moves its position after them.

The function is pure. It carries no state from one Fetch to the next, since each answer lists all transactions that
reach into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from semel.records.header import BatchHeader

__all__ = ["visible"]


def visible(
    batches: Iterable[BatchHeader],
    aborted: Sequence[tuple[int, int]],
    is_abort: Callable[[BatchHeader], bool],
    *,
    read_committed: bool,
) -> list[BatchHeader]:
    """Return the batches of one fetched partition whose rows a reader may see, in order.

    ``aborted`` may be in any order. ``is_abort(batch)`` returns True for an ABORT marker. It is called only if the
    answer matters.
    """
    if not read_committed or not aborted:
        return [batch for batch in batches if not batch.control]
    coming = sorted(aborted, key=itemgetter(1), reverse=True)
    open_producers: set[int] = set()
    kept: list[BatchHeader] = []
    for batch in batches:
        while coming and coming[-1][1] <= batch.last_offset:
            open_producers.add(coming.pop()[0])
        if batch.control:
            if batch.producer_id in open_producers and is_abort(batch):
                open_producers.discard(batch.producer_id)
        elif not (batch.transactional and batch.producer_id in open_producers):
            kept.append(batch)
    return kept
