"""``SqlSink`` on a real PostgreSQL: its types, its modes, and what a task that is late finds."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from semel.connect import SinkContext
from semel.errors import ConfigError, Fenced
from semel.testing.postgres import Postgres
from tests.connect.support.sink_batches import PARTITION, batch, sql_task

AT = dt.datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=dt.UTC)
#: The fields of a value: their types as a converter gives them, a value, PostgreSQL's type, and what it gives back.
FIELDS: list[tuple[str, Any, Any, str, Any]] = [
    ("tiny", pa.int8(), -1, "smallint", -1),
    ("small", pa.int16(), 2, "smallint", 2),
    ("medium", pa.int32(), 3, "integer", 3),
    ("large", pa.int64(), 2**62, "bigint", 2**62),
    ("single", pa.float32(), 1.5, "real", 1.5),
    ("double", pa.float64(), 1 / 3, "double precision", 1 / 3),
    ("flag", pa.bool_(), True, "boolean", True),
    ("text", pa.string(), 'naïve "quoted" %s ${x}', "text", 'naïve "quoted" %s ${x}'),
    ("raw", pa.binary(), b"\x00\xff", "bytea", b"\x00\xff"),
    ("price", pa.decimal128(38, 2), Decimal("-12.50"), "numeric", Decimal("-12.50")),
    ("day", pa.date32(), AT.date(), "date", AT.date()),
    ("clock", pa.time32("ms"), AT.time(), "time without time zone", AT.time()),
    ("at", pa.timestamp("ms", "UTC"), AT, "timestamp without time zone", AT.replace(tzinfo=None)),
]
VALUE = pa.struct([pa.field(name, kind) for name, kind, *_ in FIELDS])
ROW = {name: value for name, _, value, *_ in FIELDS}
NOTHING = dict.fromkeys(ROW)
UPSERT: dict[str, Any] = {
    "auto_create": True,
    "pk_mode": "record_key",
    "insert_mode": "upsert",
    "delete_enabled": True,
    "connection_user": "postgres",
}


class Target:
    """A database that is made for one test, and its own client."""

    def __init__(self, server: Postgres, name: str) -> None:
        with psycopg.connect(server.url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        self.url = f"jdbc:postgresql://127.0.0.1:{server.port}/{name}"
        self._address = f"host=127.0.0.1 port={server.port} user=postgres dbname={name}"

    def ask(self, statement: str) -> list[Any]:
        with psycopg.connect(self._address) as connection:
            answered = connection.execute(statement.encode())
            return answered.fetchall() if answered.description else []

    def next_offset(self) -> int:
        ((offset,),) = self.ask("SELECT next_offset FROM semel_connect_sink_offsets")
        return int(offset)


@pytest.fixture
def target(postgres: Postgres, request: pytest.FixtureRequest) -> Target:
    return Target(postgres, str(request.node.originalname)[5:])


def test_each_type_comes_back(target: Target) -> None:
    sql_task(target.url, **UPSERT).put(batch([({"id": 1}, ROW), ({"id": 2}, NOTHING)], value=VALUE))
    kinds = target.ask(
        "SELECT column_name, data_type FROM information_schema.columns"
        " WHERE table_name = 'orders' AND column_name <> 'id'"
    )
    assert sorted(kinds) == sorted((name, kind) for name, _, _, kind, _ in FIELDS)
    names = ", ".join(f'"{name}"' for name in ROW)
    given, nothing = target.ask(f'SELECT {names} FROM "orders" ORDER BY id')
    assert given == tuple(one for *_, one in FIELDS)
    assert nothing == (None,) * len(FIELDS)


def test_rows_are_replaced_deleted_and_not_written_again(target: Target) -> None:
    task = sql_task(target.url, **UPSERT)
    task.put(batch([({"id": n}, ROW) for n in range(3)], value=VALUE))
    again = batch([({"id": 1}, None), ({"id": 2}, ROW | {"medium": 9}), ({"id": 2}, ROW | {"medium": 8})], 3, VALUE)
    for _ in range(2):
        task.put(again)
    assert target.ask('SELECT id, medium FROM "orders" ORDER BY id') == [(0, 3), (2, 8)]
    assert target.next_offset() == 6


def test_a_key_that_is_there_fails_and_moves_nothing(target: Target) -> None:
    strict = UPSERT | {"insert_mode": "insert"}
    task = sql_task(target.url, **strict)
    task.put(batch([({"id": 1}, ROW)], value=VALUE))
    with pytest.raises(ConfigError, match="refused to write: duplicate key"):
        task.put(batch([({"id": 2}, ROW), ({"id": 1}, ROW)], 1, VALUE))
    assert target.ask('SELECT id FROM "orders"') == [(1,)]
    assert target.next_offset() == 1


def test_a_row_that_is_too_large_for_an_index_is_reported(target: Target) -> None:
    """PostgreSQL calls it an error of operation, as it calls a server that is away."""
    key, value = pa.struct([pa.field("id", pa.string(), nullable=False)]), pa.struct([pa.field("n", pa.int32())])
    long = "".join(random.Random(1).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=9000))
    rows = [({"id": "a"}, {"n": 1}), ({"id": long}, {"n": 2}), ({"id": "b"}, {"n": 3})]
    with pytest.raises(ConfigError, match="refused to write: index row"):
        sql_task(target.url, **UPSERT).put(batch(rows, value=value, key=key))
    reported: list[Any] = []
    context = SinkContext(errant_record_reporter=lambda record, error: reported.append((record.offset, str(error))))
    sql_task(target.url, context, **UPSERT).put(batch(rows, value=value, key=key))
    assert target.ask('SELECT n FROM "orders" ORDER BY n') == [(1,), (3,)]
    ((offset, said),) = reported
    assert offset == 1
    assert "index row" in said


def test_a_table_of_a_schema_by_its_dot(target: Target) -> None:
    target.ask("CREATE SCHEMA shop")
    sql_task(target.url, table_name_format="shop.all_${topic}", **UPSERT).put(batch([({"id": 1}, ROW)], value=VALUE))
    assert target.ask("SELECT id FROM shop.all_orders") == [(1,)]


def test_of_two_tasks_the_later_one_writes(target: Target) -> None:
    earlier = sql_task(target.url, **UPSERT)
    earlier.put(batch([({"id": 1}, ROW)], value=VALUE))
    context = SinkContext()
    later = sql_task(target.url, context, **UPSERT)
    assert context.offsets == {PARTITION: 1}
    with pytest.raises(Fenced, match="newer claim on orders-0"):
        earlier.put(batch([({"id": 2}, ROW)], 1, VALUE))
    later.put(batch([({"id": 3}, ROW)], 1, VALUE))
    assert target.ask('SELECT id FROM "orders" ORDER BY id') == [(1,), (3,)]
