"""Records as they were read become a :class:`SinkBatch`: converted, transformed, and in their order.

Neighbours of one schema are one table. A transformation takes columns where they have schemas, and else each record by
itself: what becomes of a record does not depend on its neighbours.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.sink_api import SinkBatch, records_of
from semel.connect.sinks.reader import ReadBatch
from semel.connect.transforms.record import Data, Record
from semel.errors import ConfigError, Retriable
from semel.records.record_headers import headers_column
from semel.serdes.columns import is_json, whole
from semel.serdes.registry.errors import RegistryUnusable
from semel.serdes.schemas import Schema
from semel.serdes.schemas.runs import Run, run_of
from semel.wire.backoff import Backoff

__all__ = ["BadRecord", "Batches"]

log = logging.getLogger("semel.connect")

_FIRST_RETRY_S = 0.3
#: What errors of the parts that sources share say, and what it means for a sink.
_OF_A_POLL, _OF_A_SINK = "Nothing of this poll is visible.", "The record was not put into the target."
_TIME = pa.timestamp("ms")


class BadRecord(NamedTuple):
    """A record that is left out: as it was read, where it failed, and why."""

    row: Any
    stage: str
    class_name: str
    error: BaseException


class _Stage(Exception):
    """A failure, and the stage and the class that it is of."""

    def __init__(self, stage: str, class_name: str, error: ConfigError) -> None:
        super().__init__(error.message)
        self.stage, self.class_name, self.error = stage, class_name, error


class Batches:
    """Makes batches for one task. ``left_out`` takes what cannot be converted, where that is tolerated."""

    def __init__(self, config: ConnectorConfig, task: int, left_out: Callable[[BadRecord], None]) -> None:
        self._config, self._task, self._left_out = config, task, left_out

    def batch(self, read: ReadBatch) -> SinkBatch:
        """Return the batch of records. Raise :class:`ConfigError` for what cannot be converted or transformed."""
        rows = pa.Table.from_batches([read.rows])
        if not self._config.tolerate_errors:
            try:
                tables = self._tried(rows)
            except _Stage as failed:
                raise self._located(failed, rows) from failed.error
            return SinkBatch(read.partition, tables, read.start, read.end)
        return SinkBatch(read.partition, list(self._tolerant(rows)), read.start, read.end)

    def _tolerant(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Convert rows; where that fails each half of them, so that only bad ones are looked at one by one."""
        try:
            yield from self._tried(rows)
        except _Stage as failed:
            if rows.num_rows == 1:
                self._left_out(BadRecord(rows, failed.stage, failed.class_name, failed.error))
                return
            middle = rows.num_rows // 2
            yield from self._tolerant(rows.slice(0, middle))
            yield from self._tolerant(rows.slice(middle))

    def _located(self, failed: _Stage, rows: pa.Table) -> ConfigError:
        """Return the error with the place of the first record that fails."""
        while rows.num_rows > 1:
            middle = rows.num_rows // 2
            try:
                self._tried(rows.slice(0, middle))
            except _Stage as first:
                failed, rows = first, rows.slice(0, middle)
            else:
                rows = rows.slice(middle)
        place = f"{rows['topic'][0]}-{rows['partition'][0]}, offset {rows['offset'][0]}"
        text = failed.error.message.replace(_OF_A_POLL, _OF_A_SINK)
        return ConfigError(f"task {self._config.name}-{self._task}, record of {place}: {text}", tag=failed.error.tag)

    # ---- conversion

    def _tried(self, rows: pa.Table) -> list[pa.Table]:
        """Convert, and try again while a registry is away, as long as errors.retry.timeout allows."""
        sink = self._config.sink
        assert sink is not None
        began, backoff = time.monotonic(), Backoff(_FIRST_RETRY_S, sink.retry_longest_ms / 1000)
        while True:
            try:
                return list(self._converted(rows))
            except Retriable:
                pause = backoff.next()
                passed_ms = (time.monotonic() + pause - began) * 1000
                if 0 <= sink.retry_timeout_ms < passed_ms:
                    raise
                time.sleep(pause)

    def _converted(self, rows: pa.Table) -> Iterator[pa.Table]:
        config, topic = self._config, str(rows["topic"][0])
        keys = _staged("KEY_CONVERTER", config.key.name, lambda: config.key.read(whole(rows["key"]), "key", topic))
        value = config.value
        values = _staged("VALUE_CONVERTER", value.name, lambda: value.read(whole(rows["value"]), "value", topic))
        columns = {
            "topic": rows["topic"],
            "partition": rows["partition"],
            "offset": rows["offset"],
            "timestamp": rows["timestamp"].cast(_TIME, safe=False),
            "headers": rows["headers"],
        }
        table = pa.table(columns)
        made = [
            _with_values(table.slice(start, stop - start), key, value)
            for start, stop, key, value in _runs(keys, values)
        ]
        if not config.chain.links:
            yield from made
            return
        yield from _staged("TRANSFORMATION", "transforms", lambda: self._transformed(topic, made))

    def _transformed(self, topic: str, tables: Sequence[pa.Table]) -> list[pa.Table]:
        changed = [one for table in tables for one in self._changed(topic, table)]
        return list(_in_order(changed))

    def _changed(self, topic: str, table: pa.Table) -> Iterator[pa.Table]:
        chain = self._config.chain
        if not chain.takes_tables or any(is_json(table.schema.field(name).type) for name in ("key", "value")):
            yield from _one_by_one(table, chain.change)
            return
        for there, rows in chain.apply(topic, table):
            named = pa.array([there], pa.string()).take(pa.array(np.zeros(rows.num_rows, np.int32)))
            yield rows.set_column(rows.schema.get_field_index("topic"), "topic", named)


