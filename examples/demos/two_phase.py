"""``make twophase-demo``: a database and a topic under SIGKILL, by the outbox and by a naive dual write.

Both programs are killed at steps of their own and started again, and PostgreSQL is killed once in the middle of each.
Then the rows of the table and the records of the topic are compared, by clients that are not semel's.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import sqlalchemy as sa
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from examples.demos.shop import orders_of
from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.sandbox import Sandbox
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.steps import OutboxStep, TwoPhaseStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.postgres import Postgres
from semel.testing.program import Program
from semel.testing.records import read
from semel.wire.api import topics
from semel.wire.client import Client

__all__ = ["Compared", "show"]

_KILLS = {
    "outbox": (
        CrashPoint(TwoPhaseStep.PREPARED, 5),
        CrashPoint(OutboxStep.DECISION_SENT, 12),
        CrashPoint(OutboxStep.DECIDED, 20),
        CrashPoint(TwoPhaseStep.COMMIT_ANSWERED, 28),
        CrashPoint(OutboxStep.TEXTS_READ, 5),
    ),
    # it can tear at one place only
    "naive": (CrashPoint(OutboxStep.DECIDED, 5), CrashPoint(OutboxStep.DECIDED, 20)),
}
_MOST_STARTS = 15
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of one run: orders in the table, in the topic, in one of them alone, and twice."""

    way: str
    table: int
    topic: int
    only_table: int
    only_topic: int
    doubled: int
    starts: int
    seconds: float

    @property
    def exact(self) -> bool:
        """True if both have the same orders, each once."""
        return not (self.only_table or self.only_topic or self.doubled)


def show(console: Console, orders: int) -> list[Compared]:
    """Start Kafka and PostgreSQL, run and kill both programs, and compare."""
    with (
        tempfile.TemporaryDirectory(prefix="semel-demo-") as directory,
        Postgres() as postgres,
        Sandbox.start(settings=TWO_PHASE_COMMIT, progress=True) as kafka,
        Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as client,
    ):
        found = []
        for way in _KILLS:
            topics.create(client, way, partitions=2, config={})
            with console.status(f"{way}: writing {orders} orders under SIGKILL ..."):
                found.append(_run(way, orders, kafka, postgres, Path(directory)))
        return found


def _run(way: str, orders: int, kafka: Sandbox, postgres: Postgres, directory: Path) -> Compared:
    began, starts, plan = time.monotonic(), 0, CrashPlan(directory / way, *_KILLS[way])
    argv = [sys.executable, "-m", "examples.demos.shop", kafka.bootstrap_servers, way, postgres.url, str(orders), way]
    killed_postgres = False
    while True:
        starts += 1
        log = directory / f"{way}-{starts}.log"
        with Program(argv, {**os.environ, **plan.environment()}, log) as program:
            while not killed_postgres and program.process.poll() is None:
                if _in_table(postgres, way) > orders // 2:
                    killed_postgres = True
                    postgres.kill()
                    postgres.start()
                time.sleep(_POLL_S)
            if program.process.wait() == 0:
                break
            if starts == _MOST_STARTS:
                raise ConfigError(f"{way} does not come to its end: {program.tail()}", tag="DEMO")
    plan.check_all_struck()
    with sa.create_engine(postgres.url).connect() as connection:
        rows = connection.execute(sa.select(orders_of(way).c.number)).scalars().all()
    values = read(kafka.bootstrap_servers, [way], {"value": "value"})["value"].to_pylist()
    records = [int(value) for value in values]
    return Compared(
        way,
        len(rows),
        len(records),
        len(set(rows) - set(records)),
        len(set(records) - set(rows)),
        len(records) - len(set(records)),
        starts,
        time.monotonic() - began,
    )


def _in_table(postgres: Postgres, way: str) -> int:
    engine = sa.create_engine(postgres.url)
    try:
        with engine.connect() as connection:
            if not sa.inspect(connection).has_table(way):
                return 0
            found: int = connection.execute(sa.select(sa.func.count()).select_from(orders_of(way))).scalar_one()
            return found
    finally:
        engine.dispose()


def main(orders: Annotated[int, typer.Option(min=60, help="How many orders to write.")] = 200) -> None:
    """Write orders to PostgreSQL and to Kafka under SIGKILL, with the outbox and without, and compare both.

    Ends with status 1 if the outbox has torn or doubled anything, or the naive dual write has not.
    """
    console = Console()
    found = show(console, orders)
    table = Table(title="what the table and the topic have", title_justify="left", box=box.SIMPLE_HEAD)
    columns = ("", "in the table", "in the topic", "table alone", "topic alone", "doubled", "starts", "seconds")
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    for one in found:
        numbers = (one.table, one.topic, one.only_table, one.only_topic, one.doubled, one.starts)
        table.add_row(
            one.way, *(f"{number:,}" for number in numbers), f"{one.seconds:.0f}", style="green" if one.exact else "red"
        )
    console.print(table)
    by_outbox, naive = found
    if not by_outbox.exact or naive.exact:
        console.print("[red]That is not what should have come out.[/]")
        raise typer.Exit(1)
    console.print(f"outbox: both have each order once. Without it {naive.only_table} orders never reached the topic.")


if __name__ == "__main__":
    typer.run(main)
