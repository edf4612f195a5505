"""What cannot be captured is refused before anything is read, and what may be missing stops the task."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from semel.connect.connectors.postgres.replication import LogStream
from semel.errors import ConfigError, DataLoss, Retriable
from semel.testing.postgres import Postgres
from tests.connect.support.capturing import Capturing, properties
from tests.connect.support.reading import connected
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def logical() -> Iterator[Postgres]:
    with Postgres(wal_level="logical", max_replication_slots="40", wal_sender_timeout="5s") as server:
        yield server


@pytest.fixture
def table(logical: Postgres, request: pytest.FixtureRequest) -> str:
    """A table with a row, and the name of a connector for it."""
    name = str(request.node.name).partition("[")[0][:50]
    _run(logical, f"CREATE TABLE {name} (id int PRIMARY KEY, note text)", f"INSERT INTO {name} VALUES (1, 'one')")
    return name


def _run(postgres: Postgres, *statements: str) -> None:
    with connected(postgres) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _config(postgres: Postgres, name: str, **more: str) -> dict[str, str]:
    given = {"table__include__list": f"public.{name}", "publication__autocreate__mode": "filtered", **more}
    return properties(postgres, name, **given)


def _values(capturing: Capturing, count: int) -> None:
    def enough() -> bool:
        capturing.poll()
        return sum(map(len, capturing.written.values())) >= count

    wait_for(enough, lambda: f"{count} records, not {capturing.written}", 60)


def test_a_server_without_a_logical_log() -> None:
    with Postgres() as postgres, pytest.raises(ConfigError, match="Set wal_level=logical"):
        Capturing(properties(postgres, "plain"))


def test_a_login_that_is_wrong(logical: Postgres, table: str) -> None:
    with pytest.raises(ConfigError, match="refuses the login"):
        Capturing(_config(logical, table, database__dbname="nowhere"))
    with pytest.raises(Retriable, match="the database cannot be read"):
        Capturing(_config(logical, table) | {"database.port": "1"})


def test_a_publication_that_is_missing(logical: Postgres, table: str) -> None:
    with pytest.raises(ConfigError, match="CREATE PUBLICATION"):
        Capturing(_config(logical, table, publication__autocreate__mode="disabled"))
    with pytest.raises(ConfigError, match=r"Correct table\.include\.list"):
        Capturing(_config(logical, table, table__include__list="public.typo"))


def test_rights_that_are_missing(logical: Postgres, table: str) -> None:
    _run(logical, "CREATE ROLE reader LOGIN")
    config = _config(logical, table) | {"database.user": "reader"}
    with pytest.raises(ConfigError, match=rf"Have its owner run: CREATE PUBLICATION .*{table}"):
        Capturing(config)
    _run(logical, f'CREATE PUBLICATION "{table}_publication" FOR TABLE {table}')
    with pytest.raises(ConfigError, match=f"GRANT SELECT ON TABLE public.{table} TO reader"):
        Capturing(config)
    _run(logical, f"GRANT SELECT ON TABLE {table} TO reader")
    with pytest.raises(ConfigError, match="ALTER ROLE reader REPLICATION"):
        Capturing(config)
    _run(logical, "ALTER ROLE reader REPLICATION")
    _values(Capturing(config), 1)


def test_a_slot_that_another_reads(logical: Postgres, table: str) -> None:
    """It is waited for as long as PostgreSQL keeps a reader that is gone, and is named after that."""
    first = Capturing(_config(logical, table))
    _values(first, 1)
    wait_for(partial(_streams, first), "that it follows the log")
    second = Capturing(_config(logical, table))

    with pytest.raises(ConfigError, match="is read by another program, process"):
        wait_for(lambda: first.poll() + second.poll() < 0, "that the second one is refused", 60)
    first.task.stop()


def _streams(capturing: Capturing) -> bool:
    capturing.poll()
    return isinstance(getattr(capturing.task, "_stream", None), LogStream)


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        ("SELECT pg_drop_replication_slot('{0}_slot')", "is gone, and this connector had read up to"),
        (
            "SELECT pg_replication_slot_advance('{0}_slot', pg_current_wal_insert_lsn())",
            "begins at .* now, and this connector had read up to",
        ),
    ],
)
def test_a_log_that_is_missing(logical: Postgres, table: str, happens: str, said: str) -> None:
    _run(logical, f"DELETE FROM {table} WHERE id > 1")
    capturing = Capturing(_config(logical, table))
    _values(capturing, 1)
    capturing.task.stop()
    _run(logical, f"INSERT INTO {table} VALUES (2, 'missed')", happens.format(table))
    with pytest.raises(DataLoss, match=said):
        capturing.start()
    needed = Capturing(_config(logical, table, snapshot__mode="when_needed"), capturing.offset)
    _values(needed, 2)
    needed.task.stop()
    _run(logical, f"SELECT pg_drop_replication_slot('{table}_slot')", f"DROP TABLE {table}")


@pytest.mark.parametrize(
    "more",
    [
        {"slot.name": "Not A Slot"},
        {"skipped.operations": "x"},
        {"plugin.name": "decoderbufs"},
        {"slot.drop.on.stop": "true"},
        {"snapshot.select.statement.overrides": "public.t"},
    ],
)
def test_settings_that_would_change_the_records(logical: Postgres, more: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(more)).replace(".", r"\.")):
        Capturing(properties(logical, "settings") | more)


def test_a_key_that_the_replica_identity_hides(logical: Postgres, table: str) -> None:
    _run(
        logical,
        f"ALTER TABLE {table} ADD other int NOT NULL DEFAULT 1",
        f"CREATE UNIQUE INDEX {table}_other ON {table} (other)",
        f"ALTER TABLE {table} REPLICA IDENTITY USING INDEX {table}_other",
    )
    capturing = Capturing(_config(logical, table, snapshot__mode="no_data"))
    _run(logical, f"INSERT INTO {table} VALUES (5, 'five', 5)")
    _values(capturing, 1)
    _run(logical, f"DELETE FROM {table}")

    with pytest.raises(ConfigError, match="hides the old id"):
        wait_for(lambda: capturing.poll() < 0, "that the delete is refused", 60)


def test_a_quiet_table_does_not_hold_the_log_back(logical: Postgres, table: str) -> None:
    """Other tables are written. Heartbeats move the slot."""
    _run(logical, f"CREATE TABLE {table}_other AS SELECT generate_series(1, 1000) AS n")
    query = f"INSERT INTO public.{table}_other VALUES (-1)"
    capturing = Capturing(_config(logical, table, heartbeat__interval__ms="50", heartbeat__action__query=query))
    _values(capturing, 1)
    with connected(logical) as connection:
        (end,) = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone() or ("",)

        def moved() -> bool:
            capturing.poll()
            question = "SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE slot_name = %s"
            row: Any = connection.execute(question, [end, f"{table}_slot"]).fetchone()
            return bool(row[0])

        wait_for(moved, "that the slot moves", 60)
        assert connection.execute(f"SELECT 1 FROM {table}_other WHERE n = -1".encode()).fetchone() is not None
    capturing.restart()
    assert f"__debezium-heartbeat.{table}" in capturing.written
    capturing.task.stop()
