"""A task of ``PostgresCdcSource`` without a worker: what it would write, and the offset that would be committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.connect.api import SourceTask, TaskContext
from semel.connect.connectors.postgres.position import SnapshotState
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.tasks.rows import rows_of
from semel.testing.postgres import Postgres
from tests.connect.unit.test_config import WORKER

__all__ = ["Capturing", "properties"]


def properties(postgres: Postgres, name: str, **more: str) -> dict[str, str]:
    """Return the properties of a connector that writes JSON without schemas."""
    json = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "name": name,
        "connector.class": "PostgresCdcSource",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": "postgres",
        "database.dbname": "postgres",
        "topic.prefix": name,
        "slot.name": f"{name}_slot",
        "publication.name": f"{name}_publication",
        "poll.interval.ms": "20",
        "key.converter": json,
        "value.converter": json,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        **{key.replace("__", "."): value for key, value in more.items()},
    }


class Capturing:
    """A task that is polled by hand. What it gave is in ``written`` once it is committed."""

    def __init__(self, config: Mapping[str, str], offset: Mapping[str, Any] | None = None) -> None:
        self.config = ConnectorConfig.parse({"name": "captured", **config}, WorkerConfig.parse(WORKER))
        self.offset = offset
        #: How many sessions of a snapshot there were at most.
        self.sessions = 0
        self.written: dict[str, list[tuple[bytes | None, bytes | None, list[dict[str, Any]]]]] = {}
        self.start()

    def start(self) -> None:
        """Start a task from the committed offset, in the place of one before."""
        self.config.connector.tasks(self.config.own, 1)
        self.task: SourceTask = self.config.source.task()
        self.task.start(self.config.own, TaskContext(lambda _: self.offset))

    def poll(self, *, commit: bool = True) -> int:
        """Poll once. Return how many records came."""
        polled = self.task.poll()
        rows = rows_of(polled, self.config, 0)
        if polled is None or rows is None:
            return 0
        if commit:
            for topic, table in rows.tables:
                empty: list[Any] = [[]] * table.num_rows
                headers = table["headers"].to_pylist() if "headers" in table.schema.names else empty
                cells = zip(table["key"].to_pylist(), table["value"].to_pylist(), headers, strict=True)
                self.written.setdefault(topic, []).extend(cells)
            ((_, self.offset),) = rows.offsets.values()
            if self.offset is not None and "snapshot_state" in self.offset:
                self.sessions = max(self.sessions, len(SnapshotState.parse(self.offset["snapshot_state"]).sessions))
            self.task.commit()
        return len(list(polled)) if isinstance(polled, list) else 0

    def restart(self) -> None:
        """Stop the task, and start another one."""
        self.task.stop()
        self.start()
