"""The URL of a database, and its values where a column has several types, as in SQLite."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from semel.connect.connectors.sql_rows import Found, table_of
from semel.connect.connectors.sql_tables import open_engine
from semel.connect.converters.json import json_converter
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


@pytest.mark.parametrize("kind", [None, pa.int64()], ids=["without a type", "declared as whole numbers"])
@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([1, 0.5], [b"1.0", b"0.5"]),
        ([2**53 + 1, 0.5], [b"9007199254740993", b"0.5"]),
        ([2**53 + 1, 2], [b"9007199254740993", b"2"]),
    ],
)
def test_whole_and_fractional_numbers_of_one_column(kind: Any, values: list[Any], written: list[bytes]) -> None:
    """None is changed: a fraction is not cut off, and a whole number that a float cannot hold stays one."""
    found = Found(["n"], [kind], [(value,) for value in values])
    table = table_of(found, "table t", str)
    convert = json_converter({"schemas.enable": "false"}, "value.converter")
    made = convert(table["value"], table.schema.field("value"))
    assert made.to_pylist() == [b'{"n":' + one + b"}" for one in written]
