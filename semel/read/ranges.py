"""What to read: ranges of offsets, and how they are shared out among tasks (DESIGN sections 2 and 7).

:func:`split` does what ``minPartitions`` does in Spark's ``kafka`` source. A split range is read by several tasks, so
its rows come in no promised order (DESIGN rule 11); it never changes which rows are read.
"""

from __future__ import annotations

import base64
import math
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace

from semel.errors import ConfigError
from semel.wire.metadata import TopicPartition

__all__ = ["NO_END", "Range", "id_text", "parse_id", "split"]

#: The end of a range that is followed for ever.
NO_END = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets ``start`` to ``end`` of one partition, the second exclusive. ``topic_id`` is Kafka's text of it (22
    characters of base64).

    ``epoch`` is the leader epoch in which the log was seen to reach the end, or the start of a followed range; -1 where
    it is not known.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    epoch: int = -1

    @property
    def size(self) -> int:
        """How many offsets; rows are at most as many, since markers, aborted rows and compaction leave offsets
        empty.
        """
        return self.end - self.start

    @property
    def bounded(self) -> bool:
        """Whether it has an end."""
        return self.end != NO_END

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition, as other modules name it."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """The partition, as people name it."""
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        return f"{self.name} [{self.start}, {self.end if self.bounded else '…'})"


def id_text(topic_id: uuid.UUID) -> str:
    """A topic's id as Kafka's own tools print it."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def parse_id(text: str) -> uuid.UUID:
    """The inverse of :func:`id_text`. Raises :class:`ConfigError` for what is no topic id."""
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except ValueError:
        raise ConfigError(f"{text!r} is no topic id (22 characters of base64). Nothing was read.") from None


def split(ranges: Iterable[Range], min_partitions: int | None = None) -> list[Range]:
    """Cut large ranges until there are about ``min_partitions``, each into equal parts, by their share of all offsets.

    Empty ranges are left out. Ranges stay in their order, and so do the parts of one. Rounding can give a few more or
    fewer, as in Spark.
    """
    filled = [one for one in ranges if one.size > 0]
    if min_partitions is None or len(filled) >= min_partitions:
        return filled
    total = sum(one.size for one in filled)
    # Ranges too small to be cut take one part each; what is left of the parts is shared among the others by their size.
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
