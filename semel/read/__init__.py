"""Reading topics into Arrow (DESIGN section 2).

- ``plan``: ranges of offsets, and how they are shared out among tasks.
- ``position``: where to start and end: earliest, latest, offsets, a time, a group's offsets.
- ``loss``: what of a range is gone, and whether that stops the reader.
- ``visible``: which fetched batches a reader may see.
- ``columns``: decoded records in the columns of Spark's ``kafka`` source.
- ``partition``: one partition on its way through its range.
- ``fetch``: the reader: ranges in, Arrow record batches out.
- ``journal``: one partition raw, records and markers, for reading progress.
- ``verification``: whether each id is there once, and what is missing against another topic.
- ``ids``: where a record's id stands.
- ``spill``: ids on disk, by their hash, so that memory stays bounded.
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
