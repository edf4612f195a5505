"""Check of ranges of offsets for rows: markers and aborted rows take offsets too, and no reader waits for them."""

from __future__ import annotations

from collections.abc import Sequence

from semel.errors import SemelError
from semel.read.ranges import Range
from semel.read.reader import Reader
from semel.wire.client import Client

__all__ = ["hold_rows"]


def hold_rows(client: Client, ranges: Sequence[Range], *, read_committed: bool) -> bool:
    """Return True if a reader would get a row of these ranges, by reading them until the first one.

    Meant for ranges of a few offsets. A range that cannot be read counts as rows: its real reader reports the error.
    """
    try:
        with Reader(client, ranges, read_committed=read_committed, timestamp_overflow="null") as reader:
            return any(batch.num_rows for batch in reader)
    except SemelError:
        return True
