"""What would lose or double changes without a sound: each arrives once, or the task says why not."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from semel.errors import ConfigError, DataLoss, Retriable
from semel.testing.postgres import Postgres
from tests.connect.support.capturing import Capturing, properties
from tests.connect.support.reading import connected
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(wal_level="logical", max_replication_slots="40", max_wal_senders="40") as postgres:
        yield postgres


def run(postgres: Postgres, *statements: str) -> None:
    with connected(postgres) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def config(postgres: Postgres, name: str, tables: str, **more: str) -> dict[str, str]:
    given = {"table__include__list": tables, "publication__autocreate__mode": "filtered", **more}
    return properties(postgres, name, **given)


def ids(capturing: Capturing) -> list[int]:
    return [json.loads(key)["id"] for rows in capturing.written.values() for key, _, _ in rows if key is not None]


def until(capturing: Capturing, count: int) -> None:
    def enough() -> bool:
        capturing.poll()
        return len(ids(capturing)) >= count

    wait_for(enough, lambda: f"{count} records, not {ids(capturing)}")


def test_two_connectors_share_a_publication(server: Postgres) -> None:
    """The second one takes no table away from the first."""
    run(server, *(f"CREATE TABLE shared_{name} (id int PRIMARY KEY)" for name in ("one", "two")))
    shared = {"publication.name": "shared"}
    one = Capturing(config(server, "shared_one", r"public\.shared_one") | shared)
    one.poll()
    two = Capturing(config(server, "shared_two", r"public\.shared_two") | shared)
    for number in (1, 2):
        run(server, *(f"INSERT INTO shared_{name} VALUES ({number})" for name in ("one", "two")))
        until(one, number)
        until(two, number)
        one.restart()
    assert (ids(one), ids(two)) == ([1, 2], [1, 2])


@pytest.mark.parametrize("commit", ["async", "rolled back"])
def test_the_server_dies_behind_what_a_session_saw(commit: str) -> None:
    """After a crash PostgreSQL gives the numbers of transactions that were not flushed to others."""
    with Postgres(wal_level="logical", wal_buffers="64MB", wal_writer_delay="10s") as postgres:
        run(postgres, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (v text)", "INSERT INTO t VALUES (1)")
        capturing = Capturing(config(postgres, "dies", r"public\.t"))
        asynchronous = commit == "async"
        run(
            postgres,
            f"SET synchronous_commit = {'off' if asynchronous else 'on'}",
            "BEGIN",
            "INSERT INTO t VALUES (2)",
            "INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 200)",
            "COMMIT" if asynchronous else "ROLLBACK",
        )
        capturing.poll()
        postgres.kill()
        postgres.start()
        run(postgres, "INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (4)")
        capturing.task.stop()
        capturing.start()
        expected = [1, 2, 3, 4] if asynchronous else [1, 3, 4]
        until(capturing, len(expected))
        assert sorted(ids(capturing)) == expected


def test_rows_that_a_policy_hides_are_not_left_out(server: Postgres) -> None:
    run(
        server,
        "CREATE ROLE governed LOGIN REPLICATION",
        "CREATE TABLE hidden (id int PRIMARY KEY)",
        "INSERT INTO hidden VALUES (1)",
        "ALTER TABLE hidden ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY nothing ON hidden USING (false)",
        "GRANT SELECT ON hidden TO governed",
        "CREATE PUBLICATION hidden_publication FOR TABLE hidden",
    )
    capturing = Capturing(
        config(server, "hidden", r"public\.hidden", publication__autocreate__mode="disabled")
        | {"database.user": "governed"}
    )
    with pytest.raises(ConfigError, match="row-level security"):
        until(capturing, 1)


def test_a_partitioned_table_whose_partitions_are_not_captured(server: Postgres) -> None:
    run(
        server,
        "CREATE TABLE parted (id int, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
        "CREATE TABLE parted_eu PARTITION OF parted FOR VALUES IN ('eu')",
        "INSERT INTO parted VALUES (1, 'eu')",
    )
    with pytest.raises(ConfigError, match="publish_via_partition_root"):
        Capturing(config(server, "parted", r"public\.parted"))
    both = Capturing(config(server, "parted_both", r"public\.parted,public\.parted_eu"))
    until(both, 1)
    run(server, "ALTER PUBLICATION parted_publication SET (publish_via_partition_root = true)")
    root = Capturing(config(server, "parted", r"public\.parted"))
    until(root, 1)
    assert list(root.written) == ["parted.public.parted"]


def test_a_publication_that_was_dropped(server: Postgres) -> None:
    run(server, "CREATE TABLE unpublished (id int PRIMARY KEY)", "INSERT INTO unpublished VALUES (1)")
    capturing = Capturing(config(server, "unpublished", r"public\.unpublished"))
    until(capturing, 1)
    capturing.task.stop()
    run(server, "DROP PUBLICATION unpublished_publication", "INSERT INTO unpublished VALUES (2)")
    with pytest.raises(DataLoss, match="publication unpublished_publication is gone"):
        capturing.start()


def test_a_table_that_is_made_again_before_its_snapshot(server: Postgres) -> None:
    run(server, "CREATE TABLE again (id int PRIMARY KEY)", "INSERT INTO again VALUES (1)")
    capturing = Capturing(config(server, "again", r"public\.again"))
    run(server, "DROP TABLE again", "CREATE TABLE again (id int PRIMARY KEY, v text)")
    run(server, "INSERT INTO again VALUES (2, 'two')")
    with pytest.raises(Retriable, match="was made again"):
        until(capturing, 1)
    capturing.restart()
    until(capturing, 1)
    assert ids(capturing) == [2]


def test_a_replica_identity_without_the_key(server: Postgres) -> None:
    run(
        server,
        "CREATE TABLE identified (id int PRIMARY KEY, code text NOT NULL)",
        "CREATE UNIQUE INDEX identified_code ON identified (code)",
        "ALTER TABLE identified REPLICA IDENTITY USING INDEX identified_code",
    )
    with pytest.raises(ConfigError, match="without its whole primary key"):
        Capturing(config(server, "identified", r"public\.identified"))


def test_heartbeats_do_not_leave_a_transaction_that_is_resumed() -> None:
    """The server says how far it is while it still decodes the transaction."""
    with Postgres(wal_level="logical", wal_sender_timeout="1s") as postgres:
        run(postgres, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int, v text)")
        given = config(postgres, "beats", r"public\.t", snapshot__mode="no_data", max__batch__size="10")
        capturing = Capturing(given)
        run(
            postgres,
            "BEGIN",
            "INSERT INTO other SELECT n, repeat('x', 100) FROM generate_series(1, 400000) n",
            "INSERT INTO t SELECT n FROM generate_series(1, 100) n",
            "COMMIT",
        )
        until(capturing, 30)
        capturing.task.stop()
        resumed = Capturing({**given, "heartbeat.interval.ms": "100"}, capturing.offset)
        resumed.written = capturing.written
        before, began = len(ids(resumed)), time.monotonic()
        while len(ids(resumed)) == before:
            resumed.poll()
            assert resumed.offset is not None
            assert resumed.offset["transaction_lsn"] > 0, "a heartbeat has left the transaction"
            assert time.monotonic() - began < 300
        resumed.restart()
        until(resumed, 100)
        assert max(Counter(ids(resumed)).values()) == 1
