"""The partitions of one transaction: checked, then added to it (PROTOCOL 3, steps 2 and 3).

The owner adds them by AddPartitionsToTxn before a participant writes. For one participant alone, their leaders do so
with its first rows (KIP-890): then only partitions with rows get a marker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from semel.transaction.markers.wait import HealCallback, wait_for_markers
from semel.transaction.ownership import Ownership
from semel.wire.api.describe_transactions import describe
from semel.wire.api.transactions import add_partitions
from semel.wire.metadata import TopicPartition

__all__ = ["TransactionPartitions"]

_ID_UNKNOWN = 49


class TransactionPartitions:
    """``on_expired`` takes the id over again, if it has expired unused; it raises if that is not allowed."""

    def __init__(self, own: Ownership, heal: HealCallback, on_expired: Callable[[], None]) -> None:
        self._own, self._heal, self._on_expired = own, heal, on_expired
        #: What the owner has added.
        self.added: set[TopicPartition] = set()
        #: What a participant may have added by its rows. Its receipt says which.
        self._by_writer: set[TopicPartition] = set()
        #: Who led the partitions before anything was written to them.
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        #: Whether the coordinator may have heard of this transaction.
        self.asked = False

    def add(self, partitions: Collection[TopicPartition], *, by_writer: Collection[TopicPartition] = ()) -> int:
        """Add partitions that are not in the transaction yet. Those of ``by_writer`` are checked only: a participant
        adds them. Return the coordinator's code, 0 if all is well.

        Raises what :func:`~semel.transaction.markers.wait.wait_for_markers` raises, for what former owners left there:
        the end of this transaction would settle it.
        """
        wanted, written = set(partitions) - self.added, set(by_writer) - self._by_writer
        if wanted or written:
            self._check(wanted | written)
        self._by_writer |= written
        own, code = self._own, 0
        if wanted:
            code = self.unless_expired(lambda: add_partitions(own.client, own.identity, wanted, own.deadline()))
        if not code:
            self.added |= wanted
        return code

    def _check(self, partitions: set[TopicPartition]) -> None:
        own = self._own
        self.leaders.update(own.client.leaders(partitions, own.deadline()))
        self.asked = True  # before the look: where that stops, the abort after it asks whether another owner is here
        first_time = partitions - own.checked_partitions
        if first_time:
            wait_for_markers(
                own.client,
                first_time,
                own.identity,
                own.previous_producer_ids,
                last_offsets={},
                deadline=own.deadline(),
                heal=self._heal,
            )
            own.checked_partitions |= first_time

    def unless_expired(self, ask: Callable[[], int]) -> int:
        """Return the code that ``ask`` returns. If the id has expired unused, take it over again, and ask once more
        (PROTOCOL 4, row 49).
        """
        self.asked = True
        own, code = self._own, ask()
        if code == _ID_UNKNOWN and not self.added and describe(own.client, own.transactional_id) is None:
            self._on_expired()
            own.begin()
            code = ask()
        return code

    def due(self, last_offsets: Mapping[TopicPartition, int], *, committed: bool) -> frozenset[TopicPartition]:
        """Return where markers are due: after a commit where rows are, after an abort also where they may be."""
        return frozenset(self.added | (last_offsets.keys() if committed else self._by_writer))
