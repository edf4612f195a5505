"""``SqlSink`` on a file of SQLite: what becomes of rows by its modes, offsets in their transaction, and refusals."""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semel.connect import SinkContext, SinkRecord
from semel.connect.connectors.sinks.sql import SqlSink
from semel.errors import ConfigError, Fenced
from tests.connect.support.sink_batches import PARTITION, VALUE, batch, sql_config, sql_task

ROWS = [({"id": n}, {"name": f"n{n}", "price": Decimal("1.50")}) for n in range(4)]
UPSERT: dict[str, Any] = {"auto_create": True, "pk_mode": "record_key", "insert_mode": "upsert"}


class Target:
    """A database in a file, asked by its own client."""

    def __init__(self, file: Path) -> None:
        self.url = f"sqlite:///{file}"
        self._connection = sqlite3.connect(file, isolation_level=None)

    def ask(self, statement: str) -> list[Any]:
        return self._connection.execute(statement).fetchall()

    def rows(self) -> list[Any]:
        return self.ask('SELECT id, name FROM "orders" ORDER BY id')

    def next_offset(self) -> int | None:
        ((offset,),) = self.ask("SELECT next_offset FROM semel_connect_sink_offsets")
        return None if offset is None else int(offset)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    made = Target(tmp_path / "target.db")
    yield made
    made.close()


def test_what_was_written_is_not_written_again(target: Target) -> None:
    task = sql_task(target.url, auto_create=True, pk_mode="record_key")
    task.put(batch(ROWS[:2]))
    task.put(batch(ROWS[:2]))
    task.put(batch(ROWS[1:], start=1))
    assert target.rows() == [(n, f"n{n}") for n in range(4)]
    assert target.next_offset() == 4
    context = SinkContext()
    sql_task(target.url, context, pk_mode="record_key")
    assert context.offsets == {PARTITION: 4}


def test_rows_are_replaced_and_deleted_in_their_order(target: Target) -> None:
    task = sql_task(target.url, delete_enabled=True, **UPSERT)
    second = ({"id": 1}, {"name": "again", "price": None})
    task.put(batch([*ROWS[:3], ({"id": 0}, None), second, ({"id": 2}, None), ROWS[2]]))
    assert target.rows() == [(1, "again"), (2, "n2")]


def test_rows_are_updated(target: Target) -> None:
    sql_task(target.url, **UPSERT).put(batch(ROWS[:1]))
    task = sql_task(target.url, pk_mode="record_key", insert_mode="update")
    task.put(batch([({"id": 0}, {"name": "other", "price": None}), ROWS[1]], start=1))
    assert target.rows() == [(0, "other")]


def test_the_place_in_kafka_as_the_key(target: Target) -> None:
    sql_task(target.url, auto_create=True, pk_mode="kafka").put(batch(ROWS[:2], start=7))
    asked = 'SELECT __connect_topic, __connect_partition, __connect_offset, name FROM "orders"'
    assert target.ask(asked) == [("orders", 0, 7, "n0"), ("orders", 0, 8, "n1")]


def test_a_task_whose_claim_is_old_writes_nothing(target: Target) -> None:
    old = sql_task(target.url, **UPSERT)
    old.put(batch(ROWS[:1]))
    new = sql_task(target.url, **UPSERT)
    with pytest.raises(Fenced):
        old.put(batch(ROWS[1:2], start=1))
    assert target.rows() == [(0, "n0")]
    new.put(batch(ROWS[1:2], start=1))
    assert target.rows() == [(0, "n0"), (1, "n1")]


def test_offsets_that_are_changed_fence_the_task(target: Target) -> None:
    task = sql_task(target.url, **UPSERT)
    task.put(batch(ROWS[:2]))
    assert SqlSink().alter_offsets(sql_config(target.url), {PARTITION: 1})
    with pytest.raises(Fenced):
        task.put(batch(ROWS[2:], start=2))
    assert target.next_offset() == 1
    SqlSink().alter_offsets(sql_config(target.url), {PARTITION: None})
    assert target.next_offset() is None


def test_a_column_that_is_missing(target: Target) -> None:
    sql_task(target.url, **UPSERT).put(batch(ROWS[:1]))
    wider = pa.struct([*VALUE, pa.field("more", pa.int32())])
    row = ({"id": 9}, {"name": "wide", "price": None, "more": 5})
    refusing = sql_task(target.url, **UPSERT)
    with pytest.raises(ConfigError, match="lacks the columns more") as refused:
        refusing.put(batch([row], start=1, value=wider))
    assert (refused.value.tag, target.next_offset()) == ("SINK_TABLE", 1)
    sql_task(target.url, auto_evolve=True, **UPSERT).put(batch([row], start=1, value=wider))
    assert target.ask('SELECT id, more FROM "orders" ORDER BY id') == [(0, None), (9, 5)]


