"""Readers of topics into Arrow (DESIGN section 2).

- ``ranges``: ranges of offsets, and how they are split into tasks.
- ``start_offsets``: where to start and end: earliest, latest, offsets, a time, a group's offsets.
- ``data_loss``: the missing rows of a range, and the reader's reaction.
- ``isolation``: which fetched batches a reader may see.
- ``columns``: decoded records in the columns of Spark's ``kafka`` source.
- ``cursor``: the position of one partition on its way through its range.
- ``reader``: ranges in, Arrow record batches out.
- ``quiet_leaders``: the leaders that had no news for a standing reader.
- ``row_presence``: whether ranges hold any row; ``remaining``: how many records are left for a reader.
- ``raw_log``: one raw partition, records and markers; ``claimed_log``: a log up to a claim of its reader.
- ``internal_topic``: topics that semel keeps its own things in; ``matching``: topics that fit a pattern.
"""

from semel.read.columns import schema
from semel.read.data_loss import Checked, Loss, check_ranges
from semel.read.ranges import NO_END, Range, id_text, parse_id, split
from semel.read.reader import Reader
from semel.read.start_offsets import (
    AtOffsets,
    AtTimestamp,
    Committed,
    Earliest,
    EndSpec,
    Latest,
    StartSpec,
    resolve,
    topic_ranges,
)

__all__ = [
    "NO_END",
    "AtOffsets",
    "AtTimestamp",
    "Checked",
    "Committed",
    "Earliest",
    "EndSpec",
    "Latest",
    "Loss",
    "Range",
    "Reader",
    "StartSpec",
    "check_ranges",
    "id_text",
    "parse_id",
    "resolve",
    "schema",
    "split",
    "topic_ranges",
]
