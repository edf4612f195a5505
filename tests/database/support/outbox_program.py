"""Writes numbered units to a database and a topic, and goes on where the database ends.

``python -m tests.database.support.outbox_program SERVERS TOPIC URL UNITS ORDER [STOP]``. It ends earlier where the file
STOP is there. With the order ``naive`` it commits the
database first and a Kafka transaction behind that, as a program without an outbox has to. With ``workers`` four threads
write the units that are missing.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

import semel
from semel.database import Outbox
from semel.steps import OutboxStep, reached

ROWS = 5
WORKERS = 4
#: Short enough that a broker that is frozen is missed.
_PATIENCE = {"request.timeout.ms": 5_000, "socket.connection.setup.timeout.ms": 3_000}

metadata = sa.MetaData()
orders = sa.Table(
    "crash_orders",
    metadata,
    # no other key: what is written twice is there twice, and a frozen unit locks out nobody
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("topic", sa.String, nullable=False),
    sa.Column("value", sa.String, nullable=False),
    sa.Column("unit", sa.Integer, nullable=False),
)


def rows(unit: int) -> list[str]:
    return [f"{unit}-{row}" for row in range(ROWS)]


def rows_of(topic: str, unit: int) -> tuple[list[dict[str, object]], pa.Table]:
    """Of the database, and of Kafka."""
    made: list[dict[str, object]] = [{"topic": topic, "unit": unit, "value": value} for value in rows(unit)]
    return made, pa.table({"key": [str(unit)] * ROWS, "value": rows(unit)})


def write_side_by_side(outbox: Outbox, engine: sa.Engine, topic: str, units: int) -> None:
    outbox.recover()
    with engine.connect() as connection:
        there = set(connection.execute(sa.select(orders.c.unit).where(orders.c.topic == topic)).scalars())

    def write(unit: int) -> None:
        made, sent = rows_of(topic, unit)
        written = False
        while not written:
            with suppress(semel.AbortAndRetry):
                with outbox.unit() as work:
                    work.session.execute(orders.insert(), made)
                    work.send(topic, sent)
                written = True

    with ThreadPoolExecutor(WORKERS) as pool:
        for one in [pool.submit(write, unit) for unit in range(units) if unit not in there]:
            one.result()


def main(servers: str, topic: str, url: str, units: str, order: str, stop: str = "") -> None:
    engine = sa.create_engine(url)
    metadata.create_all(engine)
    with semel.Cluster({"bootstrap.servers": servers, **_PATIENCE}) as cluster:
        outbox, naive = Outbox(engine, cluster, topic), cluster.producer(topic)
        if order == "outbox":
            outbox.recover()
        if order == "workers":
            write_side_by_side(Outbox(engine, cluster, topic, workers=WORKERS), engine, topic, int(units))
            return
        with engine.connect() as connection:
            last = connection.execute(sa.select(sa.func.max(orders.c.unit)).where(orders.c.topic == topic)).scalar()
        for unit in range(0 if last is None else last + 1, int(units)):
            if stop and Path(stop).exists():
                return
            made, sent = rows_of(topic, unit)
            if order == "naive":
                with engine.begin() as connection:
                    connection.execute(orders.insert(), made)
                reached(OutboxStep.DECIDED, topic)
                with naive.transaction() as txn:
                    txn.send(topic, sent)
                continue
            with outbox.unit(version=unit) as work:
                work.session.execute(orders.insert(), made)
                work.send(topic, sent)


if __name__ == "__main__":
    main(*sys.argv[1:])
