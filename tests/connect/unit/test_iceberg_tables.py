"""Tables that ``IcebergSink`` makes, extends or finds, and settings that it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semel.connect.connectors.sinks.iceberg import IcebergSink
from semel.errors import ConfigError
from tests.connect.support.iceberg_tables import NAME, catalog, config, names, settings, table, task
from tests.connect.support.sink_batches import batch, of
from tests.connect.unit.test_file_sink import rows


def test_types(tmp_path: Path) -> None:
    kind = pa.struct(
        [
            pa.field("small", pa.int8(), nullable=False),
            pa.field("price", pa.decimal128(38, 2)),
            pa.field("at", pa.timestamp("ms")),
            pa.field("hour", pa.time32("ms")),
            pa.field("day", pa.date32()),
            pa.field("tags", pa.list_(pa.field("item", pa.string()))),
            pa.field("stock", pa.map_(pa.string(), pa.int64())),
            pa.field("inner", pa.struct([pa.field("at", pa.timestamp("ms"))])),
            pa.field("blob", pa.binary()),
            pa.field("flag", pa.bool_()),
            pa.field("ratio", pa.float64()),
        ]
    )
    at = datetime(2026, 1, 1, 0, 0, 0, 5000)
    row = {
        "small": 1,
        "price": Decimal("1.50"),
        "at": at,
        "hour": time(1, 2, 3),
        "day": at.date(),
        "tags": ["a"],
        "stock": [("a", 1)],
        "inner": {"at": at},
        "blob": b"x",
        "flag": True,
        "ratio": 0.5,
    }
    task(tmp_path, flush_size=1).put(batch([({"id": 1}, row)], 0, kind))
    task(tmp_path, flush_size=1).put(batch([({"id": 1}, row)], 1, kind))
    moment = at.replace(tzinfo=UTC)
    assert table(tmp_path).scan().to_arrow().to_pylist() == [{**row, "at": moment, "inner": {"at": moment}}] * 2


def test_a_table_of_the_user(tmp_path: Path) -> None:
    careful: Any = {"iceberg.tables.auto-create-enabled": False}
    with pytest.raises(ConfigError, match=r"there is no table of Iceberg shop.orders.*auto-create-enabled=true"):
        task(tmp_path, **careful).put(rows(3))
    own = catalog(tmp_path)
    own.create_namespace("shop")
    there = pa.table({"name": ["mine"], "price": pa.array([None], pa.decimal128(38, 2))})
    made = own.create_table(NAME, there.schema)
    with made.update_spec() as spec:
        spec.add_identity("name")
    made.append(there)
    task(tmp_path).put(rows(3))
    assert names(tmp_path) == sorted(["mine", *of(0, 3)])
    assert {one.partition[0] for one in (file.file for file in table(tmp_path).scan().plan_files())} == {
        "mine",
        *of(0, 3),
    }


def test_a_value_that_the_table_refuses(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("name", pa.string(), nullable=False), pa.field("price", pa.decimal128(38, 2))])
    own = catalog(tmp_path)
    own.create_namespace("shop")
    own.create_table(NAME, schema)
    good, null = ({"id": 0}, {"name": "a", "price": None}), ({"id": 0}, {"name": None, "price": None})
    with pytest.raises(ConfigError, match="the record at offset 7 of orders-0 was refused"):
        task(tmp_path).put(batch([good, good, null], 5))
    assert table(tmp_path).current_snapshot() is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"type": "glue"}, r"iceberg\.catalog\.type=glue was not tried"),
        ({"py-catalog-impl": "a.B"}, r"iceberg\.catalog\.type=a\.B was not tried"),
        ({"uri": ""}, r"iceberg\.catalog\.uri is missing"),
        ({"uri": "sqlite:///relative.db"}, "names no file by its whole path"),
        ({"uri": "sqlite://"}, "names no file by its whole path"),
        ({"uri": "mysql://x/y"}, "names no PostgreSQL or SQLite"),
        ({"warehouse": "relative"}, r"iceberg\.catalog\.warehouse is no whole path of a folder"),
        ({"warehouse": ""}, r"iceberg\.catalog\.warehouse is missing"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, given: dict[str, str], said: str) -> None:
    made = {**config(tmp_path), "iceberg.catalog.*": {**settings(tmp_path), **given}}
    with pytest.raises(ConfigError, match=said):
        IcebergSink().validate(made)
    IcebergSink().validate(config(tmp_path))


@pytest.mark.parametrize("tables", [[], ["orders"], ["${topic}"], ["a.b", "a.c"]])
def test_tables_that_are_refused(tmp_path: Path, tables: list[str]) -> None:
    with pytest.raises(ConfigError, match="is not one table"):
        IcebergSink().validate({**config(tmp_path), "iceberg.tables": tables})
