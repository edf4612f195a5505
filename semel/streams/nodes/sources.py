"""The work of sources: the types of their serdes, and the timestamps of their rows.

A record's timestamp decides which record of a task is next, so an extractor is asked when rows are read, before they
are handed out. Kafka Streams' own extractors work on whole batches; a function of single records is called for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from semel.errors import ConfigError
from semel.serdes.serde import decode
from semel.streams.clock import now_ms
from semel.streams.rows import Record, calling, misfit, one_by_one, place, records, times, timestamps
from semel.streams.topology.node import EXTRACTORS, Source
from semel.streams.topology.topology import Topology

__all__ = ["TimestampExtraction", "decoded"]

_FAIL, _SKIP, _PARTITION_TIME, _CLOCK = EXTRACTORS


def decoded(node: Source, rows: Any) -> Any:
    """Return the rows in the types of the source's serdes. Headers stay if a row has some."""
    has_headers = "headers" in rows.schema.names and len(rows["headers"].flatten())
    columns = {name: rows[name] for name in rows.schema.names if name != "headers" or has_headers}
    columns["key"] = _column(rows, "key", node.key)
    if node.unpack is not None:
        columns.update(node.unpack(columns.pop("value")))
    else:
        columns["value"] = _column(rows, "value", node.value)
    return pa.RecordBatch.from_pydict(columns)


def _column(rows: Any, name: str, serde: Any) -> Any:
    try:
        return decode(rows[name], serde)
    except (ValueError, pa.ArrowException):
        raise misfit(rows, rows[name], serde, f"the {name}", decode) from None


class TimestampExtraction:
    """Gives the rows of one partition their timestamps, in the order in which they are read.

    Its partition time is the highest timestamp so far. A new start begins without one.
    """

    def __init__(self, topology: Topology, node: Source, clock: Callable[[], int] = now_ms) -> None:
        self._topology, self._node, self._clock = topology, node, clock
        # a repartition topic has what this application has written there
        self._extractor = _FAIL if node.internal else node.extractor or topology.extractor
        self._partition_time = -1

    def __call__(self, rows: Any) -> Any:
        """Return the rows with their timestamps, without those that are skipped.

        Raises :class:`ConfigError` for a timestamp below 0 that is not skipped, and where a function fails.
        """
        if not rows.num_rows:
            return rows
        given = times(rows)
        found = given if isinstance(self._extractor, str) else self._called(rows, given)
        if self._extractor == _CLOCK:
            found = np.full(len(given), self._clock(), np.int64)
        elif self._extractor == _PARTITION_TIME:
            highest = np.maximum.accumulate(np.maximum(given, self._partition_time))
            found = np.where(given < 0, highest, given)
        wrong = found < 0
        if wrong.any() and self._extractor in (_FAIL, _PARTITION_TIME):
            raise self._invalid(rows, int(np.flatnonzero(wrong)[0]))
        self._partition_time = max(self._partition_time, int(found.max()))
        if found is not given:
            at = rows.schema.get_field_index("timestamp")
            rows = rows.set_column(at, "timestamp", timestamps(found).cast(rows.schema.field(at).type))
        self._topology.dropped.count(self._node.name, int(wrong.sum()), "rows without a timestamp")
        return rows.filter(pa.array(~wrong)) if wrong.any() else rows

    def _called(self, rows: Any, given: Any) -> Any:
        """Return what the function says, record by record. A record that does not fit keeps its time, where its task
        leaves such records out.
        """
        try:
            read = list(self._records(rows))
        except ConfigError:
            if not self._topology.handlers.reads_on:
                raise
            read = [one for row in one_by_one(rows) for one in self._readable(row)]
        found, latest = [], self._partition_time
        for record, own in zip(read, given.tolist(), strict=True):
            found.append(own if record is None else self._asked(record, latest))
            latest = max(latest, found[-1])
        return np.array(found, np.int64)

    def _records(self, rows: Any) -> Any:
        return records(decoded(self._node, rows), self._node.key, self._node.value)

    def _readable(self, row: Any) -> list[Record | None]:
        try:
            return list(self._records(row))
        except ConfigError:
            return [None]

    def _asked(self, record: Record, latest: int) -> int:
        assert not isinstance(self._extractor, str)
        name = f"the timestamps of {self._node.name}"
        found = calling(self._extractor, name, record, record, latest)
        if isinstance(found, bool) or not isinstance(found, int):
            raise ConfigError(
                f"the function of {name} returned {found!r:.60} at {record.topic}-{record.partition} at offset"
                f" {record.offset}, and no number. Nothing of this transaction is visible. Return milliseconds.",
                tag="USER_FUNCTION",
            )
        return found

    def _invalid(self, rows: Any, at: int) -> ConfigError:
        return ConfigError(
            f"the record {place(rows, at)} has no timestamp that is 0 or later. Nothing of this transaction is visible."
            f" Set default.timestamp.extractor={_SKIP} to drop such records, or give timestamp_extractor a function.",
            tag="NO_TIMESTAMP",
        )
