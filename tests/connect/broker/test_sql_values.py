"""Values of databases as they come out, and the tables and columns that are refused."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from semel.connect.api import Setting, SourceBatch
from semel.connect.connectors.sql import SqlSource
from semel.connect.settings.connector_config import ConnectorConfig, ConnectorConfigParser
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.tasks.rows import rows_of
from semel.errors import ConfigError
from semel.testing.postgres import Postgres
from tests.connect.support.reading import Reader, connected, table_reader
from tests.connect.unit.test_config import LINES, WORKER
from tests.support.waiting import wait_for

VALUES = {
    "json": ("json", """'{"b": 1,  "a": [1, "x"]}'""", '"{\\"b\\": 1,  \\"a\\": [1, \\"x\\"]}"'),
    "jsonb": ("jsonb", """'{"b": 1,  "a": [1, "x"]}'""", '"{\\"a\\": [1, \\"x\\"], \\"b\\": 1}"'),
    "number": ("jsonb", "'7'", '"7"'),
    "uuid": ("uuid", "'00000000-0000-0000-0000-00000000000a'", '"00000000-0000-0000-0000-00000000000a"'),
    "time": ("time", "'01:00:00.5'", "3600500"),
    "zoned": ("timetz", "'01:00:00+02'", '"01:00:00+02"'),
    "interval": ("interval", "'1 month 2 days'", '"1 mon 2 days"'),
    "decimal": ("numeric", "'1.50'", '"1.50"'),
    "decimal_nan": ("numeric", "'NaN'", '"NaN"'),
    "nan": ("double precision", "'NaN'", '"NaN"'),
    "infinite": ("real", "'-Infinity'", '"-Infinity"'),
    "double": ("double precision", "1e10", "1.0E10"),
    "address": ("inet", "'10.0.0.1'", '"10.0.0.1"'),
    "range": ("int4range", "'[1,5)'", '"[1,5)"'),
    "day": ("date", "'1970-01-04'", "3"),
    "at": ("timestamp", "'1970-01-02 00:00:00.123'", "86400123"),
    "zoned_at": ("timestamptz", "'1970-01-02 02:00:00.123+02'", "86400123"),
    "raw": ("bytea", r"'\x666f6f'", '"Zm9v"'),
    "flags": ("boolean[]", "'{t,NULL}'", "[true,null]"),
    "days": ("date[]", "'{1970-01-04}'", "[3]"),
    "uuids": ("jsonb[]", "ARRAY['{}'::jsonb]", '["{}"]'),
    "grid": ("int[]", "'{{1,2},{3,4}}'", "[[1,2],[3,4]]"),
    "small": ("smallint", "1", "1"),
}
JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}


def _polled(reader: Reader) -> SourceBatch:
    """Return the first rows, as they are polled."""
    found: list[SourceBatch] = []

    def polled() -> bool:
        batch = reader.tasks[0].poll()
        if isinstance(batch, SourceBatch):
            found.append(batch)
        return bool(found)

    wait_for(polled, "rows", 60)
    return found[0]


def _written(batch: object, **more: str) -> list[tuple[str, list[Any]]]:
    rows = rows_of(batch, ConnectorConfig.parse(LINES | JSON | more, WorkerConfig.parse(WORKER)), 0)
    assert rows is not None
    return [(topic, table["value"].to_pylist()) for topic, table in rows.tables]


def test_values_of_a_database_are_its_own(postgres: Postgres, table: str) -> None:
    """Beside null, and beside another value in the same poll."""
    with connected(postgres) as connection:
        connection.execute(f'DROP TABLE "{table}"')
        columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in VALUES.items())
        connection.execute(f'CREATE TABLE "{table}" (id bigserial PRIMARY KEY, {columns}, other jsonb)')
        given = ", ".join(value for _, value, _ in VALUES.values())
        connection.execute(f"""INSERT INTO "{table}" VALUES (1, {given}, '{{"n": 1}}')""")
        connection.execute(f'INSERT INTO "{table}" (id) VALUES (2), (3), (4), (5)')
        for number, value in ((3, '"text"'), (4, "[1]"), (5, "null")):
            connection.execute(f'UPDATE "{table}" SET other = %s WHERE id = %s', [value, number])
    batch = _polled(table_reader(postgres, table))
    ((_, values),) = _written(batch)
    expected = ",".join(f'"{name}":{json}' for name, (_, _, json) in VALUES.items())
    assert values[0].decode() == f'{{"id":1,{expected},"other":"{{\\"n\\": 1}}"}}'
    nulls = ",".join(f'"{name}":null' for name in VALUES)
    assert values[1].decode() == f'{{"id":2,{nulls},"other":null}}'
    assert [json.loads(value)["other"] for value in values[2:]] == ['"text"', "[1]", "null"]
    ((_, (first, *_)),) = _written(batch, **{"value.converter.schemas.enable": "true"})
    fields = {one["field"]: one["type"] for one in json.loads(first)["schema"]["fields"]}
    assert (fields["small"], fields["jsonb"], fields["time"], fields["infinite"]) == (
        "int16",
        "string",
        "int32",
        "float",
    )


def test_a_row_that_no_type_can_hold_is_named_and_may_be_left_out(postgres: Postgres, table: str) -> None:
    with connected(postgres) as connection:
        insert = f'INSERT INTO "{table}" (text, at) VALUES (%s, %s)'
        for text, at in (("a", "2020-01-01"), ("b", "infinity"), ("c", "0044-03-15 BC"), ("d", "2020-01-02")):
            connection.execute(insert, [text, at])
    batch = _polled(table_reader(postgres, table))
    with pytest.raises(ConfigError, match=f"the row with id=2 of table {table} holds infinity in its column at"):
        _written(batch)
    made = _written(batch, **{"errors.tolerance": "all"})
    assert [json.loads(value)["text"] for _, values in made for value in values] == ["a", "d"]


def test_views_and_ids_without_a_sequence_are_not_exactly_once(postgres: Postgres, table: str) -> None:
    view, plain, part = f"{table}_view", f"{table}_plain", f"{table}_part"
    with connected(postgres) as connection:
        connection.execute(f'CREATE OR REPLACE VIEW "{view}" AS SELECT * FROM "{table}"')
        connection.execute(f'DROP TABLE IF EXISTS "{plain}", "{part}"')
        connection.execute(f'CREATE TABLE "{plain}" (id bigint PRIMARY KEY)')
        connection.execute(f'CREATE TABLE "{part}" (id bigserial, at timestamp) PARTITION BY RANGE (id)')
    found = {name: _problems(postgres, name) for name in (table, part, view, plain)}
    assert found[table] == found[part] == []
    ((setting, text),) = found[view]
    assert setting == "exactly.once.support"
    assert "is no table, and its writers lock other tables." in text
    assert "Name the table itself" in text
    assert "has no sequence of its own" in found[plain][0][1]
    assert "ALTER SEQUENCE … OWNED BY" in found[plain][0][1]
    assert _problems(postgres, view, **{"exactly.once.support": "requested"}) == []


def _problems(postgres: Postgres, table: str, **more: str) -> list[tuple[str, str]]:
    given = {
        "name": "db",
        "connector.class": "SqlSource",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres?user=postgres",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": table,
        "topic.prefix": "",
        "exactly.once.support": "required",
    }
    worker = WorkerConfig.parse(WORKER | {"exactly.once.source.support": "enabled"})
    found = ConnectorConfigParser(given | more, worker).problems
    return [(problem.setting, f"{problem.text} {problem.remedy}") for problem in found]


@pytest.mark.parametrize("mode", ["incrementing", "timestamp", "timestamp+incrementing"])
def test_columns_that_may_be_null_are_refused_or_their_rows_left_out(postgres: Postgres, mode: str) -> None:
    table = f"nulls_{mode}"
    with connected(postgres) as connection:
        connection.execute(f'DROP TABLE IF EXISTS "{table}"')
        connection.execute(f'CREATE TABLE "{table}" (id bigint, at timestamp)')
        connection.execute(f"INSERT INTO \"{table}\" VALUES (1, '2020-01-01'), (NULL, NULL), (2, '2020-01-01')")
    columns = {"incrementing_column_name": "id", "timestamp_column_name": ["at"]}
    with pytest.raises(ConfigError, match=rf"may be null, and mode={mode.replace('+', '.')} passes over rows"):
        table_reader(postgres, table, mode=mode, **columns)
    reader = table_reader(postgres, table, mode=mode, validate_non_null=False, **columns)
    assert [row["id"] for row in reader.read(2)] == [1, 2]
    assert [reader.poll() for _ in range(3)] == [0] * 3


def test_a_column_of_days_is_no_column_of_times(postgres: Postgres, table: str) -> None:
    """More rows of a day may come, after those that were read."""
    with connected(postgres) as connection:
        connection.execute(f'ALTER TABLE "{table}" ALTER COLUMN at TYPE date')
        connection.execute(f'INSERT INTO "{table}" (at) VALUES (%s)', ["2020-01-01"])
    reader = table_reader(postgres, table, mode="timestamp", timestamp_column_name=["at"])
    with pytest.raises(ConfigError, match="timestamp column holds '2020-01-01'"):
        reader.read(1)


@pytest.mark.parametrize("database", ["postgresql", "sqlite"])
def test_colons_in_a_query_are_its_own(postgres: Postgres, table: str, tmp_path: Path, database: str) -> None:
    url = f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres"
    cast = "id::bigint"
    if database == "sqlite":
        url, cast, table = f"sqlite:///{tmp_path / 'a.db'}", "id", "orders"
        with sqlite3.connect(tmp_path / "a.db") as lite:
            lite.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
            lite.execute("INSERT INTO orders VALUES (1)")
    else:
        with connected(postgres) as connection:
            connection.execute(f'INSERT INTO "{table}" DEFAULT VALUES')
    texts = r"""' :x' AS x, '12:30:00' AS y, ':a:b::c' AS z, '100%' AS p, '\:q' AS q"""
    query = f'SELECT {cast} AS id, {texts} FROM "{table}"'
    given: dict[str, Any] = {"mode": "incrementing", "incrementing_column_name": "id", "poll_interval_ms": 10}
    reader = Reader(SqlSource(), connection_url=url, query=query, topic_prefix="q", table_whitelist=[], **given)
    row = {"id": 1, "x": " :x", "y": "12:30:00", "z": ":a:b::c", "p": "100%", "q": "\\:q"}
    assert reader.read(1) == [row]


def test_values_of_sqlite_are_its_own(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, price DECIMAL, mixed)")
        connection.execute("INSERT INTO t VALUES (1, 2, 1), (2, 1.5, 'x'), (3, NULL, 2.5)")
        connection.execute("CREATE VIEW v AS SELECT * FROM t")
    given: dict[str, Any] = {
        "connection_url": f"sqlite:///{tmp_path / 'a.db'}",
        "topic_prefix": "",
        "mode": "incrementing",
    }
    reader = Reader(SqlSource(), table_whitelist=["t"], incrementing_column_name="id", **given)
    ((_, values),) = _written(reader.tasks[0].poll())
    assert values == [
        *(b'{"id":1,"price":2.0,"mixed":1}', b'{"id":2,"price":1.5,"mixed":"x"}', b'{"id":3,"price":null,"mixed":2.5}'),
    ]
    config = {name: one.default for name, one in SqlSource.config.items() if isinstance(one, Setting)}
    config |= {name.replace("_", "."): value for name, value in given.items()} | {"incrementing.column.name": "id"}
    assert SqlSource().exactly_once_support(config | {"table.whitelist": ["t"]}) is True
    with pytest.raises(ConfigError, match="is a view, to which rows may come later"):
        SqlSource().exactly_once_support(config | {"table.whitelist": ["v"]})


def test_sqlite_and_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, price DECIMAL, note BLOB)")
        connection.execute("INSERT INTO orders VALUES (1, 1.5, NULL), (5, NULL, x'00ff')")
    config: dict[str, Any] = {
        "connection_url": f"jdbc:sqlite:{path}",
        "mode": "incrementing",
        "incrementing_column_name": "id",
        "topic_prefix": "",
        "poll_interval_ms": 10,
    }
    reader = Reader(SqlSource(), table_whitelist=["orders"], **config)
    assert reader.read(2) == [{"id": 1, "price": 1.5, "note": None}, {"id": 5, "price": None, "note": b"\x00\xff"}]
    with pytest.raises(ConfigError, match="table absent cannot be read: no such table"):
        Reader(SqlSource(), table_whitelist=["absent"], **config)
    with pytest.raises(ConfigError, match="one of table"):
        Reader(SqlSource(), table_whitelist=[], **config)
    with pytest.raises(ConfigError, match="SQLite keeps times as texts"):
        Reader(
            SqlSource(),
            table_whitelist=["orders"],
            **{**config, "mode": "timestamp", "timestamp_column_name": ["id"]},
        )
    with pytest.raises(ConfigError, match="needs timestamp"):
        Reader(SqlSource(), table_whitelist=["orders"], **{**config, "mode": "timestamp"})
    with pytest.raises(ConfigError, match=r"connection\.url cannot be used") as refused:
        Reader(SqlSource(), table_whitelist=["orders"], **{**config, "connection_url": "nodb://me:secret@x"})
    assert "secret" not in str(refused.value)