def _staged(stage: str, class_name: str, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except RegistryUnusable:
        raise
    except ConfigError as error:
        raise _Stage(stage, class_name, error) from error


def _runs(keys: Sequence[Run], values: Sequence[Run]) -> Iterator[tuple[int, int, Run, Run]]:
    """Yield the places where neither the schema of the keys nor that of the values changes, with both columns."""
    ends = sorted({*_ends(keys), *_ends(values)})
    start = 0
    for stop in ends:
        yield start, stop, _slice(keys, start, stop), _slice(values, start, stop)
        start = stop


def _ends(runs: Sequence[Run]) -> list[int]:
    return [int(one) for one in np.cumsum([len(column) for _, column in runs])]


def _slice(runs: Sequence[Run], start: int, stop: int) -> Run:
    first = 0
    for field, column in runs:
        if start < first + len(column):
            return field, column.slice(start - first, stop - start)
        first += len(column)
    raise IndexError(start)


def _with_values(table: pa.Table, key: Run, value: Run) -> pa.Table:
    return table.append_column(key[0], key[1]).append_column(value[0], value[1])


def _in_order(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of tables in the order of their offsets. A predicate may have divided neighbours."""
    if len(tables) < 2:
        yield from tables
        return
    of = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
    offsets = np.concatenate([table["offset"].to_numpy() for table in tables])
    ordered = of[np.argsort(offsets, kind="stable")]
    taken = [0] * len(tables)
    for index, group in groupby(ordered.tolist()):
        count = sum(1 for _ in group)
        yield tables[index].slice(taken[index], count)
        taken[index] += count


# ---- one by one


@dataclass(frozen=True, slots=True)
class _Changed:
    """A record after its transformations, and where it was read."""

    partition: int
    offset: int
    record: Record

    @property
    def kind(self) -> tuple[str, Schema | None, Schema | None]:
        """What neighbours of one table have in common."""
        return self.record.topic, self.record.key.schema, self.record.value.schema


def _one_by_one(table: pa.Table, change: Callable[[Record], Record | None]) -> Iterator[pa.Table]:
    changed = []
    for one in records_of(table):
        key, value = Data(one.key_schema, one.key), Data(one.value_schema, one.value)
        made = change(Record(one.topic, key, value, one.partition, one.timestamp, one.headers, one.offset))
        if made is not None:
            changed.append(_Changed(one.partition, one.offset, made))
    for _, group in groupby(changed, lambda one: one.kind):
        yield _table(list(group))


def _table(changed: Sequence[_Changed]) -> pa.Table:
    records = [one.record for one in changed]
    topic, key_schema, value_schema = changed[0].kind
    table = pa.table(
        {
            "topic": pa.array([topic] * len(records), pa.string()),
            "partition": pa.array([one.partition for one in changed], pa.int32()),
            "offset": pa.array([one.offset for one in changed], pa.int64()),
            "timestamp": pa.array([one.timestamp for one in records], _TIME),
            "headers": headers_column([one.headers for one in records]),
        }
    )
    keys = run_of("key", key_schema, [one.key.value for one in records])
    return _with_values(table, keys, run_of("value", value_schema, [one.value.value for one in records]))
