"""Rows of PostgreSQL into Kafka while writers commit them out of order, and tasks and the database are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from functools import partial
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from semel.processes.supervisor import State
from semel.sandbox import Sandbox
from semel.testing.postgres import Postgres
from semel.testing.records import arrived, read
from tests.connect.support.place import Place
from tests.connect.support.running import Running
from tests.support import topics
from tests.support.waiting import wait_for

TABLES, ROWS, WRITERS, KILLS = 2, 400, 3, 4


@pytest.mark.exhaustive
def test_rows_under_kills(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    place = Place(spark, kafka.bootstrap_servers, tmp_path)
    names = [topics.create(kafka.bootstrap_servers, f"{place.name}-table-{number}", 2) for number in range(TABLES)]
    with Postgres() as postgres:
        for name in names:
            with _connected(postgres) as connection:
                connection.execute(f'CREATE TABLE "{name}" (id bigserial PRIMARY KEY, text text)')
        config = {
            "name": place.name,
            "connector.class": "JdbcSourceConnector",
            "tasks.max": str(TABLES),
            "connection.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres",
            "connection.user": "postgres",
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "table.whitelist": ",".join(names),
            "topic.prefix": "",
            "poll.interval.ms": "20",
            "batch.max.rows": "13",
            "exactly.once.support": "required",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
            "transforms": "key,id",
            "transforms.key.type": "ValueToKey",
            "transforms.key.fields": "id",
            "transforms.id.type": "ExtractField$Key",
            "transforms.id.field": "id",
            "key.converter": "JsonConverter",
            "key.converter.schemas.enable": "false",
        }
        writers = [
            threading.Thread(target=_write, args=[postgres, name, number])
            for name in names
            for number in range(WRITERS)
        ]
        with place.running(config) as running:
            for writer in writers:
                writer.start()
            for kill in range(KILLS):
                wait_for(partial(_more_than, place, names, 100 * kill), "more rows", 120)
                task = f"{place.name}-{kill % TABLES}"
                os.kill(int(running.wait_state(task, State.RUNNING).where.rpartition(":")[2]), signal.SIGKILL)
                if kill == 1:
                    postgres.kill()
                    postgres.start()
            for writer in writers:
                writer.join()
            wait_for(lambda: _all_there(place, postgres, names, running), lambda: str(running.states), 120)
        for name in names:
            rows = read(place.servers, [name], {"value": "value", "key": "key"}).to_pylist()
            found = [json.loads(row["value"]) for row in rows]
            assert sorted(row["id"] for row in found) == [row[0] for row in _rows(postgres, name)]
            assert all(row["key"] == str(value["id"]) for row, value in zip(rows, found, strict=True))


def _more_than(place: Place, names: list[str], rows: int) -> bool:
    return arrived(place.servers, *names) > rows


def _connected(postgres: Postgres, *, autocommit: bool = True) -> psycopg.Connection[tuple[int, str]]:
    return psycopg.connect(f"host=127.0.0.1 port={postgres.port} user=postgres dbname=postgres", autocommit=autocommit)


def _write(postgres: Postgres, name: str, number: int) -> None:
    """Insert rows, a few in each transaction, over a database that is killed; some are rolled back."""
    chance, left = random.Random(f"{name}{number}"), ROWS // WRITERS
    while left > 0:
        try:
            with _connected(postgres, autocommit=False) as connection:
                while left > 0:
                    for _ in range(chance.randrange(1, 6)):
                        connection.execute(f'INSERT INTO "{name}" (text) VALUES (%s)', [f"{number} has {left}"])
                        left -= 1
                    (connection.rollback if chance.random() < 0.2 else connection.commit)()
        except psycopg.OperationalError:
            continue


def _rows(postgres: Postgres, name: str) -> list[tuple[int, str]]:
    with _connected(postgres) as connection:
        return connection.execute(f'SELECT id, text FROM "{name}" ORDER BY id').fetchall()


def _all_there(place: Place, postgres: Postgres, names: list[str], running: Running) -> bool:
    assert all(status.state is not State.FAILED for status in running.states.values()), running.states
    return arrived(place.servers, *names) >= sum(len(_rows(postgres, name)) for name in names)
