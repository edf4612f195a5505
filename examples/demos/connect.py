"""``make connect-demo``: a file and a table of PostgreSQL flow into topics while all is killed with SIGKILL. At its end
(``lake``) a table flows by its log through Kafka to another table and to Parquet.

The same kills meet a worker that writes exactly once and one that does not: its tasks at steps of a transaction, and
the whole worker. An independent reader then counts what was lost and what was doubled.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

from examples.demos.lake import Flow, flow
from examples.demos.worker import command, end, kill, wait
from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.steps import ConnectStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.postgres import Postgres
from semel.testing.records import arrived, read
from semel.testing.spark.spark_cluster import SparkCluster
from semel.wire.api import topics
from semel.wire.client import Client

__all__ = ["Count", "main", "show"]

LINES, ROWS = 200_000, 20_000
_SPARK = SparkCluster("local[8,4]", workers=sys.executable)
_QUIET_S = 3.0
_STRING = "org.apache.kafka.connect.storage.StringConverter"
#: Tasks are killed here, in either mode; the worker dies when the first of them has struck.
_STEPS = {
    "enabled": (ConnectStep.RECORDS_WRITTEN, ConnectStep.OFFSETS_SENT, ConnectStep.COMMITTED),
    "disabled": (ConnectStep.RECORDS_WRITTEN, ConnectStep.POLLED, ConnectStep.TASK_STARTED),
}


@dataclass(frozen=True, slots=True)
class Count:
    """The count of a reader after one run."""

    mode: str
    records: int
    lost: int
    doubled: int
    kills: int
    seconds: float


def show(console: Console, lines: int = LINES, rows: int = ROWS) -> tuple[list[Count], Flow]:
    """Run both, and the flow into sinks, and count."""
    with (
        tempfile.TemporaryDirectory(prefix="semel-connect-demo-") as name,
        Sandbox.start(progress=True) as kafka,
        Postgres() as postgres,
    ):
        folder = Path(name)
        console.print(f"a file of {lines:,} lines, and a table of {rows:,} rows")
        (folder / "lines.txt").write_text("".join(f"line {number}\n" for number in range(lines)))
        with psycopg.connect(f"host=127.0.0.1 port={postgres.port} user=postgres dbname=postgres") as connection:
            connection.execute("CREATE TABLE orders (id bigserial PRIMARY KEY, amount int)")
            connection.execute(f"INSERT INTO orders (amount) SELECT n % 97 FROM generate_series(1, {int(rows)}) n")
        counts = [_run(console, mode, kafka, postgres, folder, lines, rows) for mode in _STEPS]
        return counts, flow(console, kafka, folder)


def _run(console: Console, mode: str, kafka: Sandbox, postgres: Postgres, folder: Path, lines: int, rows: int) -> Count:
    servers, names = kafka.bootstrap_servers, [f"lines-{mode}", f"{mode}-orders"]
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        for name in names:
            topics.create(client, name, partitions=1, replication=1, config={})
    argv = command(folder, _properties(mode, servers, postgres, folder))
    plan = CrashPlan(folder / f"plan-{mode}", *(CrashPoint(step, 6, Action.KILL) for step in _STEPS[mode]))
    began, wanted = time.monotonic(), lines + rows
    with _SPARK.driver(argv, plan) as worker:
        wait(worker, lambda: plan.struck(plan.points[0]))
        console.print(f"{mode}: a task was killed at {_STEPS[mode][0].value}; now the whole worker")
        kill(worker)
    with _SPARK.driver(argv, plan) as worker:
        wait(worker, lambda: arrived(servers, *names) >= wanted and _quiet(servers, names))
        end(worker)
    kills = 1 + sum(plan.struck(point) for point in plan.points)
    found = Counter(read(servers, names, {"value": "value"})["value"].to_pylist())
    expected = {f"line {number}" for number in range(lines)}
    ids = {value for value in found if value.startswith("{")}
    lost = len(expected - found.keys()) + rows - len(ids)
    return Count(mode, sum(found.values()), lost, sum(found.values()) - len(found), kills, time.monotonic() - began)


def _properties(mode: str, servers: str, postgres: Postgres, folder: Path) -> dict[str, Mapping[str, str]]:
    return {
        f"{mode}-worker": {
            "bootstrap.servers": servers,
            "group.id": f"demo-{mode}",
            "offset.storage.topic": f"demo-{mode}-offsets",
            "key.converter": _STRING,
            "value.converter": _STRING,
            "exactly.once.source.support": mode,
        },
        f"{mode}-lines": {
            "name": "lines",
            "connector.class": "FileStreamSource",
            "file": str(folder / "lines.txt"),
            "topic": f"lines-{mode}",
        },
        f"{mode}-orders": {
            "name": "orders",
            "connector.class": "SqlSource",
            "connection.url": postgres.url,
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "table.whitelist": "orders",
            "topic.prefix": f"{mode}-",
            "poll.interval.ms": "100",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
        },
    }


def _quiet(servers: str, names: Sequence[str]) -> bool:
    """Return True if no more records come: doubled ones are counted too."""
    before = arrived(servers, *names)
    time.sleep(_QUIET_S)
    return arrived(servers, *names) == before


def main() -> None:
    """Show it, and end with status 1 unless it came out as promised."""
    console = Console()
    counts, sinks = show(console)
    table = Table("exactly.once.source.support", "records read", "lost", "doubled", "kills", "seconds")
    for one in counts:
        table.add_row(
            one.mode, f"{one.records:,}", f"{one.lost:,}", f"{one.doubled:,}", str(one.kills), f"{one.seconds:.0f}"
        )
    console.print(table)
    table = Table("PostgreSQL's log, Kafka, then", "promise", "rows read", "lost", "doubled")
    for target in sinks.targets:
        table.add_row(target.name, target.promise, f"{target.rows:,}", f"{target.lost:,}", f"{target.doubled:,}")
    console.print(table)
    console.print(f"the flow into sinks met {sinks.kills} kills in {sinks.seconds:.0f} s")
    exact, control = counts
    if exact.lost or exact.doubled or control.lost or not control.doubled or not sinks.as_promised():
        console.print("[red]That is not what should have come out.[/]")
        sys.exit(1)


if __name__ == "__main__":
    main()
