"""The URL of a database: JDBC's is taken for those that are known."""

from __future__ import annotations

import pytest

from semel.connect.connectors.sql_tables import open_engine
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
