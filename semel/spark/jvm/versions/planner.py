"""What a stream reader of any version of Spark asks of semel: a planner of micro-batches, and the limits of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql.datasource import InputPartition

__all__ = ["BatchPlanner", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a micro-batch in offsets. ``delay_ms`` is the longest wait if there are too few."""

    most: int | None
    least: int | None
    delay_ms: float


class BatchPlanner(Protocol):
    """Plans the batches of one run, and reads them in tasks. Offsets are dictionaries, as Spark carries them."""

    @property
    def limits(self) -> Limits:
        """The limits of the options."""

    def initial(self) -> dict[str, Any]:
        """Return where a new query starts: the same at each call."""

    def next_end(self, start: dict[str, Any], limits: Limits) -> dict[str, Any]:
        """Return where a batch from ``start`` ends."""

    def reported(self) -> dict[str, Any] | None:
        """Return where the topics ended when the last batch was planned."""

    def freeze(self) -> None:
        """Take what is there now as all there is."""

    def tasks(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one task."""

    def close(self) -> None:
        """Close the connections."""

    def sealed(self) -> tuple[object, ...]:
        """Return what travels to tasks in place of the reader, as ``__reduce__`` does."""
