"""Records that a sink refuses: which one, why, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from semel.connect.sink_api import TopicPartition
from semel.errors import ConfigError

__all__ = ["MISFITS", "RecordRefused", "first_refused", "locating"]

#: Arrow's errors for values that do not fit a type. The second one is no ``ValueError``.
MISFITS = (ValueError, pa.ArrowNotImplementedError)


class RecordRefused(Exception):
    """Refusal of a record, where only its row is known. :func:`locating` turns it into an error for users.

    ``row`` counts from 0 among the records at hand. It is None if it is one of them, and not known which.
    """

    def __init__(self, what: str, remedy: str, row: int | None = 0) -> None:
        super().__init__(what)
        self.what, self.remedy, self.row = what, remedy, row


@contextmanager
def locating(partition: TopicPartition, offsets: Any) -> Iterator[None]:
    """Turn a :class:`RecordRefused` into :class:`ConfigError` that names the topic, the partition and the offset.

    ``offsets`` is the column of the offsets of the records at hand.
    """
    try:
        yield
    except RecordRefused as refused:
        topic, index = partition
        if refused.row is None and len(offsets) > 1:
            place = f"one of the records at offsets {offsets[0]} to {offsets[-1]}"
        else:
            place = f"the record at offset {offsets[refused.row or 0]}"
        raise ConfigError(
            f"{place} of {topic}-{index} was refused: {refused.what}. The record was not put into the target."
            f" {refused.remedy}",
            tag="SINK_RECORD",
        ) from refused.__cause__


def first_refused(count: int, fits: Callable[[int], Any], error: Exception) -> tuple[int, Exception]:
    """Return the row that is at fault, of ``count`` rows that do not fit, and the error for it.

    ``fits`` takes a number of rows, from the first one on, and raises one of :data:`MISFITS` if one of them does not
    fit. ``error`` is that for all rows, which may be about a later one.
    """
    low, high = 0, count  # low rows fit, high rows do not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            fits(middle)
        except MISFITS as earlier:
            high, error = middle, earlier
        else:
            low = middle
    return low, error
