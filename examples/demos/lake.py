"""The end of ``make connect-demo``: a table by its log to Kafka, and from there to another table and to Parquet.

Tasks of the source and of the sinks are killed with SIGKILL while rows change, and the worker as well. DuckDB counts
the files. Beside them runs a sink that is at least once, as the control: its lines come again.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import psycopg
from rich.console import Console

from examples.demos.worker import command, end, kill, wait
from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.steps import ConnectStep, SinkTaskStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.postgres import Postgres
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import SparkCluster
from semel.wire.api import topics
from semel.wire.client import Client

__all__ = ["Flow", "Target", "flow"]

Pairs = Counter[tuple[int, int]]

ROWS, CHANGED, ADDED = 3_000, 300, 60
_SPARK = SparkCluster("local[10,4]", workers=sys.executable)
_JSON = "org.apache.kafka.connect.json.JsonConverter"
#: Killed before the worker is, and after it.
_BEFORE = (CrashPoint(ConnectStep.RECORDS_WRITTEN, 2), CrashPoint(SinkTaskStep.ROWS_SENT, 6))
_AFTER = (CrashPoint(ConnectStep.OFFSETS_SENT, 8), CrashPoint(SinkTaskStep.TARGET_COMMITTED, 14))
_UNWRAP = {"transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
#: Deletes are no rows of a file.
_WITHOUT_DELETES = {**_UNWRAP, "transforms.unwrap.delete.tombstone.handling.mode": "drop"}
_TOPIC = "shop.public.goods"
_LINE = re.compile(r"Struct\{id=(\d+),version=(\d+)\}")


@dataclass(frozen=True, slots=True)
class Target:
    """The rows that a reader of its own finds in a target."""

    name: str
    promise: str
    rows: int
    lost: int
    doubled: int


@dataclass(frozen=True, slots=True)
class Flow:
    """What came out of the run. The last target is the control."""

    targets: list[Target]
    kills: int
    seconds: float

    def as_promised(self) -> bool:
        """Return whether all targets but the control are exact, and the control has doubles."""
        *exact, control = self.targets
        return not any(one.lost or one.doubled for one in exact) and not control.lost and control.doubled > 0


class _Goods:
    """The table that changes. ``pairs`` are all ids with all versions that they had."""

    def __init__(self, postgres: Postgres) -> None:
        self.address = postgres.url.replace("+psycopg", "")
        self.pairs: Pairs = Counter((number, 0) for number in range(ROWS))
        self._rounds = 0
        with psycopg.connect(self.address) as connection:
            connection.execute("CREATE TABLE goods (id int PRIMARY KEY, version int NOT NULL)")
            connection.execute(f"INSERT INTO goods SELECT n, 0 FROM generate_series(0, {ROWS - 1}) n".encode())

    def change(self) -> None:
        """Update some rows, add others, delete some of those."""
        first, new = self._rounds * CHANGED % ROWS, ROWS + self._rounds * ADDED
        self._rounds += 1
        with psycopg.connect(self.address) as connection:
            changed = connection.execute(
                "UPDATE goods SET version = version + 1 WHERE id >= %s AND id < %s RETURNING id, version",
                (first, first + CHANGED),
            )
            self.pairs.update(changed.fetchall())
            connection.execute(
                "INSERT INTO goods SELECT n, 0 FROM generate_series(%s::int, %s::int) n", (new, new + ADDED - 1)
            )
            self.pairs.update((number, 0) for number in range(new, new + ADDED))
            connection.execute("DELETE FROM goods WHERE id >= %s AND id < %s", (new, new + ADDED // 3))

    def rows(self, table: str) -> Pairs:
        """Return the rows of a table."""
        try:
            with psycopg.connect(self.address) as connection:
                return Counter(connection.execute(f"SELECT id, version FROM {table}".encode()).fetchall())
        except psycopg.errors.UndefinedTable:
            return Counter()


def flow(console: Console, kafka: Sandbox, folder: Path) -> Flow:
    """Run it, and count what is in the targets."""
    began, plan = time.monotonic(), CrashPlan(folder / "plan-lake", *_BEFORE, *_AFTER)
    with Postgres(wal_level="logical") as postgres:
        goods = _Goods(postgres)
        with Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as client:
            topics.create(client, _TOPIC, partitions=2, replication=1, config={})
        argv = command(folder, _properties(kafka.bootstrap_servers, postgres, folder))
        with _SPARK.driver(argv, plan) as worker:
            wait(worker, lambda: goods.rows("goods_copy") == goods.rows("goods") and bool(_lines(folder)))
            _change_until_struck(worker, plan, _BEFORE, goods)
            console.print("tasks of the source and of a sink were killed; now the whole worker")
            kill(worker)
        with _SPARK.driver(argv, plan) as worker:
            _change_until_struck(worker, plan, _AFTER, goods)
            wait(
                worker,
                lambda: (
                    goods.rows("goods_copy") == goods.rows("goods")
                    and all(found(folder).keys() >= goods.pairs.keys() for found in (_parquet, _lines))
                ),
            )
            end(worker)
        kills = 1 + sum(plan.struck(point) for point in plan.points)
        targets = [
            _target("PostgreSQL, SqlSink", "each once", goods.rows("goods"), goods.rows("goods_copy")),
            _target("Parquet, FileSink (by DuckDB)", "each once", goods.pairs, _parquet(folder)),
            _target("lines, FileStreamSink", "at least once", goods.pairs, _lines(folder)),
        ]
    return Flow(targets, kills, time.monotonic() - began)


def _target(name: str, promise: str, expected: Pairs, found: Pairs) -> Target:
    lost, more = sum((expected - found).values()), sum((found - expected).values())
    return Target(name, promise, sum(found.values()), lost, more)


def _parquet(folder: Path) -> Pairs:
    """Read the files by a client that is not semel's."""
    if not list(folder.glob("lake/topics/*/*/*.parquet")):
        return Counter()
    pattern = str(folder / "lake/topics/*/*/*.parquet")
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT id, version FROM read_parquet(?)", [pattern]).fetchall()
    return Counter(rows)


