"""A sink under kills, its topic, and what an independent client finds in its target. No key hides a second record."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

import boto3
import duckdb
import psycopg
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from semel.testing.postgres import Postgres
from tests.support import topics
from tests.support.other_client import produce
from tests.support.s3 import ObjectStore
from tests.support.waiting import wait_for

SCHEMA = {"type": "struct", "optional": False, "fields": [{"field": "n", "type": "int32", "optional": False}]}
_numbers = count(1)


class Records:
    """A sink of two tasks, its topic of three partitions, and what is in its target."""

    def __init__(self, servers: str, **target: str) -> None:
        self.name, self.count, self._servers = f"sink-kills-{next(_numbers)}", 0, servers
        topics.create(servers, self.name, 3)
        self.properties = {
            "name": self.name,
            "topics": self.name,
            "tasks.max": "2",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "consumer.override.max.poll.records": "20",
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.max.poll.interval.ms": "8000",  # a task that is held does not hold up the group
            **target,
        }
        self.produce(300)

    def produce(self, count: int) -> None:
        """Write more records."""
        numbers = range(self.count, self.count + count)
        self.count += count
        values = ({"value": json.dumps({"schema": SCHEMA, "payload": {"n": n}}), "partition": n % 3} for n in numbers)
        produce(self._servers, self.name, values)

    def keep_coming(self) -> None:
        """Write more records once all are written: a look at them costs more, the more there are."""
        if len(self.written()) == self.count:
            self.produce(90)

    def written(self) -> Counter[int]:
        """Return how often each record is in the target."""
        raise NotImplementedError

    def wait_all(self, what: Callable[[], str]) -> None:
        """Wait until each record is there."""
        wait_for(lambda: len(self.written()) == self.count, what)

    def check_exact(self) -> None:
        assert self.written() == Counter(range(self.count))


class Rows(Records):
    """Rows of a table."""

    def __init__(self, servers: str, postgres: Postgres, **more: str) -> None:
        self._postgres = postgres
        target = {
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "connection.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres",
            "connection.user": "postgres",
            "auto.create": "true",
            "retry.backoff.ms": "200",
            "max.retries": "1000",
        }
        super().__init__(servers, **{**target, **more})

    def written(self) -> Counter[int]:
        try:
            with psycopg.connect(self._postgres.url.replace("+psycopg", "")) as connection:
                return Counter(n for (n,) in connection.execute(f'SELECT n FROM "{self.name}"').fetchall())
        except (psycopg.errors.UndefinedTable, psycopg.OperationalError):
            return Counter()


class Lines(Records):
    """Lines of files. Each has ten records, which come in three or more batches: all that is produced fills files."""

    def __init__(self, servers: str, folder: Path, **more: str) -> None:
        self._folder = folder
        files = {"connector.class": "FileSink", "path": str(folder), "flush.size": "10"}
        super().__init__(servers, **{**files, "consumer.override.max.poll.records": "4", **more})

    def written(self) -> Counter[int]:
        texts = (one.read_text() for one in self._folder.glob("topics/*/*/[!.]*.json"))
        return Counter(json.loads(line)["n"] for text in texts for line in text.splitlines())


class Objects(Lines):
    """The same, as objects of a bucket."""

    def __init__(self, servers: str, store: ObjectStore, **more: str) -> None:
        keys, self._bucket = store.keys(), store.folder.partition("://")[2]
        login = {"aws_access_key_id": keys["aws.access.key.id"], "aws_secret_access_key": keys["aws.secret.access.key"]}
        self._client = boto3.client("s3", endpoint_url=store.endpoint, region_name=keys["s3.region"], **login)
        path = f"s3://{self._bucket}/lake"
        super().__init__(servers, Path(), **{"path": path, "store.url": store.endpoint, **keys, **more})

    def written(self) -> Counter[int]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix="lake/topics/")
        keys = [one["Key"] for page in pages for one in page.get("Contents", ()) if one["Key"].endswith(".json")]
        texts = (self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read().decode() for key in keys)
        return Counter(json.loads(line)["n"] for text in texts for line in text.splitlines())


class Tables(Lines):
    """Rows of a table of Delta, read by DuckDB."""

    def __init__(self, servers: str, folder: Path, **more: str) -> None:
        super().__init__(servers, folder, **{"connector.class": "DeltaSink", "auto.create": "true", **more})

    def written(self) -> Counter[int]:
        path = self._folder / self.name
        files = DeltaTable(str(path)).file_uris() if (path / "_delta_log").is_dir() else []
        with duckdb.connect() as connection:
            rows = connection.execute("SELECT n FROM read_parquet(?)", [files]).fetchall() if files else []
        return Counter(n for (n,) in rows)


class Snapshots(Records):
    """Rows of a table of Iceberg, whose catalog is a file of SQLite, read by DuckDB."""

    def __init__(self, servers: str, folder: Path, **more: str) -> None:
        folder.mkdir()
        catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder / "tables")}
        self._catalog = load_catalog("iceberg", **catalog)
        properties = {
            "connector.class": "IcebergSink",
            "iceberg.tables": "shop.${topic}",
            "iceberg.tables.auto-create-enabled": "true",
            "flush.size": "10",
            "consumer.override.max.poll.records": "4",
            **{f"iceberg.catalog.{name}": value for name, value in catalog.items()},
        }
        self._seen, self._found = "", Counter[int]()
        super().__init__(servers, **{**properties, **more})

    def written(self) -> Counter[int]:
        try:
            table = self._catalog.load_table(f"shop.{self.name}")
        except NoSuchTableError:
            return Counter()
        if table.metadata_location != self._seen:  # it is asked often, and reads many small files
            files = [one.file.file_path for one in table.scan().plan_files()]
            with duckdb.connect() as connection:
                rows = connection.execute("SELECT n FROM read_parquet(?)", [files]).fetchall() if files else []
            self._seen, self._found = table.metadata_location, Counter(n for (n,) in rows)
        return self._found
