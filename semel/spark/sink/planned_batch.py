"""The micro-batch that Spark has planned, in positions of its sources."""

from __future__ import annotations

from dataclasses import dataclass

from semel.transaction.progress.record import KafkaSource, Source

__all__ = ["PlannedBatch", "SourceBatch"]


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """One source of the batch at hand.

    ``start`` is the end of the batch before, and ``began`` for what that end lacks; None for a new source that is not
    semel's. ``end`` is this batch's; None for a named source that this batch knows nothing of yet. ``began`` is None
    for sources that are not semel's.
    """

    name: str | None
    start: Source | None
    end: Source | None
    began: KafkaSource | None


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The micro-batch that Spark has planned: N of a query, with its sources in the order of the query."""

    query: str
    batch: int
    stateful: bool
    sources: tuple[SourceBatch, ...]

    @property
    def starts(self) -> tuple[Source, ...]:
        """The start of each source in this batch, as far as it is known."""
        return tuple(source.start for source in self.sources if source.start is not None)

    @property
    def ends(self) -> tuple[Source, ...]:
        """The end of each source in this batch: the ``sources`` of its progress record."""
        return tuple(source.end for source in self.sources if source.end is not None)