def _lines(folder: Path) -> Pairs:
    file = folder / "lines.out"
    text = file.read_text() if file.exists() else ""
    return Counter((int(number), int(version)) for number, version in _LINE.findall(text))


def _properties(servers: str, postgres: Postgres, folder: Path) -> dict[str, Mapping[str, str]]:
    sink = {
        "topics": _TOPIC,
        "consumer.override.session.timeout.ms": "6000",
        "consumer.override.max.poll.interval.ms": "8000",
    }
    return {
        "lake-worker": {
            "bootstrap.servers": servers,
            "group.id": "demo-lake",
            "offset.storage.topic": "demo-lake-offsets",
            "key.converter": _JSON,
            "value.converter": _JSON,
            "exactly.once.source.support": "enabled",
        },
        "lake-goods": {
            "name": "goods",
            "connector.class": "PostgresCdcSource",
            "database.hostname": "127.0.0.1",
            "database.port": str(postgres.port),
            "database.user": "postgres",
            "database.dbname": "postgres",
            "topic.prefix": "shop",
            "table.include.list": r"public\.goods",
            "publication.autocreate.mode": "filtered",
            "poll.interval.ms": "100",
            "max.batch.size": "1000",
        },
        "lake-copy": {
            "name": "copy",
            "connector.class": "SqlSink",
            "connection.url": postgres.url,
            "tasks.max": "2",
            "table.name.format": "goods_copy",
            "auto.create": "true",
            "insert.mode": "upsert",
            "pk.mode": "record_key",
            "delete.enabled": "true",
            **sink,
            **_UNWRAP,
        },
        "lake-lake": {
            "name": "lake",
            "connector.class": "FileSink",
            "path": str(folder / "lake"),
            "tasks.max": "2",
            "format.class": "ParquetFormat",
            "flush.size": "1000",
            "rotate.schedule.interval.ms": "500",
            **sink,
            **_WITHOUT_DELETES,
        },
        "lake-lines": {
            "name": "lines",
            "connector.class": "FileStreamSink",
            "file": str(folder / "lines.out"),
            **sink,
            **_WITHOUT_DELETES,
        },
    }


def _change_until_struck(worker: Program, plan: CrashPlan, points: tuple[CrashPoint, ...], goods: _Goods) -> None:
    def struck() -> bool:
        if goods.rows("goods_copy") == goods.rows("goods"):
            goods.change()
        return all(map(plan.struck, points))

    wait(worker, struck)
