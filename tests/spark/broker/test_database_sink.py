"""A query that writes a table and a topic: both have each row once, whatever becomes of its checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from pyspark.sql import DataFrame, SparkSession

import semel
import semel.steps
from semel.database import Outbox
from semel.errors import ConfigError, DataLoss
from semel.sandbox import Sandbox
from semel.spark import database
from semel.steps import OutboxStep, Step
from semel.testing.postgres import Postgres
from semel.testing.records import read
from tests.spark.support.copy_query import Crashed, Line, cut
from tests.spark.support.topics_and_drivers import produce


class Copied:
    """A line whose rows go to a table and to a topic, by a new driver each time."""

    def __init__(self, line: Line, url: str) -> None:
        self.line, self.url = line, url
        self.table = f"copied_{line.prefix.replace('-', '_')}"
        with self.engine().begin() as connection:
            connection.execute(sa.text(f"CREATE TABLE {self.table} (value BYTEA, key BYTEA)"))

    def engine(self) -> sa.Engine:
        return sa.create_engine(self.url)

    def run(self, *columns: str, checkpoint: Path | None = None, **options: str) -> None:
        with semel.Cluster({"bootstrap.servers": self.line.kafka.bootstrap_servers}) as cluster:
            outbox = Outbox(self.engine(), cluster, self.line.prefix, two_phase="bounded")
            write = database.sink(outbox, table=self.table, topic=self.line.target, **options)
            rows = self.line.rows().select(*(columns or ("key", "value")))
            self.line.run(rows=rows, checkpoint=checkpoint, around=lambda _: write)

    def assert_both(self, count: int) -> None:
        with self.engine().connect() as connection:
            found = connection.execute(sa.text(f"SELECT value FROM {self.table}")).scalars()
            rows = sorted(bytes(value).decode() for value in found)
        seen = read(self.line.kafka.bootstrap_servers, [self.line.target], {"value": "value"})["value"].to_pylist()
        assert rows == sorted(str(value) for value in seen), "torn"
        assert len(rows) == len(set(rows)) == count


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def copied(spark: SparkSession, kafka: Sandbox, tmp_path: Path, postgres: Postgres) -> Copied:
    return Copied(Line.new(spark, kafka, tmp_path, "database"), postgres.url)


def crash_at(monkeypatch: pytest.MonkeyPatch, where: Step, passing: int) -> None:
    left = [passing]

    def observe(step: Step, detail: str) -> None:
        if step is where:
            left[0] -= 1
            if left[0] == 0:
                raise Crashed

    monkeypatch.setattr(semel.steps, "_observer", observe)


@pytest.mark.parametrize(
    "step",
    [
        OutboxStep.DECIDED,
        pytest.param(OutboxStep.BEGUN, marks=pytest.mark.exhaustive),
        pytest.param(OutboxStep.DECISION_SENT, marks=pytest.mark.exhaustive),
    ],
)
def test_a_driver_that_dies_in_a_batch(copied: Copied, monkeypatch: pytest.MonkeyPatch, step: OutboxStep) -> None:
    produce(copied.line.kafka, copied.line.source, range(300))
    crash_at(monkeypatch, step, 2)
    with pytest.raises(Crashed):
        copied.run()
    monkeypatch.setattr(semel.steps, "_observer", None)
    copied.run()
    copied.assert_both(300)


def test_a_batch_that_comes_again_is_skipped(copied: Copied) -> None:
    produce(copied.line.kafka, copied.line.source, range(300))
    copied.run()
    cut(copied.line.checkpoint, "commits", 2)
    copied.run()
    produce(copied.line.kafka, copied.line.source, range(300, 400))
    copied.run()
    copied.assert_both(400)


def test_a_new_checkpoint_is_refused(copied: Copied, tmp_path: Path) -> None:
    produce(copied.line.kafka, copied.line.source, range(100))
    copied.run()
    with pytest.raises(DataLoss, match=r"PROGRESS_MISMATCH.*Nothing was written.*on_progress_mismatch='checkpoint:"):
        copied.run(checkpoint=tmp_path / "new")
    copied.assert_both(100)


def twice(write: database.DatabaseSink) -> Callable[[DataFrame, int], None]:
    def both(df: DataFrame, number: int) -> None:
        for _ in range(2):
            write(df, number)

    return both


def test_what_is_refused(copied: Copied) -> None:
    produce(copied.line.kafka, copied.line.source, range(10))
    with pytest.raises(ConfigError, match=r"EXTRA_COLUMN.*offset"):
        copied.run("key", "value", "offset")
    with semel.Cluster({"bootstrap.servers": copied.line.kafka.bootstrap_servers}) as cluster:
        outbox = Outbox(copied.engine(), cluster, copied.line.prefix, two_phase="bounded")
        write = database.sink(outbox, table=copied.table, topic=copied.line.target)
        with pytest.raises(ConfigError, match=r"SECOND_CALL.*batch 0"):
            copied.line.run(rows=copied.line.rows().select("key", "value"), around=lambda _: twice(write))
        missing = database.sink(outbox, table="nowhere", topic=copied.line.target)
        produce(copied.line.kafka, copied.line.source, range(10, 20))
        with pytest.raises(ConfigError, match="NO_TABLE"):
            copied.line.run(rows=copied.line.rows().select("key", "value"), around=lambda _: missing)
    copied.assert_both(10)
