"""Tables whose definition changes, parts of tables, keys that move, and transactions that are huge."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from typing import Any

import pytest

from semel.errors import ConfigError, DataLoss
from semel.testing.postgres import Postgres
from tests.connect.support.capturing import Capturing, properties
from tests.connect.support.reading import connected
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def logical() -> Iterator[Postgres]:
    with Postgres(wal_level="logical", max_replication_slots="40") as server:
        yield server


@pytest.fixture
def schema(logical: Postgres, request: pytest.FixtureRequest) -> str:
    """A schema of its own, and the name of a connector for it."""
    name = str(request.node.name).partition("[")[0][5:50]
    _run(logical, f"CREATE SCHEMA {name}")
    return name


def _run(postgres: Postgres, *statements: str) -> None:
    with connected(postgres) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _capturing(postgres: Postgres, schema: str, **more: str) -> Capturing:
    given = {"schema__include__list": schema, "publication__autocreate__mode": "filtered", **more}
    return Capturing(properties(postgres, schema, **given))


def _envelopes(capturing: Capturing, table: str, count: int) -> list[dict[str, Any]]:
    """Return the envelopes of a table, once there are so many records."""
    name = capturing.config.own["topic.prefix"]
    topic = f"{name}.{name}.{table}"

    def enough() -> bool:
        capturing.poll()
        return len(capturing.written.get(topic, ())) >= count

    wait_for(enough, lambda: f"{count} records, not {capturing.written.get(topic)}", 60)
    return [json.loads(value) for _, value, _ in capturing.written[topic] if value is not None]


def test_columns_that_change_before_their_log_is_read(logical: Postgres, schema: str) -> None:
    """The log says names and types as they were; a null stays one, although the column is NOT NULL by now."""
    _run(
        logical,
        f"CREATE TABLE {schema}.t (id int PRIMARY KEY, note text, gone int)",
        f"INSERT INTO {schema}.t VALUES (0)",
    )
    capturing = _capturing(logical, schema)
    _envelopes(capturing, "t", 1)
    capturing.task.stop()
    _run(
        logical,
        f"INSERT INTO {schema}.t VALUES (1, NULL, 3)",
        f"UPDATE {schema}.t SET note = 'x'",
        f"ALTER TABLE {schema}.t ALTER note SET NOT NULL",
        f"ALTER TABLE {schema}.t RENAME id TO number",
        f"ALTER TABLE {schema}.t DROP gone",
        f"INSERT INTO {schema}.t VALUES (2, 'y')",
    )
    capturing.start()
    rows = [one["after"] for one in _envelopes(capturing, "t", 5)[1:]]
    assert rows[0] == {"id": 1, "note": None, "gone": 3}
    assert rows[-1] == {"number": 2, "note": "y"}
    keys = [json.loads(key or b"") for key, _, _ in capturing.written[f"{schema}.{schema}.t"]]
    assert keys[1:] == [{"id": 1}, {"id": 0}, {"id": 1}, {"number": 2}]
    capturing.task.stop()


def test_parts_of_tables(logical: Postgres, schema: str) -> None:
    """A publication with columns and a filter, and a partitioned table under its own name: rows and changes alike."""
    _run(
        logical,
        f"CREATE TABLE {schema}.part (id int PRIMARY KEY, shown text, secret text)",
        f"CREATE TABLE {schema}.whole (id int PRIMARY KEY, n int) PARTITION BY RANGE (id)",
        f"CREATE TABLE {schema}.first PARTITION OF {schema}.whole FOR VALUES FROM (0) TO (10)",
        f"CREATE PUBLICATION {schema}_publication FOR TABLE {schema}.part (id, shown) WHERE (id < 10), {schema}.whole"
        " WITH (publish_via_partition_root = true)",
        f"INSERT INTO {schema}.part VALUES (1, 'a', 's'), (11, 'b', 's')",
        f"INSERT INTO {schema}.whole VALUES (1, 1)",
    )
    capturing = _capturing(logical, schema, publication__autocreate__mode="disabled")
    assert [one["after"] for one in _envelopes(capturing, "part", 1)] == [{"id": 1, "shown": "a"}]
    _envelopes(capturing, "whole", 1)
    _run(
        logical,
        f"INSERT INTO {schema}.part VALUES (2, 'c', 's'), (12, 'd', 's')",
        f"INSERT INTO {schema}.whole VALUES (2, 2)",
    )
    assert [one["after"]["n"] for one in _envelopes(capturing, "whole", 2)] == [1, 2]
    assert [one["after"] for one in _envelopes(capturing, "part", 2)][1:] == [{"id": 2, "shown": "c"}]
    capturing.task.stop()


def test_a_long_key_that_moves(logical: Postgres, schema: str) -> None:
    """A key that is stored apart (TOAST) is known after an update that does not touch it."""
    _run(
        logical,
        f"CREATE TABLE {schema}.t (id text PRIMARY KEY, n int)",
        f"ALTER TABLE {schema}.t ALTER id SET STORAGE EXTERNAL",
        f"INSERT INTO {schema}.t VALUES (repeat('k', 2400), 1)",
    )
    capturing = _capturing(logical, schema)
    _envelopes(capturing, "t", 1)
    _run(logical, f"UPDATE {schema}.t SET n = 2", f"UPDATE {schema}.t SET id = 'short'")
    found = _envelopes(capturing, "t", 5)
    assert [one["op"] for one in found] == ["r", "u", "d", "c"]
    assert found[1]["after"] == {"id": "k" * 2400, "n": 2}
    assert json.loads(capturing.written[f"{schema}.{schema}.t"][1][0] or b"") == {"id": "k" * 2400}
    capturing.task.stop()


def test_a_long_value_that_has_no_placeholder_is_refused(logical: Postgres, schema: str) -> None:
    _run(
        logical,
        f"CREATE TABLE {schema}.t (id int PRIMARY KEY, n int, many int[])",
        f"ALTER TABLE {schema}.t ALTER many SET STORAGE EXTERNAL",
        f"INSERT INTO {schema}.t SELECT 1, 1, array_agg(n) FROM generate_series(1, 9999) n",
    )
    capturing = _capturing(logical, schema)
    _envelopes(capturing, "t", 1)
    _run(logical, f"UPDATE {schema}.t SET n = 2")
    with pytest.raises(ConfigError, match="does not repeat its long value"):
        wait_for(lambda: capturing.poll() < 0, "that the update is refused", 60)


def test_a_table_that_is_truncated_within_its_snapshot(logical: Postgres, schema: str) -> None:
    """Between two sessions of one, which then have rows of before and of after."""
    _run(
        logical,
        f"CREATE TABLE {schema}.t (id int PRIMARY KEY)",
        f"INSERT INTO {schema}.t SELECT generate_series(1, 20)",
    )
    more = {"skipped__operations": "none", "max__batch__size": "5"}
    capturing = _capturing(logical, schema, **more)
    _envelopes(capturing, "t", 5)
    capturing.task.stop()
    _run(logical, f"TRUNCATE {schema}.t", f"INSERT INTO {schema}.t SELECT generate_series(1, 20)")
    capturing.start()
    with pytest.raises(DataLoss, match="was truncated after a part of its rows was read"):
        wait_for(lambda: capturing.poll() < 0, "that the truncate is refused", 60)


def test_a_table_that_is_made_while_it_runs(logical: Postgres, schema: str) -> None:
    with connected(logical) as connection:  # for the time of this test alone: it publishes all tables
        connection.execute(f"CREATE PUBLICATION {schema}_publication FOR ALL TABLES".encode())
        capturing = _capturing(logical, schema, publication__autocreate__mode="disabled")
        connection.execute(f"CREATE TABLE {schema}.late (id int PRIMARY KEY)".encode())
        connection.execute(f"INSERT INTO {schema}.late VALUES (1)".encode())
        assert [one["op"] for one in _envelopes(capturing, "late", 1)] == ["c"]
        capturing.task.stop()
        connection.execute(f"DROP PUBLICATION {schema}_publication".encode())


@pytest.mark.parametrize(
    ("mode", "first", "again"),
    [
        ("initial", ["r", "r", "c"], ["c"]),
        ("no_data", ["c"], ["c"]),
        ("never", ["c"], ["c"]),
        ("when_needed", ["r", "r", "c"], ["c"]),
        ("always", ["r", "r", "c"], ["r", "r", "r", "c"]),
        ("initial_only", ["r", "r"], []),
    ],
)
def test_modes_of_the_snapshot(logical: Postgres, mode: str, first: list[str], again: list[str]) -> None:
    """At the first start, and at a later one."""
    schema = f"mode_{mode}"
    _run(logical, f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.t (id int PRIMARY KEY)")
    _run(logical, f"INSERT INTO {schema}.t VALUES (1), (2)")
    capturing = _capturing(logical, schema, snapshot__mode=mode)
    wait_for(lambda: capturing.poll() == 0, "that the rows are read")
    _run(logical, f"INSERT INTO {schema}.t VALUES (3)")
    assert [one["op"] for one in _envelopes(capturing, "t", len(first))] == first
    capturing.restart()
    wait_for(lambda: capturing.poll() == 0, "that the rows are read again")
    _run(logical, f"INSERT INTO {schema}.t VALUES (4)")
    assert [one["op"] for one in _envelopes(capturing, "t", len(first + again))] == first + again
    capturing.task.stop()


def test_a_snapshot_waits_for_transactions_that_run(logical: Postgres, schema: str) -> None:
    """They may be in the log before the slot begins, and not be seen yet. Each row is read, or its change is."""
    _run(logical, f"CREATE TABLE {schema}.t (id int PRIMARY KEY)", f"INSERT INTO {schema}.t VALUES (1)")
    _run(logical, f"SELECT pg_create_logical_replication_slot('{schema}_slot', 'pgoutput')")
    with connected(logical, autocommit=False) as connection:
        connection.execute(f"INSERT INTO {schema}.t VALUES (2)".encode())
        capturing = _capturing(logical, schema)
        assert capturing.poll() == 0
        assert capturing.poll() == 0, "it waits"
        connection.commit()
    _envelopes(capturing, "t", 2)
    _run(logical, f"INSERT INTO {schema}.t VALUES (3)")
    assert [(one["op"], one["after"]["id"]) for one in _envelopes(capturing, "t", 3)] == [("r", 1), ("r", 2), ("c", 3)]
    capturing.task.stop()


def test_a_table_that_is_added_later(logical: Postgres, schema: str) -> None:
    """Its changes come from then on; its rows do not."""
    _run(logical, f"CREATE TABLE {schema}.t (id int PRIMARY KEY)", f"INSERT INTO {schema}.t VALUES (1)")
    _run(logical, f"CREATE TABLE {schema}.late (id int PRIMARY KEY)", f"INSERT INTO {schema}.late VALUES (1)")
    first = _capturing(logical, schema, table__include__list=rf"{schema}\.t")
    _envelopes(first, "t", 1)
    first.task.stop()
    later = properties(logical, schema, schema__include__list=schema, publication__autocreate__mode="filtered")
    second = Capturing(later, first.offset)
    wait_for(lambda: second.poll() == 0, "that it follows the log")
    _run(logical, f"INSERT INTO {schema}.late VALUES (2)", f"INSERT INTO {schema}.t VALUES (2)")
    assert [(one["op"], one["after"]["id"]) for one in _envelopes(second, "late", 1)] == [("c", 2)]
    assert [(one["op"], one["after"]["id"]) for one in _envelopes(second, "t", 1)] == [("c", 2)]
    second.task.stop()


@pytest.mark.parametrize("changes", [20_000, pytest.param(1_000_000, marks=pytest.mark.exhaustive)])
def test_a_huge_transaction(logical: Postgres, schema: str, changes: int) -> None:
    """It is divided, and resumed in its middle. What is held of it does not grow with it."""
    _run(logical, f"CREATE TABLE {schema}.t (id int PRIMARY KEY, version int, note text)")
    capturing = _capturing(logical, schema, provide__transaction__metadata="true")
    wait_for(lambda: capturing.poll() == 0, "that it follows the log")
    _run(logical, f"INSERT INTO {schema}.t SELECT n, 0, repeat('x', 100) FROM generate_series(1, {changes}) n")
    topic, count, memory = f"{schema}.{schema}.t", 0, 0
    while count < changes:
        capturing.poll()
        batch = capturing.written.pop(topic, [])
        for key, value, _ in batch:
            count += 1
            assert json.loads(key or b"") == {"id": count}
            assert json.loads(value or b"")["transaction"]["total_order"] == count
        if count > changes // 2 and not memory:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            capturing.poll(commit=False)
            capturing.restart()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000, "kilobytes"
    wait_for(lambda: capturing.poll() >= 0 and len(capturing.written[f"{schema}.transaction"]) >= 2, "its end", 60)
    begin, end = (json.loads(value or b"") for _, value, _ in capturing.written[f"{schema}.transaction"])
    assert (begin["status"], end["status"], end["event_count"]) == ("BEGIN", "END", changes)
    capturing.task.stop()
