"""A task of a source, read without a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg

from semel.connect.api import Setting, SourceBatch, SourceConnector, SourceTask, TaskContext
from semel.connect.connectors.sql import SqlSource
from semel.testing.postgres import Postgres
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
            for record in () if polled is None or isinstance(polled, SourceBatch) else polled:
                assert record.offset is not None
                self.values.append(record.value)
                self.offsets[str(dict(record.partition))] = record.offset
                count += 1
        return count

    def read(self, rows: int) -> list[Any]:
        """Poll until so many rows have come in all."""

        def enough() -> bool:
            self.poll()
            return len(self.values) >= rows

        wait_for(enough, lambda: f"{rows} rows, not {self.values}", 60)
        return self.values


def connected(postgres: Postgres, *, autocommit: bool = True) -> psycopg.Connection[Any]:
    return psycopg.connect(f"host=127.0.0.1 port={postgres.port} user=postgres dbname=postgres", autocommit=autocommit)


def table_reader(postgres: Postgres, table: str, **more: Any) -> Reader:
    given = {"mode": "incrementing", "incrementing_column_name": "id", "poll_interval_ms": 10, **more}
    url = f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres?user=postgres"
    return Reader(SqlSource(), connection_url=url, table_whitelist=[table], topic_prefix="db-", **given)
