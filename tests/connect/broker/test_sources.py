"""The sources that semel brings, without Kafka: databases whose rows are committed out of order, and globs of files."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from semel.connect.api import Setting, SourceBatch, SourceConnector, SourceTask, TaskContext
from semel.connect.config import WorkerConfig
from semel.connect.connector_config import ConnectorConfig, Examination
from semel.connect.connectors.datagen import DatagenSource
from semel.connect.connectors.files import FilesSource
from semel.connect.connectors.sql import SqlSource
from semel.connect.tasks.rows import rows_of
from semel.errors import ConfigError, DataLoss, Retriable
from semel.testing.postgres import Postgres
from tests.connect.unit.test_config import LINES, WORKER
from tests.support.waiting import wait_for


class Reader:
    """A connector's tasks, with the offsets that a worker would have kept."""

    def __init__(self, connector: SourceConnector, tasks: int = 1, **config: Any) -> None:
        named = {name.replace("_", "."): value for name, value in config.items()}
        defaults = {name: one.default for name, one in connector.config.items() if isinstance(one, Setting)}
        self.offsets: dict[str, Mapping[str, Any]] = {}
        self.values: list[Any] = []
        self._connector = connector
        self.given = connector.tasks({**defaults, **named}, tasks)
        self.tasks: list[SourceTask] = []
        self.start()

    def start(self) -> None:
        """Start tasks again, from the offsets."""
        for task in self.tasks:
            task.stop()
        self.tasks = [self._connector.task() for _ in self.given]
        for task, config in zip(self.tasks, self.given, strict=True):
            task.start(config, TaskContext(lambda partition: self.offsets.get(str(dict(partition)))))

    def poll(self) -> int:
        """Poll each task once. Returns how many rows came."""
        count = 0
        for task in self.tasks:
            polled = task.poll()
            if isinstance(polled, SourceBatch):
                assert polled.offset is not None
                self.values += polled.table["value"].to_pylist()
                self.offsets[str(dict(polled.partition))] = polled.offset
                count += polled.table.num_rows
        return count

    def read(self, rows: int) -> list[Any]:
        """Poll until so many rows have come in all."""

        def enough() -> bool:
            self.poll()
            return len(self.values) >= rows

        wait_for(enough, lambda: f"{rows} rows, not {self.values}", 60)
        return self.values


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def table(postgres: Postgres, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).partition("[")[0]
    with _connected(postgres) as connection:
        connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        connection.execute(
            f'CREATE TABLE "{name}" (id bigserial PRIMARY KEY, text text, at timestamp NOT NULL DEFAULT now())'
        )
    return name


def _connected(postgres: Postgres, *, autocommit: bool = True) -> psycopg.Connection[Any]:
    return psycopg.connect(f"host=127.0.0.1 port={postgres.port} user=postgres dbname=postgres", autocommit=autocommit)


def _reader(postgres: Postgres, table: str, **more: Any) -> Reader:
    given = {"mode": "incrementing", "incrementing_column_name": "id", "poll_interval_ms": 10, **more}
    url = f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres?user=postgres"
    return Reader(SqlSource(), connection_url=url, table_whitelist=[table], topic_prefix="db-", **given)


def test_rows_that_are_committed_out_of_order_are_not_passed_over(postgres: Postgres, table: str) -> None:
    reader = _reader(postgres, table)
    first, second = (_connected(postgres, autocommit=False) for _ in range(2))
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
    with _connected(postgres) as connection:
        connection.execute(f'ALTER SEQUENCE "{table}_id_seq" CACHE 20')
    with pytest.raises(ConfigError, match="each session takes 20 ids at once"):
        _reader(postgres, table)


def test_a_replica_which_does_not_see_who_writes_is_refused(postgres: Postgres, table: str) -> None:
    """At the start, and where the primary becomes one while the source reads."""
    insert = f'INSERT INTO "{table}" (text) VALUES (%s)'
    with _connected(postgres) as connection:
        connection.execute(insert, ["one"])
        reader = _reader(postgres, table)
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
            _reader(postgres, table)
    finally:
        postgres.become(replica=False)
    assert [row["text"] for row in reader.read(2)] == ["one", "two"]


def test_writers_beside_each_other(postgres: Postgres, table: str) -> None:
    reader = _reader(postgres, table, batch_max_rows=7)
    rows, writers = 40, 4

    def write(number: int) -> None:
        with _connected(postgres, autocommit=False) as connection:
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
    with _connected(postgres) as connection:
        connection.execute(f"INSERT INTO \"{table}\" (text) VALUES ('a')")
    reader = _reader(postgres, table)
    reader.read(1)
    postgres.kill()
    with pytest.raises(Retriable, match="starts again from its committed offsets"):
        reader.read(2)
    postgres.start()
    with _connected(postgres) as connection:
        connection.execute(f"INSERT INTO \"{table}\" (text) VALUES ('b')")
    reader.start()
    assert [row["text"] for row in reader.read(2)] == ["a", "b"]


