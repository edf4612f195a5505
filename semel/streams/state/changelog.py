"""Restoring stores from their changelog topics, and when what lies on the disk is not to be believed.

By the time a task is opened, nothing that its predecessor did is open any more: the group's positions were read once
they were stable. What the changelog has up to its end then is all that was ever committed. A store that is behind reads
the rest; one that says more than its changelog, belongs to another topic, or has been away for so long that compaction
may have removed deletions that it does not know of, is thrown away and restored from the beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from semel.errors import ConfigError, DataLoss, Retriable
from semel.read.data_loss import newest_ends
from semel.read.ranges import NO_END, Range, id_text
from semel.read.reader import Reader
from semel.streams.clock import now_ms
from semel.streams.state.backend import Position
from semel.streams.state.state_store import StateStore
from semel.wire.api.offsets import EARLIEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["BATCH_ROWS", "Restore", "read_ranges", "restores"]

log = logging.getLogger("semel.streams")

#: A deletion stays in a compacted topic for 24 hours (delete.retention.ms); an hour is for clocks that differ.
_AWAY_MS = 23 * 3_600_000
#: Records that are put into a store at once.
BATCH_ROWS = 16_384


@dataclass(eq=False)
class Restore:
    """A store on its way to the end of its changelog partition. ``end`` is ``NO_END`` for a standby task's store."""

    partition: TopicPartition
    store: StateStore
    topic_id: str
    #: Where to read on.
    position: int
    end: int
    #: Records that were read.
    count: int = 0
    #: Offsets that are left, or None if that is not known yet.
    lag: int | None = None
    #: When all deletions after the position were still in the changelog, by the clock.
    fresh_ms: int = field(default_factory=now_ms)
    #: When the store was written as one that is at the end.
    written_ms: int = 0

    @property
    def range(self) -> Range:
        """What is left to read."""
        topic, index = self.partition
        return Range(topic, self.topic_id, index, self.position, self.end)

    @property
    def follows(self) -> bool:
        """True if it has no end."""
        return self.end == NO_END

    def take(self, rows: Any, position: int) -> None:
        """Put records of the changelog into the store, up to ``position``."""
        self.store.restore(rows, self.topic_id, position)
        self.position = position
        self.count += rows.num_rows

    def reach(self, position: int) -> None:
        """Take note that the store has all up to ``position``, where its changelog ends: also after markers."""
        self.store.apply(self.topic_id, position, self.fresh_ms)
        self.position, self.written_ms = position, self.fresh_ms

    def check_fresh(self) -> None:
        """Raise :class:`Retriable` if it was not read for so long that deletions may be compacted away: a process was
        frozen. The store is thrown away at the next start, by the age of its position.
        """
        away = now_ms() - self.fresh_ms
        if away > _AWAY_MS:
            raise Retriable(
                f"{self.range.name} was not read for {away // 3_600_000} hours, and deletions in it may be compacted"
                " away. Nothing was read. The worker starts again, and restores the store."
            )


def restores(
    client: Client,
    stores: Mapping[TopicPartition, StateStore],
    begun: Collection[TopicPartition] = frozenset(),
    *,
    follow: bool = False,
) -> list[Restore]:
    """Return what each store has to read of its changelog partition: those that are at its end are left out, unless
    they ``follow`` it. ``begun`` are those of tasks whose input the group has read of.

    Raises :class:`DataLoss` for a changelog that was made again, empty, under what had begun, and :class:`ConfigError`
    for a store that was written by another aggregation.
    """
    if not stores:
        return []
    known = client.topics({topic for topic, _ in stores})
    ids = {topic: id_text(known[topic].id) for topic, _ in stores}
    begins = list_offsets(client, dict.fromkeys(stores, EARLIEST), read_committed=False)
    ends = newest_ends(client, stores)
    planned = []
    for (topic, index), store in stores.items():
        end = ends[topic, index]
        if (topic, index) in begun and not end:
            _check_not_made_again(store, f"{topic}-{index}", ids[topic])
        _check_holds(store, f"{topic}-{index}", ids[topic])
        start = _start(store, f"{topic}-{index}", ids[topic], begins[topic, index].offset, end)
        if follow:
            planned.append(Restore((topic, index), store, ids[topic], start, NO_END, lag=end - start))
        elif start < end:
            planned.append(Restore((topic, index), store, ids[topic], start, end, lag=end - start))
    return planned


def _check_not_made_again(store: StateStore, name: str, topic_id: str) -> None:
    there = store.position
    if there is not None and there.offset and there.topic_id != topic_id:
        raise DataLoss(
            f"the changelog {name} was deleted and made again: it is empty, and the store {store.spec.name!r} is of the"
            " one before, with input that the group has read. Nothing was read: it would be counted from 0. Begin again"
            " from the input: `semel streams reset`, and delete the state's folder on each machine.",
            tag="CHANGELOG_GONE",
        )


def _check_holds(store: StateStore, name: str, topic_id: str) -> None:
    """Check what the folder's store holds. One of an earlier changelog is thrown away, whatever it holds."""
    there, now = store.position, store.spec.holds
    if there is not None and there.topic_id == topic_id and there.holds and there.holds != now:
        raise ConfigError(
            f"the store {store.spec.name!r} of {name} holds {there.holds}, and the topology now wants {now} in it."
            " Nothing was read. (1) Restore the former aggregation. (2) Take another application.id. (3) Begin again,"
            " which writes the output again: `semel streams reset`.",
            tag="OTHER_STORE",
        )


def _start(store: StateStore, name: str, topic_id: str, begin: int, end: int) -> int:
    """Return where to read on. A damaged store is deleted."""
    there = store.position
    if there is None and store.empty:
        return begin
    reason = _unbelievable(there, topic_id, begin, end) if there else "it has entries, and no position"
    if there and not reason:
        return there.offset
    log.warning("the store %r is thrown away, and restored from %s: %s", store.spec.name, name, reason)
    store.clear()
    return begin


def _unbelievable(there: Position, topic_id: str, begin: int, end: int) -> str:
    if there.topic_id != topic_id:
        return f"it was written for another topic of that name, {there.topic_id}"
    if there.offset > end:
        return f"it says {there.offset}, and the changelog ends at {end}"
    if there.offset < begin:
        return f"it says {there.offset}, and the changelog begins at {begin}"
    away = now_ms() - there.written_ms
    if there.offset < end and away > _AWAY_MS:
        return f"it was last written {away // 3_600_000} hours ago, so deletions may have been compacted away"
    return ""


def read_ranges(client: Client, ranges: list[Range], take: Callable[[TopicPartition, Any, int], None]) -> int:
    """Give the committed rows of all ranges to ``take``, with their partition and the position after them. Return how
    many there were.
    """
    count = 0
    with Reader(client, ranges, read_committed=True, advice="reset the application") as reader:
        for taken in reader.answers():
            for rows in taken:
                for batch, position in rows.decode(headers=False, max_rows=BATCH_ROWS):
                    take(rows.part.range.topic_partition, batch, position)
                    count += batch.num_rows
    return count
