"""Tables of Iceberg with a catalog of SQLite in a folder, and tasks that write to them without a worker. As
``delta_tables``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from semel.connect import Setting, SinkContext
from semel.connect.connectors.sinks.iceberg import IcebergSink, IcebergSinkTask

SINK = IcebergSink
NAME = "shop.orders"
EVOLVES: Mapping[str, Any] = {"iceberg.tables.evolve-schema-enabled": True}


def settings(path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": str(path / "tables")}


def config(path: Path, **more: Any) -> Mapping[str, Any]:
    defaults = {name: one.default for name, one in IcebergSink.config.items() if isinstance(one, Setting)}
    given = {
        "name": "its",
        "iceberg.tables": ["shop.${topic}"],
        "iceberg.catalog.*": settings(path),
        "iceberg.tables.auto-create-props.*": {},
        "iceberg.tables.auto-create-enabled": True,
        "flush.size": 3,
    }
    return {**defaults, **given, **{name.replace("_", "."): value for name, value in more.items()}}


def task(path: Path, context: SinkContext | None = None, partition: int = 0, **more: Any) -> IcebergSinkTask:
    made = IcebergSinkTask()
    made.start(config(path, **more), context or SinkContext())
    made.open([("orders", partition)])
    return made


def catalog(path: Path) -> Catalog:
    return load_catalog("iceberg", **settings(path))


def table(path: Path) -> Table:
    return catalog(path).load_table(NAME)


def records(path: Path) -> pa.Table:
    return table(path).scan().to_arrow()


def names(path: Path) -> list[str]:
    """Read the table's files by a library that did not write them."""
    files = [one.file.file_path for one in table(path).scan().plan_files()]
    return sorted(name for (name,) in duckdb.execute("SELECT name FROM read_parquet(?)", [files]).fetchall())