def test_by_time_and_by_query(postgres: Postgres, table: str) -> None:
    insert = f"INSERT INTO \"{table}\" (text, at) VALUES (%s, timestamp '2020-01-01' + %s * interval '1.5 ms')"
    with _connected(postgres) as connection:
        for number in (3, 1, 1, 2):
            connection.execute(insert, [str(number), number])
        both = {"mode": "timestamp+incrementing", "timestamp_column_name": "at", "batch_max_rows": 1}
        reader = _reader(postgres, table, **both)
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
    reader = _reader(postgres, table, mode="timestamp", timestamp_column_name="at", batch_max_rows=most)
    with _connected(postgres, autocommit=False) as connection:
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


def test_times_are_compared_whatever_the_zone_of_the_server(postgres: Postgres, table: str) -> None:
    insert = f"INSERT INTO \"{table}\" (text, at) VALUES (%s, timestamptz '2020-01-01 10:00Z' + %s * interval '1 h')"
    with _connected(postgres) as connection:
        connection.execute(f'ALTER TABLE "{table}" ALTER COLUMN at TYPE timestamptz')
        connection.execute("ALTER ROLE postgres SET TimeZone TO 'America/New_York'")
        try:
            reader = _reader(postgres, table, mode="timestamp", timestamp_column_name="at")
            connection.execute(insert, ["first", 0])
            reader.read(1)
            connection.execute(insert, ["an hour later", 1])
            assert [row["text"] for row in reader.read(2)] == ["first", "an hour later"]
            assert [reader.poll() for _ in range(3)] == [0] * 3, "nothing comes twice"
        finally:
            connection.execute("ALTER ROLE postgres RESET TimeZone")


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
    with _connected(postgres) as connection:
        connection.execute(f'DROP TABLE "{table}"')
        columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in VALUES.items())
        connection.execute(f'CREATE TABLE "{table}" (id bigserial PRIMARY KEY, {columns}, other jsonb)')
        given = ", ".join(value for _, value, _ in VALUES.values())
        connection.execute(f"""INSERT INTO "{table}" VALUES (1, {given}, '{{"n": 1}}')""")
        connection.execute(f'INSERT INTO "{table}" (id) VALUES (2), (3), (4), (5)')
        for number, value in ((3, '"text"'), (4, "[1]"), (5, "null")):
            connection.execute(f'UPDATE "{table}" SET other = %s WHERE id = %s', [value, number])
    batch = _polled(_reader(postgres, table))
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
    with _connected(postgres) as connection:
        insert = f'INSERT INTO "{table}" (text, at) VALUES (%s, %s)'
        for text, at in (("a", "2020-01-01"), ("b", "infinity"), ("c", "0044-03-15 BC"), ("d", "2020-01-02")):
            connection.execute(insert, [text, at])
    batch = _polled(_reader(postgres, table))
    with pytest.raises(ConfigError, match=f"the row with id=2 of table {table} holds infinity in its column at"):
        _written(batch)
    made = _written(batch, **{"errors.tolerance": "all"})
    assert [json.loads(value)["text"] for _, values in made for value in values] == ["a", "d"]


def test_views_and_ids_without_a_sequence_are_not_exactly_once(postgres: Postgres, table: str) -> None:
    view, plain, part = f"{table}_view", f"{table}_plain", f"{table}_part"
    with _connected(postgres) as connection:
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
    found = Examination(given | more, worker).problems
    return [(problem.setting, f"{problem.text} {problem.remedy}") for problem in found]


def test_a_late_row_of_a_partition_is_waited_for(postgres: Postgres, table: str) -> None:
    """A writer of a partition has no lock on the table that is read, and one of the table none on each partition."""
    with _connected(postgres) as connection:
        connection.execute(f'DROP TABLE "{table}"')
        connection.execute(f'CREATE TABLE "{table}" (id bigserial, text text) PARTITION BY LIST (text)')
        for part in "ab":
            connection.execute(f'DROP TABLE IF EXISTS "{table}_{part}"')
            connection.execute(f"""CREATE TABLE "{table}_{part}" PARTITION OF "{table}" FOR VALUES IN ('{part}')""")
    reader = _reader(postgres, table, validate_non_null=False)
    with _connected(postgres, autocommit=False) as late, _connected(postgres) as soon:
        late.execute(f"INSERT INTO \"{table}_a\" VALUES (nextval('\"{table}_id_seq\"'), 'a')")
        soon.execute(f"INSERT INTO \"{table}\" (text) VALUES ('b')")
        assert [reader.poll() for _ in range(5)] == [0] * 5
        late.commit()
        assert [row["id"] for row in reader.read(2)] == [1, 2]


