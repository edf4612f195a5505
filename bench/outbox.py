"""The outbox beside the same inserts alone: units of 100 rows, into a table and a topic, or into the table. And how
long the commit of a prepared transaction takes, beside that of librdkafka's producer.

SQLite is the dearest comparison: without a server between, an insert costs little more than its fsync.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import pyarrow as pa
import sqlalchemy as sa
from confluent_kafka import Producer

import semel
from bench import rows
from bench.figures import Figure, differences, ratios
from bench.rig import Rig
from bench.rounds import Contender, interleave
from semel.database import Outbox
from semel.testing.postgres import Postgres

__all__ = ["ROWS", "measure"]

#: Of each unit.
ROWS = 100
_TARGET = 0.5
_WORKERS = 4
_OURS = "semel, both or neither"
_SIDE_BY_SIDE = f"{_WORKERS} workers"
_ONE_BY_ONE = "one worker"
_ALONE = "the inserts alone"
_COMMIT = "commit of a transaction of 100 rows"
_PREPARED = "semel, prepared"
_ORDINARY = "librdkafka's producer"
_PARTITIONS = 4


def measure(rig: Rig, units: int, rounds: range) -> list[Figure]:
    """Units a second on each database, and milliseconds of a commit."""
    figures = []
    with Postgres() as postgres:
        for database, url in (("SQLite", f"sqlite:///{rig.directory}/{{name}}.db"), ("PostgreSQL", postgres.url)):
            figures.append(_beside_inserts(rig, database, url, units, rounds))
        figures.append(_several_workers(rig, postgres.url, units, rounds))
    return [*figures, _commits(rig, units, rounds)]


def _beside_inserts(rig: Rig, database: str, url: str, units: int, rounds: range) -> Figure:
    work = f"outbox on {database}, units of 100 rows"
    begun = f"{database.lower()}-{{}}".format

    def run(name: str, *, with_kafka: bool) -> float:
        return _measured(rig, url.format(name=name), name, units, with_kafka=with_kafka)

    contenders = [
        Contender(_OURS, lambda number: run(begun(f"outbox-{number}"), with_kafka=True)),
        Contender(_ALONE, lambda number: run(begun(f"inserts-{number}"), with_kafka=False)),
    ]
    rates = interleave(work, contenders, rounds, unit="units/s", console=rig.console)
    return ratios(work, _ALONE, rates[_OURS], rates[_ALONE], target=_TARGET)


def _several_workers(rig: Rig, url: str, units: int, rounds: range) -> Figure:
    """Measure four workers beside one, each with as many threads."""
    work = f"outbox on PostgreSQL, {_WORKERS} workers"

    def run(name: str, workers: int) -> float:
        return _measured(rig, url, name, units, with_kafka=True, workers=workers)

    contenders = [
        Contender(_SIDE_BY_SIDE, lambda number: run(f"workers-{number}", _WORKERS)),
        Contender(_ONE_BY_ONE, lambda number: run(f"worker-{number}", 1)),
    ]
    rates = interleave(work, contenders, rounds, unit="units/s", console=rig.console)
    return ratios(work, _ONE_BY_ONE, rates[_SIDE_BY_SIDE], rates[_ONE_BY_ONE], target=3)


def _measured(rig: Rig, url: str, name: str, units: int, *, with_kafka: bool, workers: int = 1) -> float:
    engine = sa.create_engine(url)
    table = sa.Table(name, sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("value", sa.String))
    table.create(engine)
    values = ["x" * rows.SIZE] * ROWS
    made, sent = [{"value": value} for value in values], pa.table({"value": values})
    with rig.topic(name, _PARTITIONS) as topic, semel.Cluster({"bootstrap.servers": rig.servers}) as cluster:
        # the rig's broker has no settings of its own
        outbox = Outbox(engine, cluster, topic, two_phase="bounded", workers=workers)

        def unit() -> None:
            with outbox.unit() as one:
                one.session.execute(table.insert(), made)
                one.send(topic, sent)

        def inserts() -> None:
            with engine.begin() as connection:
                connection.execute(table.insert(), made)

        work: Callable[[], None] = unit if with_kafka else inserts
        work()
        began = time.monotonic()
        with ThreadPoolExecutor(workers) as pool:
            for one in [pool.submit(work) for _ in range(units)]:
                one.result()
        seconds = time.monotonic() - began
        if with_kafka:
            rig.check(topic, (units + 1) * ROWS, markers=(units + 1) * _PARTITIONS, partitions=_PARTITIONS)
    engine.dispose()
    return units / seconds


def _commits(rig: Rig, units: int, rounds: range) -> Figure:
    """Measure the medians of both, from the call until it returns."""
    sent = pa.table({"value": ["x" * rows.SIZE] * ROWS})

    def prepared(number: int) -> float:
        took = []
        with (
            rig.topic(f"prepared-{number}", _PARTITIONS) as topic,
            semel.Cluster({"bootstrap.servers": rig.servers}) as cluster,
            cluster.producer(topic, two_phase="bounded") as producer,
        ):
            for _ in range(units):
                with producer.transaction() as txn:
                    txn.send(topic, sent)
                    one = txn.prepare()
                began = time.monotonic()
                producer.commit(one)
                took.append(time.monotonic() - began)
        return 1000 * median(took)

    def ordinary(number: int) -> float:
        took = []
        with rig.topic(f"ordinary-{number}", _PARTITIONS) as topic:
            producer = Producer({"bootstrap.servers": rig.servers, "transactional.id": topic})
            producer.init_transactions()
            for _ in range(units):
                producer.begin_transaction()
                for _ in range(ROWS):
                    producer.produce(topic, "x" * rows.SIZE)
                producer.flush()
                began = time.monotonic()
                producer.commit_transaction()
                took.append(time.monotonic() - began)
        return 1000 * median(took)

    contenders = [Contender(_PREPARED, prepared), Contender(_ORDINARY, ordinary)]
    times = interleave(_COMMIT, contenders, rounds, unit="ms", console=rig.console)
    return differences(_COMMIT, _ORDINARY, times[_PREPARED], times[_ORDINARY])
