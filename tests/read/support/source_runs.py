"""The source's readers, called as Spark calls them, but without Spark.

``Run`` stands for one run of a query: it keeps an offset log of texts, asks for the initial offset twice, and pickles
what Spark pickles.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition

from semel.spark.data_source import SemelDataSource
from tests.support.other_client import produce

if TYPE_CHECKING:  # Spark before 4.2 has none
    from pyspark.sql.streaming.datasource import ReadLimit

Row = tuple[str, int, int, bytes | None]


def source(servers: str, options: dict[str, Any]) -> SemelDataSource:
    return SemelDataSource(
        CaseInsensitiveDict(
            {"kafka.bootstrap.servers": servers, **{name: str(value) for name, value in options.items()}}
        )
    )


def rows_of(reader: Any, partitions: list[InputPartition]) -> list[Row]:
    found: list[Row] = []
    task = pickle.loads(pickle.dumps(reader))
    for partition in partitions:
        for batch in task.read(pickle.loads(pickle.dumps(partition))):
            found += zip(
                *(batch.column(name).to_pylist() for name in ("topic", "partition", "offset", "value")), strict=True
            )
    return found


def _reader(made: SemelDataSource) -> Any:
    """The reader of this Spark: with limits, from 4.2 on."""
    return made.streamReader(made.schema())


class Run:
    """One run of a streaming query with this checkpoint (``log``), up to the point where it is left."""

    def __init__(self, servers: str, log: list[str], *, available_now: bool = False, **options: Any) -> None:
        self.log = log
        made = source(servers, options)
        self.reader = _reader(made)
        if available_now:
            self.reader.prepareForTriggerAvailableNow()

    def start_of(self, batch: int) -> dict[str, Any]:
        start: dict[str, Any] = json.loads(self.log[batch - 1]) if batch else self.reader.initialOffset()
        return start

    def plan(self, limit: ReadLimit | None = None) -> bool:
        """Log the next batch; False if there is none."""
        start = self.start_of(len(self.log))
        end = json.dumps(
            self.reader.latestOffset(json.loads(json.dumps(start)), limit or self.reader.getDefaultReadLimit())
        )
        if self.log and end == self.log[-1]:
            return False
        self.log.append(end)
        return True

    def read(self, batch: int = -1) -> list[Row]:
        """Return the rows of a logged batch, as a first run or a replay would read them."""
        number = batch % len(self.log)
        partitions = list(self.reader.partitions(self.start_of(number), json.loads(self.log[number])))
        return rows_of(self.reader, partitions)

    def batch(self, limit: ReadLimit | None = None) -> list[Row] | None:
        return self.read() if self.plan(limit) else None

    def rest(self) -> list[Row]:
        """All batches until there is nothing left."""
        found: list[Row] = []
        while (rows := self.batch()) is not None:
            found += rows
        return found

    def tasks(self) -> int:
        number = len(self.log) - 1
        return len(self.reader.partitions(self.start_of(number), json.loads(self.log[number])))

    def stop(self) -> None:
        self.reader.stop()


def numbers(rows: list[Row] | None) -> Sequence[bytes | None]:
    assert rows is not None
    return sorted(row[3] or b"" for row in rows)


def texts(first: int, last: int) -> list[bytes]:
    return sorted(f"v{i}".encode() for i in range(first, last))


def add(servers: str, topic: str, first: int, last: int, *, partitions: int = 1) -> None:
    produce(servers, topic, [{"value": f"v{i}".encode(), "partition": i % partitions} for i in range(first, last)])
