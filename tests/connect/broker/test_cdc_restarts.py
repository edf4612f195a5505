"""Tasks that end at any moment, before or after their commit, while writers change the tables: each change once."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from functools import partial

import psycopg
import pytest

from semel.errors import Retriable
from semel.testing.postgres import Postgres
from tests.connect.support.capturing import Capturing, properties
from tests.connect.support.reading import connected
from tests.connect.support.replay import replayed
from tests.support.waiting import wait_for

ROWS, WRITERS, CHANGES = 300, 3, 250
RESTARTS = 0.1
#: Small polls, so that a task ends in the middle of tables and of transactions.
SMALL = {"max.batch.size": "7", "snapshot.fetch.size": "7"}


@pytest.fixture(scope="module")
def logical() -> Iterator[Postgres]:
    with Postgres(wal_level="logical", max_replication_slots="40") as server:
        yield server


def _prepare(postgres: Postgres, schema: str) -> None:
    with connected(postgres) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        for table, kind in (("numbers", "int"), ("texts", "text")):
            connection.execute(
                f"CREATE TABLE {schema}.{table} (id {kind}, part int, version int, note text,"
                " PRIMARY KEY (id, part))".encode()
            )
            connection.execute(
                f"INSERT INTO {schema}.{table} SELECT n, n % 3, 0, 'first' FROM generate_series(1, {ROWS}) n".encode()
            )


def _write(postgres: Postgres, schema: str, number: int) -> None:
    """Change rows in transactions of several statements; some are rolled back."""
    chance = random.Random(f"{schema}{number}")
    with connected(postgres, autocommit=False) as connection:
        for _ in range(CHANGES):
            try:
                for _ in range(chance.choice((1, 1, 2, 5, 30))):
                    connection.execute(_statement(chance, schema).encode())
                (connection.rollback if chance.random() < 0.2 else connection.commit)()
            except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
                connection.rollback()


def _statement(chance: random.Random, schema: str) -> str:
    table, one = chance.choice(("numbers", "texts")), chance.randrange(2 * ROWS)
    where = f"WHERE id = '{one}' AND part = {one % 3}"
    match chance.randrange(4):
        case 0:
            return f"INSERT INTO {schema}.{table} VALUES ('{one}', {one % 3}, 0, 'new') ON CONFLICT DO NOTHING"
        case 1:
            return f"DELETE FROM {schema}.{table} {where}"
        case 2:
            other = chance.randrange(2 * ROWS)
            return (
                f"UPDATE {schema}.{table} SET id = '{other}', part = {other % 3} {where} AND NOT EXISTS"
                f" (SELECT 1 FROM {schema}.{table} WHERE id = '{other}' AND part = {other % 3})"
            )
        case _:
            return f"UPDATE {schema}.{table} SET version = version + 1 {where}"


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(3, 23))])
def test_each_change_once(logical: Postgres, seed: int) -> None:
    chance, schema = random.Random(seed), f"restarts_{seed}"
    _prepare(logical, schema)
    more = {"schema.include.list": schema, "publication.autocreate.mode": "filtered", **SMALL}
    capturing = Capturing({**properties(logical, schema), **more})
    writers = [threading.Thread(target=_write, args=[logical, schema, number]) for number in range(WRITERS)]
    for writer in writers:
        writer.start()

    def polled() -> bool:
        if chance.random() < RESTARTS:
            capturing.poll(commit=chance.random() < 0.5)
            capturing.restart()
        return not capturing.poll() and not any(writer.is_alive() for writer in writers)

    wait_for(polled, "the end of the writers", 120)
    with connected(logical) as connection:
        connection.execute(f"INSERT INTO {schema}.numbers VALUES (-1, 0, 0, 'end')".encode())
        wait_for(partial(_ended, capturing, f"{schema}.{schema}.numbers"), "the last change")
        for table in ("numbers", "texts"):
            rows = connection.execute(f"SELECT id, part, version FROM {schema}.{table}".encode()).fetchall()
            written = [(key, value) for key, value, _ in capturing.written[f"{schema}.{schema}.{table}"]]
            left = {(row["id"], row["part"]): row["version"] for row in replayed(written).values()}
            assert left == {(row[0], row[1]): row[2] for row in rows}
    assert capturing.sessions > 1, "no task ended within the snapshot"
    capturing.task.stop()


def test_postgres_is_killed_within_rows_and_changes() -> None:
    with Postgres(wal_level="logical") as postgres:
        _prepare(postgres, "killed")
        more = {"schema.include.list": "killed", "publication.autocreate.mode": "filtered", **SMALL}
        capturing = Capturing({**properties(postgres, "killed"), **more})
        wait_for(lambda: capturing.poll() == 7, "rows")
        _kill(postgres, capturing)
        with connected(postgres) as connection:
            connection.execute("UPDATE killed.numbers SET version = version + 1")
            wait_for(lambda: b'"u"' in str(capturing.poll() and capturing.written).encode(), "changes")
            _kill(postgres, capturing)
        with connected(postgres) as connection:
            connection.execute("INSERT INTO killed.numbers VALUES (-1, 0, 0, 'end')")
            wait_for(partial(_ended, capturing, "killed.killed.numbers"), "the last change")
            rows = connection.execute("SELECT id, version FROM killed.numbers").fetchall()
        written = [(key, value) for key, value, _ in capturing.written["killed.killed.numbers"]]
        assert {row["id"]: row["version"] for row in replayed(written).values()} == dict(rows)
        assert capturing.sessions == 2
        capturing.task.stop()


def _kill(postgres: Postgres, capturing: Capturing) -> None:
    """Kill PostgreSQL, and start it and the task again."""
    postgres.kill()
    with pytest.raises(Retriable, match="starts again from its committed offsets"):
        wait_for(lambda: capturing.poll(commit=False) < 0, "that it is noticed")
    postgres.start()
    capturing.restart()


def test_an_offset_that_is_forgotten_doubles(logical: Postgres) -> None:
    """The control: a task that begins at an older offset gives changes again, and the replay finds them."""
    _prepare(logical, "forgotten")
    more = {"schema.include.list": "forgotten", "publication.autocreate.mode": "filtered", **SMALL}
    capturing = Capturing({**properties(logical, "forgotten"), **more})
    wait_for(lambda: capturing.poll() == 7, "rows")
    before = capturing.offset
    wait_for(lambda: capturing.poll() == 7, "more rows")
    capturing.offset = before
    capturing.restart()
    wait_for(lambda: capturing.poll() == 7, "rows")
    written = [(key, value) for key, value, _ in capturing.written["forgotten.forgotten.numbers"]]
    with pytest.raises(AssertionError, match="read twice"):
        replayed(written)
    capturing.task.stop()


def _ended(capturing: Capturing, topic: str) -> bool:
    capturing.poll()
    return any(json.loads(key)["id"] == -1 for key, _, _ in capturing.written.get(topic, ()) if key)
