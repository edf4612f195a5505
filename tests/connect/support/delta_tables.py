"""Tables of Delta Lake in a folder, and tasks that write to them without a worker. As ``iceberg_tables``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from semel.connect import Setting, SinkContext
from semel.connect.connectors.sinks.delta import DeltaSink, DeltaSinkTask

SINK = DeltaSink
EVOLVES: Mapping[str, Any] = {"auto.evolve": True}


def config(path: Path | str, **more: Any) -> Mapping[str, Any]:
    defaults = {name: one.default for name, one in DeltaSink.config.items() if isinstance(one, Setting)}
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {**defaults, "name": "its", "path": str(path), "flush.size": 3, "auto.create": True, **named}


def task(path: Path, context: SinkContext | None = None, partition: int = 0, **more: Any) -> DeltaSinkTask:
    made = DeltaSinkTask()
    made.start(config(path, **more), context or SinkContext())
    made.open([("orders", partition)])
    return made


def records(path: Path) -> pa.Table:
    return DeltaTable(str(path / "orders")).to_pyarrow_table()


def names(path: Path) -> list[str]:
    """Read the table's files by a library that did not write them."""
    files = DeltaTable(str(path / "orders")).file_uris()
    return sorted(name for (name,) in duckdb.execute("SELECT name FROM read_parquet(?)", [files]).fetchall())
