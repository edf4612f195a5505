"""Hand an owner's identity to another process, which then ends its one transaction: task scope (DESIGN section 1).

Spark plans a batch in one process and commits it in another. The first takes the id over, and hands on what it knows.
From then on the second one is the owner: the first takes over again before it begins anything. Whoever takes the id
over later fences both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from semel.transaction.ownership import Ownership
from semel.transaction.progress.log import ProgressLog, ProgressRecord
from semel.transaction.states import Event
from semel.wire.api.transactions import Identity
from semel.wire.metadata import TopicPartition

__all__ = ["HandOver"]


@dataclass(frozen=True, slots=True)
class HandOver:
    """What the next process must know of an owner that has taken its id over. Picklable; holds no secret."""

    identity: Identity
    timeout_ms: int
    max_timeout_ms: int
    committed: ProgressRecord | None
    progress_log: ProgressLog
    progress_topic: UUID
    checked_partitions: frozenset[TopicPartition]
    groups_to_check: Mapping[str, frozenset[TopicPartition]]
    previous_producer_ids: frozenset[int]

    @classmethod
    def of(cls, own: Ownership) -> HandOver:
        """Take what ``own`` knows. It must take over again before it begins anything."""
        handed = cls(
            own.identity,
            own.timeout_ms,
            own.max_timeout_ms,
            own.committed,
            # how the transactions before it ended is needed where another owner comes: of its own key, and the newest
            ProgressLog(own.progress_log.records[-1:], own.progress_log.others[-1:]),
            own.progress.topic_id,
            frozenset({own.progress.partition} & own.checked_partitions),
            {group: frozenset(partitions) for group, partitions in own.groups_to_check.items()},
            own.previous_producer_ids,
        )
        own.states.move(Event.HANDED_OVER)
        return handed

    def give(self, own: Ownership) -> None:
        """Make ``own``, which is new, the owner."""
        own.states.move(Event.TAKING_OVER)
        own.identity, own.committed, own.progress_log = self.identity, self.committed, self.progress_log
        own.timeout_ms, own.max_timeout_ms = self.timeout_ms, self.max_timeout_ms
        own.progress.topic_id = self.progress_topic
        own.checked_partitions = set(self.checked_partitions)
        own.groups_to_check = {group: set(partitions) for group, partitions in self.groups_to_check.items()}
        own.previous_producer_ids = self.previous_producer_ids
        own.states.move(Event.TAKEN_OVER)
