"""Rows of a database that are committed out of order, or come late: none is passed over."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

import pytest

from semel.connect.connectors.sql import SqlSource
from semel.errors import ConfigError, Retriable
from semel.testing.postgres import Postgres
from tests.connect.support.reading import Reader, connected, table_reader
from tests.support.waiting import wait_for


def test_rows_that_are_committed_out_of_order_are_not_passed_over(postgres: Postgres, table: str) -> None:
    reader = table_reader(postgres, table)
    first, second = (connected(postgres, autocommit=False) for _ in range(2))
    insert = f'INSERT INTO "{table}" (text) VALUES (%s)'
    first.execute(insert, ["has id 1, and is committed last"])
    second.execute(insert, ["has id 2"])
    second.commit()
    assert [reader.poll() for _ in range(5)] == [0] * 5, "a lower id may still appear"
    with first.cursor() as cursor:  # the control: what reads the highest id would go on behind it
        assert cursor.execute(f'SELECT max(id) FROM "{table}"').fetchone() == (2,)
    first.commit()
    assert [row["id"] for row in reader.read(2)] == [1, 2]
    first.execute(insert, ["has id 3, and is rolled back"])
    second.execute(insert, ["has id 4"])
    second.commit()
    first.rollback()
    assert [row["id"] for row in reader.read(3)] == [1, 2, 4]
    assert list(reader.offsets.values()) == [{"incrementing": 4}]
    for connection in (first, second):
        connection.close()


def test_sessions_that_keep_ids_for_later_are_refused(postgres: Postgres, table: str) -> None:
    with connected(postgres) as connection:
        connection.execute(f'ALTER SEQUENCE "{table}_id_seq" CACHE 20')
    with pytest.raises(ConfigError, match="each session takes 20 ids at once"):
        table_reader(postgres, table)


def test_a_replica_which_does_not_see_who_writes_is_refused(postgres: Postgres, table: str) -> None:
    """At the start, and where the primary becomes one while the source reads."""
    insert = f'INSERT INTO "{table}" (text) VALUES (%s)'
    with connected(postgres) as connection:
        connection.execute(insert, ["one"])
        reader = table_reader(postgres, table)
        reader.read(1)
        connection.execute(insert, ["two"])
    postgres.become(replica=True)
    try:
        said: list[str] = []

        def refused() -> bool:
            try:
                reader.poll()
            except Retriable as error:
                said.append(error.message)
            return any("is a replica now" in one for one in said)

        wait_for(refused, lambda: f"a refusal, not {said}", 30)
        with pytest.raises(ConfigError, match="this server is a replica"):
            table_reader(postgres, table)
    finally:
        postgres.become(replica=False)
    assert [row["text"] for row in reader.read(2)] == ["one", "two"]


def test_writers_beside_each_other(postgres: Postgres, table: str) -> None:
    reader = table_reader(postgres, table, batch_max_rows=7)
    rows, writers = 40, 4

    def write(number: int) -> None:
        with connected(postgres, autocommit=False) as connection:
            for index in range(rows):
                connection.execute(f'INSERT INTO "{table}" (text) VALUES (%s)', [f"{number}.{index}"])
                if index % 3 == number % 3:
                    connection.commit()

    threads = [threading.Thread(target=write, args=[number]) for number in range(writers)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        reader.poll()
        reader.start()  # as after a crash: the offsets are all that is left
    for thread in threads:
        thread.join()
    ids = [row["id"] for row in reader.read(rows * writers)]
    assert ids == sorted(set(ids))
    assert {row["text"] for row in reader.values} == {f"{n}.{i}" for n in range(writers) for i in range(rows)}


def test_a_database_that_is_killed_is_waited_for(postgres: Postgres, table: str) -> None:
    with connected(postgres) as connection:
        connection.execute(f"INSERT INTO \"{table}\" (text) VALUES ('a')")
    reader = table_reader(postgres, table)
    reader.read(1)
    postgres.kill()
    with pytest.raises(Retriable, match="starts again from its committed offsets"):
        reader.read(2)
    postgres.start()
    with connected(postgres) as connection:
        connection.execute(f"INSERT INTO \"{table}\" (text) VALUES ('b')")
    reader.start()
    assert [row["text"] for row in reader.read(2)] == ["a", "b"]


def test_by_time_and_by_query(postgres: Postgres, table: str) -> None:
    insert = f"INSERT INTO \"{table}\" (text, at) VALUES (%s, timestamp '2020-01-01' + %s * interval '1.5 ms')"
    with connected(postgres) as connection:
        for number in (3, 1, 1, 2):
            connection.execute(insert, [str(number), number])
        both = {"mode": "timestamp+incrementing", "timestamp_column_name": ["at"], "batch_max_rows": 1}
        reader = table_reader(postgres, table, **both)
        assert [(row["text"], row["id"]) for row in reader.read(4)] == [("1", 2), ("1", 3), ("2", 4), ("3", 1)]
        ms = 1_577_836_800_004
        assert list(reader.offsets.values()) == [{"incrementing": 1, "timestamp": ms, "timestamp_nanos": 4_500_000}]
        reader.start()
        connection.execute(f"UPDATE \"{table}\" SET text = 'new', at = timestamp '2020-01-02' WHERE id = 2")
        assert reader.read(5)[4]["text"] == "new"
        query = f"SELECT id, text || '!' AS loud FROM \"{table}\" WHERE id > 1"
        given: dict[str, Any] = {"table_whitelist": [], "query": query}
        by_query = Reader(
            SqlSource(),
            connection_url=f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres",
            mode="incrementing",
            incrementing_column_name="id",
            topic_prefix="loud",
            poll_interval_ms=10,
            **given,
        )
        assert [row["loud"] for row in by_query.read(3)] == ["new!", "1!", "2!"]


def test_rows_of_one_time_are_not_divided(postgres: Postgres, table: str) -> None:
    """A load in one transaction has one time, and the next batch begins after a time. The control: a batch is smaller
    than the load.
    """
    most = 3
    reader = table_reader(postgres, table, mode="timestamp", timestamp_column_name=["at"], batch_max_rows=most)
    with connected(postgres, autocommit=False) as connection:
        for number in range(5):
            connection.execute(f'INSERT INTO "{table}" (text) VALUES (%s)', [str(number)])
        connection.commit()
        assert len(reader.read(5)) == 5 > most
        for number in range(5, 9):
            connection.execute(f'INSERT INTO "{table}" (text) VALUES (%s)', [str(number)])
            if number != 6:
                connection.commit()
        reader.start()
        assert sorted(row["text"] for row in reader.read(9)) == [str(number) for number in range(9)]


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_the_first_of_several_times_counts(postgres: Postgres, table: str, mode: str) -> None:
    """As people write ``updated_at,created_at``. The column that is never null says the time of all others."""
    columns = {"mode": mode, "timestamp_column_name": ["updated", "at"], "batch_max_rows": 2}
    with connected(postgres) as connection:
        connection.execute(f'ALTER TABLE "{table}" ADD COLUMN updated timestamp')
        insert = f"INSERT INTO \"{table}\" (text, at) VALUES (%s, timestamp '2020-01-01' + %s * interval '1 h')"
        for number in (1, 3, 2):
            connection.execute(insert, [str(number), number])
        reader = table_reader(postgres, table, **columns)
        assert [row["text"] for row in reader.read(3)] == ["1", "2", "3"]
        connection.execute(f"UPDATE \"{table}\" SET updated = '2020-01-02' WHERE text = '1'")
        connection.execute(f"UPDATE \"{table}\" SET updated = '2020-01-01 02:30' WHERE text = '2'")  # passed already
        reader.start()
        assert [(row["text"], row["updated"]) for row in reader.read(4)[3:]] == [("1", datetime(2020, 1, 2))]
        assert [reader.poll() for _ in range(3)] == [0] * 3


@pytest.mark.parametrize(("mode", "first"), [("timestamp", "2"), ("timestamp+incrementing", "1")])
def test_a_table_is_read_from_a_time_on(postgres: Postgres, table: str, mode: str, first: str) -> None:
    """The time itself counts where ids tell rows apart, as in the JDBC source. An offset counts more."""
    moment = 1_577_840_400_000  # 2020-01-01 01:00
    with connected(postgres) as connection:
        insert = f"INSERT INTO \"{table}\" (text, at) VALUES (%s, timestamp '2020-01-01' + %s * interval '1 h')"
        for number in range(4):
            connection.execute(insert, [str(number), number])
        columns = {"mode": mode, "timestamp_column_name": ["at"], "batch_max_rows": 1}
        reader = table_reader(postgres, table, timestamp_initial=moment, **columns)
        expected = [str(number) for number in range(int(first), 4)]
        assert [row["text"] for row in reader.read(len(expected))] == expected
        reader.start()
        assert [reader.poll() for _ in range(3)] == [0] * 3
        now = table_reader(postgres, table, timestamp_initial=-1, **columns)
        assert [now.poll() for _ in range(3)] == [0] * 3
        connection.execute(f"INSERT INTO \"{table}\" (text, at) VALUES ('new', timezone('UTC', now()))")
        assert [row["text"] for row in now.read(1)] == ["new"]


def test_times_are_compared_whatever_the_zone_of_the_server(postgres: Postgres, table: str) -> None:
    insert = f"INSERT INTO \"{table}\" (text, at) VALUES (%s, timestamptz '2020-01-01 10:00Z' + %s * interval '1 h')"
    with connected(postgres) as connection:
        connection.execute(f'ALTER TABLE "{table}" ALTER COLUMN at TYPE timestamptz')
        connection.execute("ALTER ROLE postgres SET TimeZone TO 'America/New_York'")
        try:
            reader = table_reader(postgres, table, mode="timestamp", timestamp_column_name=["at"])
            connection.execute(insert, ["first", 0])
            reader.read(1)
            connection.execute(insert, ["an hour later", 1])
            assert [row["text"] for row in reader.read(2)] == ["first", "an hour later"]
            assert [reader.poll() for _ in range(3)] == [0] * 3, "nothing comes twice"
        finally:
            connection.execute("ALTER ROLE postgres RESET TimeZone")


def test_a_late_row_of_a_partition_is_waited_for(postgres: Postgres, table: str) -> None:
    """A writer of a partition has no lock on the table that is read, and one of the table none on each partition."""
    with connected(postgres) as connection:
        connection.execute(f'DROP TABLE "{table}"')
        connection.execute(f'CREATE TABLE "{table}" (id bigserial, text text) PARTITION BY LIST (text)')
        for part in "ab":
            connection.execute(f'DROP TABLE IF EXISTS "{table}_{part}"')
            connection.execute(f"""CREATE TABLE "{table}_{part}" PARTITION OF "{table}" FOR VALUES IN ('{part}')""")
    reader = table_reader(postgres, table, validate_non_null=False)
    with connected(postgres, autocommit=False) as late, connected(postgres) as soon:
        late.execute(f"INSERT INTO \"{table}_a\" VALUES (nextval('\"{table}_id_seq\"'), 'a')")
        soon.execute(f"INSERT INTO \"{table}\" (text) VALUES ('b')")
        assert [reader.poll() for _ in range(5)] == [0] * 5
        late.commit()
        assert [row["id"] for row in reader.read(2)] == [1, 2]
