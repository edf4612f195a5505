"""The URL of a database, and its values where a column has several types, as in SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semel.connect.api import SourceBatch
from semel.connect.connectors.sql_checks import check_there
from semel.connect.connectors.sql_rows import Found, table_of
from semel.connect.connectors.sql_tables import Progress, Reading, open_engine, sources_of
from semel.connect.converters import json_converter
from semel.errors import ConfigError

GIVEN = {"connection.user": "", "connection.password": "", "mode": "incrementing"}


@pytest.mark.parametrize(
    ("url", "dialect", "database"),
    [
        ("jdbc:postgresql://h:5432/shop", "postgresql", "shop"),
        ("jdbc:sqlite:/tmp/shop.db", "sqlite", "/tmp/shop.db"),
        ("postgresql://h:5432/shop", "postgresql", "shop"),
    ],
)
def test_urls_that_are_known(url: str, dialect: str, database: str) -> None:
    engine = open_engine({**GIVEN, "connection.url": url})
    assert (engine.dialect.name, engine.url.database) == (dialect, database)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("jdbc:mysql://h:3306/shop?password=secret", "mysql"),
        ("jdbc:oracle:thin:secret@h:1521/shop", "oracle"),
        ("jdbc:sqlserver://h;password=secret", "sqlserver"),
        ("jdbc:", ""),
    ],
)
def test_another_database_of_jdbc_is_named(url: str, kind: str) -> None:
    with pytest.raises(ConfigError, match=r"jdbc:postgresql: and jdbc:sqlite:") as refused:
        open_engine({**GIVEN, "connection.url": url})
    assert f"of the database {kind!r}, which is not known" in refused.value.message
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([1, 0.5], [b"1", b"0.5"]),
        ([2**53 + 1, 0.5], [b"9007199254740993", b"0.5"]),
        ([2**53 + 1, 2], [b"9007199254740993", b"2"]),
    ],
)
def test_whole_and_fractional_numbers_of_one_column(values: list[Any], written: list[bytes]) -> None:
    """None is changed: a fraction is not cut off, and a whole number stays one."""
    found = Found(["n"], [pa.int64()], [(value,) for value in values])
    table = table_of(found, "table t", str)
    convert = json_converter({"schemas.enable": "false"}, "value.converter")
    made = convert.column(table["value"], table.schema.field("value"), "t")
    assert made.to_pylist() == [b'{"n":' + one + b"}" for one in written]


def config_of(file: Path) -> dict[str, Any]:
    return {
        **GIVEN,
        "connection.url": f"sqlite:///{file}",
        "incrementing.column.name": "id",
        "timestamp.column.name": [],
        "timestamp.delay.interval.ms": 0,
        "table.whitelist": ["sold"],
        "query": "",
        "topic.prefix": "",
        "batch.max.rows": 10,
    }


def _sold(file: Path, columns: str, *rows: str) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"CREATE TABLE sold (id INTEGER PRIMARY KEY, {columns})")
        for row in rows:
            database.execute(f"INSERT INTO sold {row}")
        database.commit()


def _polled(config: dict[str, Any]) -> Any:
    (source,) = sources_of(config)
    reading = Reading(open_engine(config), source, config, Progress())
    found = reading.next_rows()
    assert found is not None
    return reading.polled(found)


def test_a_column_of_nulls_has_the_type_of_its_table(tmp_path: Path) -> None:
    columns = "price REAL, discount DECIMAL(5, 2), amount INT, name VARCHAR(9), picture BLOB, at TIMESTAMP"
    _sold(tmp_path / "shop.db", columns, "DEFAULT VALUES")
    batch = _polled(config_of(tmp_path / "shop.db"))
    assert isinstance(batch, SourceBatch)
    assert {field.name: field.type for field in batch.table.schema.field("value").type} == {
        "id": pa.int64(),
        "price": pa.float64(),
        "discount": pa.float64(),
        "amount": pa.int64(),
        "name": pa.string(),
        "picture": pa.binary(),
        "at": pa.string(),
    }


def test_values_that_a_column_of_sqlite_was_not_declared_for_stay_what_they_are(tmp_path: Path) -> None:
    _sold(tmp_path / "shop.db", "picture BLOB, name TEXT", "(picture, name) VALUES ('text', X'00ff')")
    batch = _polled(config_of(tmp_path / "shop.db"))
    convert = json_converter({"schemas.enable": "false"}, "value.converter")
    assert convert.column(batch.table["value"], batch.table.schema.field("value"), "t").to_pylist() == [
        b'{"id":1,"picture":"text","name":"AP8="}'
    ]


def test_rows_of_a_query_of_sqlite_are_what_they_are(tmp_path: Path) -> None:
    """The database says no types: a price is not another because of another row, and a null has no type."""
    rows = [f"(price) VALUES ({price})" for price in ("1", "1.5", "NULL", "9007199254740993")]
    _sold(tmp_path / "shop.db", "price DECIMAL(5, 2)", *rows)
    config = config_of(tmp_path / "shop.db") | {"table.whitelist": [], "query": "SELECT id, price FROM sold"}
    records = _polled(config)
    assert [record.value for record in records] == [
        {"id": 1, "price": 1},
        {"id": 2, "price": 1.5},
        {"id": 3, "price": None},
        {"id": 4, "price": 9007199254740993},
    ]
    assert [type(record.value["price"]) for record in records] == [int, float, type(None), int]
    assert [dict(record.offset) for record in records] == [{"incrementing": 4}] * 4


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    config = config_of(tmp_path / "misspelt.db")
    (source,) = sources_of(config)
    with pytest.raises(ConfigError, match=r"there is no file .*misspelt\.db\. Nothing was read"):
        check_there(open_engine(config), source)
    assert list(tmp_path.iterdir()) == []
