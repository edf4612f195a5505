"""The count of a session's timeouts in a row for one batch."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from semel.wire.metadata import TopicPartition

__all__ = ["ExpiryWatch"]

log = logging.getLogger("semel.transaction")


class ExpiryWatch:
    """A batch that takes longer than the timeout is aborted each time: that is said, from the second time on."""

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id
        self._began: dict[TopicPartition, int] = {}
        self._expired_at: dict[TopicPartition, int] = {}

    def began(self, positions: Mapping[TopicPartition, int]) -> None:
        """Take note that the next transaction begins there, as far as these partitions go."""
        self._began.update(positions)

    def forget(self) -> None:
        """Forget all positions: nothing is assigned any more."""
        self._began = {}

    def expired(self, read: Mapping[TopicPartition, int]) -> None:
        """Take note that the transaction that had ``read`` as far as this has timed out."""
        began = {partition: at for partition, at in self._began.items() if read[partition] != at}
        if began and began == self._expired_at:
            first, at = min(began.items())
            log.warning(
                "session %r: the transaction that begins at offset %d of %s-%d has timed out again. Nothing of it is"
                " visible, and its rows are handed out once more. Commit more often, take fewer rows at a time"
                " (max_poll_records), or raise transaction.timeout.ms.",
                self._transactional_id,
                at,
                *first,
            )
        self._expired_at = began
