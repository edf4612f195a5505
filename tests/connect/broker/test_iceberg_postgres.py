"""``IcebergSink`` with its catalog in a real PostgreSQL: tasks that commit at a time, and a catalog that is killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from semel.connect import SinkBatch, SinkContext
from semel.connect.connectors.sinks.iceberg import IcebergSink
from semel.errors import ConfigError, Retriable
from semel.testing.postgres import Postgres
from tests.connect.support.iceberg_tables import NAME, config, task
from tests.connect.unit.test_file_sink import rows


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def test_a_catalog_in_postgres(postgres: Postgres, tmp_path: Path) -> None:
    settings = {"type": "sql", "uri": postgres.url, "warehouse": str(tmp_path)}
    given: Any = {"iceberg.catalog.*": settings}
    IcebergSink().tasks(config(tmp_path, **given), 1)

    def write(partition: int) -> None:
        made = task(tmp_path, SinkContext(), partition, **given)
        for start in range(0, 12, 3):
            while True:
                try:
                    made.put(SinkBatch(("orders", partition), rows(3, start).tables, start, start + 3))
                    break
                except Retriable:  # as a worker does
                    continue

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, range(3)))

    def found() -> Counter[str]:
        table = load_catalog("iceberg", **settings).load_table(NAME)
        return Counter(table.scan().to_arrow()["name"].to_pylist())

    assert found() == Counter({f"n{n}": 3 for n in range(12)})
    open_task = task(tmp_path, SinkContext(), 0, **given)
    postgres.kill()
    with pytest.raises(Retriable, match=r"the database of the table of Iceberg shop\.orders"):
        open_task.put(rows(3, 12))
    with pytest.raises(Retriable, match="does not answer"):
        task(tmp_path, SinkContext(), 1, **given)
    postgres.start()
    open_task.put(rows(3, 12))
    assert found() == Counter({f"n{n}": 3 if n < 12 else 1 for n in range(15)})
    wrong: Any = {"iceberg.catalog.*": {**settings, "uri": postgres.url.rpartition("/")[0] + "/nowhere"}}
    with pytest.raises(ConfigError, match="cannot be used"):
        task(tmp_path, SinkContext(), 1, **wrong)
