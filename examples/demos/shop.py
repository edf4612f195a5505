"""The program of ``make twophase-demo``: each order goes into a table and a topic.

``python -m examples.demos.shop SERVERS TOPIC URL ORDERS WAY``, the way being ``outbox`` or ``naive``: the database's
transaction, then Kafka's.
"""

from __future__ import annotations

import sys

import pyarrow as pa
import sqlalchemy as sa

import semel
from semel.database import Outbox
from semel.steps import OutboxStep, reached

__all__ = ["orders_of"]

metadata = sa.MetaData()


def orders_of(topic: str) -> sa.Table:
    """Return the table that belongs to a topic."""
    known: sa.Table | None = metadata.tables.get(topic)
    return known if known is not None else sa.Table(topic, metadata, sa.Column("number", sa.Integer, primary_key=True))


def main(servers: str, topic: str, url: str, orders: str, way: str) -> None:
    """Write the orders that are not in the table yet."""
    engine = sa.create_engine(url)
    table = orders_of(topic)
    metadata.create_all(engine)
    with semel.Cluster({"bootstrap.servers": servers}) as cluster:
        outbox, producer = Outbox(engine, cluster, topic), cluster.producer(f"{topic}-naive")
        if way == "outbox":
            outbox.recover()
        with engine.connect() as connection:
            done = connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
        for number in range(done, int(orders)):
            record = pa.table({"value": [str(number)]})
            if way == "outbox":
                # --- the user's code
                with outbox.unit(version=number) as unit:
                    unit.session.execute(table.insert(), {"number": number})
                    unit.send(topic, record)
                # --- the end of it
            else:
                with engine.begin() as connection:
                    connection.execute(table.insert(), {"number": number})
                reached(OutboxStep.DECIDED, topic)
                with producer.transaction() as txn:
                    txn.send(topic, record)


if __name__ == "__main__":
    main(*sys.argv[1:])