def test_a_table_that_is_missing(target: Target) -> None:
    with pytest.raises(ConfigError, match="table orders is missing"):
        sql_task(target.url).put(batch(ROWS))


@pytest.mark.parametrize(
    ("rows", "value"), [([({"id": 1}, None)], VALUE), ([({"id": 1}, "text")], pa.string())], ids=["null", "no struct"]
)
def test_records_without_columns_are_refused(target: Target, rows: Any, value: Any) -> None:
    task = sql_task(target.url, **UPSERT)
    with pytest.raises(ConfigError) as refused:
        task.put(batch(rows, value=value))
    assert (refused.value.tag, target.next_offset()) == ("SINK_RECORD", None)
    assert refused.value.message.startswith("the record at offset 0 of orders-0 was refused: ")


def test_rows_that_the_database_refuses_are_reported(target: Target) -> None:
    target.ask("CREATE TABLE \"orders\" (id INTEGER PRIMARY KEY, name TEXT CHECK (name <> 'n1'), price NUMERIC)")
    strict = sql_task(target.url, pk_mode="record_key")
    with pytest.raises(ConfigError, match="refused to write"):
        strict.put(batch(ROWS))
    assert target.rows() == []
    reported: list[int] = []

    def report(record: SinkRecord, _: BaseException) -> None:
        reported.append(record.offset)

    sql_task(target.url, SinkContext(errant_record_reporter=report), pk_mode="record_key").put(batch(ROWS))
    assert reported == [1]
    assert target.rows() == [(0, "n0"), (2, "n2"), (3, "n3")]
    assert target.next_offset() == 4


@pytest.mark.parametrize(
    "config",
    [{"insert_mode": "upsert"}, {"delete_enabled": True}, {"pk_mode": "kafka", "pk_fields": ["one"]}],
)
def test_settings_that_contradict_each_other(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        SqlSink().validate(sql_config("sqlite:///x", **config))
    assert refused.value.tag == "WRONG_VALUE"


def test_a_topic_that_was_made_again_is_not_passed_over(target: Target) -> None:
    """Its first records have offsets that were written once. An offset that a user has set counts for any topic."""
    first, again = (SinkContext(topic_ids={PARTITION[0]: name}) for name in ("first", "again"))
    sql_task(target.url, first, **UPSERT).put(batch(ROWS[:3]))
    with pytest.raises(ConfigError, match=r"it was made again, or is of another cluster\. Nothing more was written"):
        sql_task(target.url, again, **UPSERT)
    assert target.next_offset() == 3
    SqlSink().alter_offsets(sql_config(target.url), {PARTITION: 1})
    sql_task(target.url, again, **UPSERT).put(batch(ROWS[1:2], start=1))
    assert again.offsets == {PARTITION: 1}
    with pytest.raises(ConfigError, match="it was made again"):
        sql_task(target.url, first, **UPSERT)


def test_a_number_is_not_rounded(target: Target) -> None:
    long = Decimal("1234567890123456.78")
    task = sql_task(target.url, **UPSERT)
    with pytest.raises(ConfigError, match="would round a number of more than 15 digits"):
        task.put(batch([({"id": 1}, {"name": "n", "price": long})]))
    target.ask('DROP TABLE "orders"')
    target.ask('CREATE TABLE "orders" (id INTEGER PRIMARY KEY, name TEXT, price TEXT)')
    sql_task(target.url, **UPSERT).put(batch([({"id": 1}, {"name": "n", "price": long})]))
    assert target.ask('SELECT price FROM "orders"') == [(str(long),)]


def test_names_without_quotes_are_not_told_apart_by_their_cases(target: Target) -> None:
    value = pa.struct([pa.field("Name", pa.string())])
    task = sql_task(target.url, quote_sql_identifiers="never", **UPSERT)
    for number in range(2):
        task.put(batch([({"id": number}, {"Name": "n"})], start=number, value=value))
    assert target.rows() == [(0, "n"), (1, "n")]


def test_a_deletion_needs_no_table_and_a_key(target: Target) -> None:
    task = sql_task(target.url, delete_enabled=True, **UPSERT)
    task.put(batch([({"id": 0}, None)]))
    task.put(batch([ROWS[1]], start=1))
    assert target.rows() == [(1, "n1")]
    key = pa.struct([pa.field("id", pa.int64())])
    with pytest.raises(ConfigError, match="a primary key that is not null"):
        task.put(batch([({"id": None}, None)], start=2, key=key))


def test_a_refusal_shows_no_row(target: Target) -> None:
    task = sql_task(target.url, **{**UPSERT, "insert_mode": "insert"})
    row = ({"id": 1}, {"name": "".join(("sec", "ret")), "price": None})
    task.put(batch([row]))
    with pytest.raises(ConfigError, match="refused to write: UNIQUE constraint failed") as refused:
        task.put(batch([row], start=1))
    assert "secret" not in "".join(traceback.format_exception(refused.value))
