"""A listener of a session: it keeps something beside the partitions that are assigned."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from semel.transaction.session.inputs import RowOrder
from semel.wire.metadata import TopicPartition

__all__ = ["AssignmentListener"]


class AssignmentListener(Protocol):
    """A listener that keeps something beside the partitions that a session reads. It is called in the thread that
    polls.
    """

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Before the first row of these is handed out, once nothing that a predecessor did is open any more."""

    def abandoned(self) -> None:
        """All that was not committed is gone, and so is the assignment."""

    @property
    def row_order(self) -> RowOrder:
        """How rows are handed out."""
