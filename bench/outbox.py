"""The outbox beside the same inserts alone: units of 100 rows, into a table of SQLite and a topic, or into the table.

SQLite is the dearest comparison: without a server between, an insert costs little more than its fsync.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
import sqlalchemy as sa

import semel
from bench import rows
from bench.figures import Figure, ratios
from bench.rig import Rig
from bench.rounds import Contender, interleave
from semel.database import Outbox

__all__ = ["ROWS", "measure"]

#: Of each unit.
ROWS = 100
_WORK = "outbox, units of 100 rows"
_OURS = "semel, both or neither"
_ALONE = "the inserts alone"
_PARTITIONS = 4


def measure(rig: Rig, units: int, rounds: range) -> list[Figure]:
    """Units a second."""
    contenders = [
        Contender(_OURS, lambda number: _measured(rig, f"outbox-{number}", units, with_kafka=True)),
        Contender(_ALONE, lambda number: _measured(rig, f"inserts-{number}", units, with_kafka=False)),
    ]
    rates = interleave(_WORK, contenders, rounds, unit="units/s", console=rig.console)
    return [ratios(_WORK, _ALONE, rates[_OURS], rates[_ALONE])]


def _measured(rig: Rig, name: str, units: int, *, with_kafka: bool) -> float:
    engine = sa.create_engine(f"sqlite:///{rig.directory}/{name}.db")
    table = sa.Table(
        "sold", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("value", sa.String)
    )
    table.create(engine)
    values = ["x" * rows.SIZE] * ROWS
    made, sent = [{"value": value} for value in values], pa.table({"value": values})
    with rig.topic(name, _PARTITIONS) as topic, semel.Cluster({"bootstrap.servers": rig.servers}) as cluster:
        # the rig's broker has no settings of its own
        outbox = Outbox(engine, cluster, topic, two_phase="bounded")

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
        for _ in range(units):
            work()
        seconds = time.monotonic() - began
        if with_kafka:
            rig.check(topic, (units + 1) * ROWS, markers=(units + 1) * _PARTITIONS, partitions=_PARTITIONS)
    engine.dispose()
    return units / seconds
