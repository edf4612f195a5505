"""Ranges of offsets to read, and their split into tasks (DESIGN sections 2 and 7).

:func:`split` works as ``minPartitions`` in Spark's ``kafka`` source. Several tasks read a split range, so its rows come
in no promised order (DESIGN rule 11). A split never changes the set of rows.
"""

from __future__ import annotations

import base64
import math
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from semel.errors import ConfigError
from semel.wire.metadata import TopicPartition

__all__ = ["NO_END", "Range", "id_text", "parse_id", "split"]

#: The end of a range that is followed without end.
NO_END = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets ``start`` to ``end`` of one partition, the second exclusive. ``topic_id`` is the topic's id as Kafka
    prints it (22 characters of base64).

    ``epoch`` is the leader epoch in which the log was seen to reach the end, or the start of a followed range. It is -1
    if not known.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    epoch: int = -1

    @property
    def size(self) -> int:
        """The number of offsets. Rows are at most as many: markers, aborted rows and compaction leave offsets empty."""
        return self.end - self.start

    @property
    def bounded(self) -> bool:
        """True if the range has an end."""
        return self.end != NO_END

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition as (topic, index)."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """The partition in messages: ``orders-0``."""
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        return f"{self.name} [{self.start}, {self.end if self.bounded else '…'})"


def id_text(topic_id: uuid.UUID) -> str:
    """Return a topic's id as Kafka's own tools print it."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


@lru_cache(maxsize=4_096)  # each Fetch asks for each of its partitions
def parse_id(text: str) -> uuid.UUID:
    """Return the topic id of such a text: the inverse of :func:`id_text`. Raise :class:`ConfigError` if it is no topic
    id.
    """
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except ValueError:
        raise ConfigError(f"{text!r} is no topic id (22 characters of base64). Nothing was read.") from None


def split(ranges: Iterable[Range], min_partitions: int | None = None) -> list[Range]:
    """Cut large ranges into equal parts until there are about ``min_partitions``. Each range gets parts by its share of
    all offsets.

    Empty ranges are left out. Ranges stay in order, and so do their parts. Rounding can give a few more or fewer, as in
    Spark.
    """
    filled = [one for one in ranges if one.size > 0]
    if min_partitions is None or len(filled) >= min_partitions:
        return filled
    total = sum(one.size for one in filled)
    # Ranges too small to be cut take one part each; the others share the rest by their size.
    whole = {one for one in filled if _share(one.size, total, min_partitions) == 1}
    cut_total = total - sum(one.size for one in whole)
    cut_parts = max(min_partitions - len(whole), 1)
    parts: list[Range] = []
    for one in filled:
        parts += [one] if one in whole else _cut(one, _share(one.size, cut_total, cut_parts))
    return parts


def _share(size: int, total: int, parts: int) -> int:
    return max(math.floor(size / total * parts + 0.5), 1)


def _cut(whole: Range, parts: int) -> list[Range]:
    pieces: list[Range] = []
    start = whole.start
    for left in range(parts, 0, -1):
        end = start + (whole.end - start) // left
        if end > start:
            pieces.append(replace(whole, start=start, end=end))
        start = end
    return pieces
