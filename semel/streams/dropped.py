"""The count of the records that nodes drop, as Kafka Streams' metric ``dropped-records-total``."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

__all__ = ["DroppedRecords"]

log = logging.getLogger("semel.streams")


class DroppedRecords:
    """Counts by the node's name. One application in one process has one."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self._logged: set[tuple[str, str]] = set()

    def count(self, node: str, number: int, what: str) -> None:
        """Count ``number`` records that a node drops; ``what`` says in words which they are. The first ones of a kind
        are logged.
        """
        if not number:
            return
        self.total[node] += number
        if (node, what) not in self._logged:
            self._logged.add((node, what))
            log.warning("%s dropped %d %s. Later ones are counted, and not logged.", node, number, what)

    def mark(self) -> Callable[[], None]:
        """Return a function that takes back what is counted from now on."""
        before = dict(self.total)

        def take_back() -> None:
            self.total.clear()
            self.total.update(before)

        return take_back
