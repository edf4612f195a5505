"""The count of the records that nodes drop, as Kafka Streams' metric ``dropped-records-total``."""

from __future__ import annotations

import logging
from collections import Counter

__all__ = ["DroppedRecords"]

log = logging.getLogger("semel.streams")


class DroppedRecords:
    """Counts by the node's name. One application in one process has one."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()

    def count(self, node: str, number: int, what: str) -> None:
        """Count and log ``number`` records that a node drops; ``what`` says in words which they are."""
        if number:
            self.total[node] += number
            log.warning("%s dropped %d %s (%d so far in this process)", node, number, what, self.total[node])
