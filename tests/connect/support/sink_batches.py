"""Batches for a sink's task, and a task without a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from semel.connect import Setting, SinkBatch, SinkContext
from semel.connect.connectors.sinks.sql import SqlSink, SqlSinkTask
from semel.records.record_headers import HEADERS

PARTITION = ("orders", 0)
KEY = pa.struct([pa.field("id", pa.int64(), nullable=False)])
VALUE = pa.struct([pa.field("name", pa.string()), pa.field("price", pa.decimal128(38, 2))])


def batch(rows: Sequence[tuple[Any, Any]], start: int = 0, value: Any = VALUE, key: Any = KEY) -> SinkBatch:
    """Return a batch of keys and values at the offsets from ``start`` on."""
    table = pa.table(
        {
            "topic": pa.array([PARTITION[0]] * len(rows), pa.string()),
            "partition": pa.array([0] * len(rows), pa.int32()),
            "offset": pa.array(range(start, start + len(rows)), pa.int64()),
            "timestamp": pa.array([0] * len(rows), pa.timestamp("ms")),
            "headers": pa.array([[]] * len(rows), HEADERS),
            "key": pa.array([one for one, _ in rows], key),
            "value": pa.array([one for _, one in rows], value),
        }
    )
    return SinkBatch(PARTITION, [table], start, start + len(rows))


def of(first: int, last: int) -> list[str]:
    """Return the names of numbered rows."""
    return sorted(f"n{n}" for n in range(first, last))


def sql_task(url: str, context: SinkContext | None = None, **config: Any) -> SqlSinkTask:
    """Return a started task, with its partition opened. ``config`` has ``_`` for ``.``."""
    task = SqlSinkTask()
    task.start(sql_config(url, **config), context or SinkContext())
    task.open([PARTITION])
    return task


def sql_config(url: str, **config: Any) -> Mapping[str, Any]:
    """Return the settings of a sink, as its task gets them."""
    defaults = {name: one.default for name, one in SqlSink.config.items() if isinstance(one, Setting)}
    named = {name.replace("_", "."): value for name, value in config.items()}
    return {**defaults, "name": "its", "connection.url": url, **named}