@pytest.mark.parametrize("mode", ["incrementing", "timestamp", "timestamp+incrementing"])
def test_columns_that_may_be_null_are_refused_or_their_rows_left_out(postgres: Postgres, mode: str) -> None:
    table = f"nulls_{mode}"
    with _connected(postgres) as connection:
        connection.execute(f'DROP TABLE IF EXISTS "{table}"')
        connection.execute(f'CREATE TABLE "{table}" (id bigint, at timestamp)')
        connection.execute(f"INSERT INTO \"{table}\" VALUES (1, '2020-01-01'), (NULL, NULL), (2, '2020-01-01')")
    columns = {"incrementing_column_name": "id", "timestamp_column_name": "at"}
    with pytest.raises(ConfigError, match=rf"may be null, and mode={mode.replace('+', '.')} passes over rows"):
        _reader(postgres, table, mode=mode, **columns)
    reader = _reader(postgres, table, mode=mode, validate_non_null=False, **columns)
    assert [row["id"] for row in reader.read(2)] == [1, 2]
    assert [reader.poll() for _ in range(3)] == [0] * 3


def test_a_column_of_days_is_no_column_of_times(postgres: Postgres, table: str) -> None:
    """More rows of a day may come, after those that were read."""
    with _connected(postgres) as connection:
        connection.execute(f'ALTER TABLE "{table}" ALTER COLUMN at TYPE date')
        connection.execute(f'INSERT INTO "{table}" (at) VALUES (%s)', ["2020-01-01"])
    reader = _reader(postgres, table, mode="timestamp", timestamp_column_name="at")
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
        with _connected(postgres) as connection:
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
            **{**config, "mode": "timestamp", "timestamp_column_name": "id"},
        )
    with pytest.raises(ConfigError, match="needs timestamp"):
        Reader(SqlSource(), table_whitelist=["orders"], **{**config, "mode": "timestamp"})
    with pytest.raises(ConfigError, match=r"connection\.url cannot be used") as refused:
        Reader(SqlSource(), table_whitelist=["orders"], **{**config, "connection_url": "nodb://me:secret@x"})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("tasks", [1, 3])
def test_globs_of_lines_json_and_csv(tmp_path: Path, tasks: int) -> None:
    (tmp_path / "deep").mkdir()
    for number in range(4):
        (tmp_path / f"{number}.csv").write_text(f"id,name\n{number},a\n{number + 10},b")
        (tmp_path / "deep" / f"{number}.json").write_text(f'{{"n":{number}}}\n{{"n":{number + 10}}}\n')
    common: dict[str, Any] = {"topic": "t", "batch_size": 1, "directory_poll_interval_ms": 0}
    csv = Reader(FilesSource(), tasks, files=str(tmp_path / "*.csv"), format="csv", **common)
    csv.read(4)
    csv.start()
    for number in range(4):
        with (tmp_path / f"{number}.csv").open("a") as file:
            file.write("\n")
    (tmp_path / "later.csv").write_text("id,name\n99,c\n")
    wanted = [{"id": str(n + more), "name": name} for n in range(4) for more, name in ((0, "a"), (10, "b"))]
    assert sorted(csv.read(9), key=str) == sorted([*wanted, {"id": "99", "name": "c"}], key=str)
    deep = Reader(FilesSource(), tasks, files=str(tmp_path / "**" / "*.json"), format="json", **common)
    assert sorted(row["n"] for row in deep.read(8)) == [0, 1, 2, 3, 10, 11, 12, 13]
    lines = Reader(FilesSource(), tasks, files=str(tmp_path / "later.csv"), format="lines", **common)
    assert lines.read(2) == ["id,name", "99,c"]


def test_texts_of_json_that_look_like_times_stay_texts(tmp_path: Path) -> None:
    lines = ['{"day":"2024-01-01","in":{"at":["2024-01-01 10:00:00"]}}', '{"day":"2024-01-02"}']
    (tmp_path / "days.json").write_text("\n".join(lines) + "\n")
    reader = Reader(FilesSource(), files=str(tmp_path / "*.json"), format="json", topic="t")
    assert reader.read(2) == [
        {"day": "2024-01-01", "in": {"at": ["2024-01-01 10:00:00"]}},
        {"day": "2024-01-02", "in": None},
    ]


def test_a_file_that_was_replaced_while_nothing_ran_is_not_read_from_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("one\ntwo\n")
    reader = Reader(FilesSource(), files=str(path), format="lines", topic="t")
    reader.read(2)
    path.unlink()
    path.write_text("a line that is longer\n")
    reader.start()
    with pytest.raises(DataLoss, match="no line ends at byte 8"):
        reader.poll()


def test_generated_records_go_on_where_they_stopped() -> None:
    reader = Reader(DatagenSource(), 2, topic="t", iterations=25, batch_size=10, record_size=5)
    reader.poll()
    reader.start()
    rows = sorted((row["task"], row["id"], row["text"]) for row in reader.read(50))
    assert rows == [(task, number, f"{number:x>5}") for task in range(2) for number in range(25)]
    assert reader.poll() == 0
    assert isinstance(reader.values, list)
    assert pa.array(reader.values).type.num_fields == 3
