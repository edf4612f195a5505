"""The runs of the demo: the pipeline with semel and at least once, killed while it runs.

Both runs meet the same three kills, each SIGKILL at a named step, so none can miss: the executor in mid-write; the
driver after its batch and before Spark's commit log; the executor after a task has written and before it reports.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from semel.cluster import Cluster
from semel.config import ClientConfig
from semel.demo.orders import TOPIC, write_orders
from semel.errors import SemelError
from semel.sandbox import Sandbox
from semel.steps import ParticipantStep, SinkStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.history import History, check
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import SparkCluster
from semel.wire.api import topics
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client

__all__ = ["DemoResult", "show"]

PARTITIONS = 4
#: Enough for the kills: each meets its own batch, with committed batches before and after it.
_BATCHES = 8
#: One executor with two tasks at a time: both die with it. A second executor would double the start time.
_SPARK = SparkCluster("local-cluster[1,2,1024]")
_MOST_STARTS = 8
_POLL_S = 0.3

KILLS = (
    CrashPoint(ParticipantStep.SENT, 4, Action.EXECUTOR),
    CrashPoint(SinkStep.RETURNING, 4, Action.DRIVER),
    CrashPoint(ParticipantStep.ACKNOWLEDGED, 13, Action.EXECUTOR),
)
RUNS = {"semel": "exactly_once", "control": "at_least_once"}


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of one run: the view of a read_committed reader, the kills that it survived, its starts, and its
    seconds.
    """

    name: str
    history: History
    kills: int
    starts: int
    seconds: float


def show(console: Console, orders: int) -> list[DemoResult]:
    """Start a Kafka, write orders, run and kill both pipelines, and count.

    Raise :class:`SemelError` if a run does not end.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semel-demo-")))
        sandbox = stack.enter_context(Sandbox.start(progress=True))
        progress = stack.enter_context(
            Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                console=console,
            )
        )
        client = stack.enter_context(Client(ClientConfig.parse({"bootstrap.servers": sandbox.bootstrap_servers})))
        for name in (TOPIC, *RUNS):
            topics.create(client, name, partitions=PARTITIONS, config={})
        _write(sandbox, progress, orders)
        return [_run(name, delivery, sandbox, client, directory, progress, orders) for name, delivery in RUNS.items()]


def _write(sandbox: Sandbox, progress: Progress, orders: int) -> None:
    bar = progress.add_task("writing orders", total=orders, note="")
    with Cluster({"bootstrap.servers": sandbox.bootstrap_servers}) as cluster:
        for written in write_orders(cluster, orders, orders // _BATCHES):
            progress.update(bar, completed=written)


def _run(
    name: str, delivery: str, sandbox: Sandbox, client: Client, directory: Path, progress: Progress, orders: int
) -> DemoResult:
    """Run one pipeline, and start it again after each kill of its driver, until it has read all orders."""
    bar = progress.add_task(f"running {name}", total=orders, note="starting Spark")
    plan = CrashPlan(directory / f"{name}-crashes", *KILLS)
    program = [sys.executable, "-m", "semel.demo.pipeline"]
    argv = [
        *program,
        sandbox.bootstrap_servers,
        str(directory / name),
        name,
        str(orders // _BATCHES),
        f"delivery={delivery}",
    ]
    began = time.monotonic()
    for start in range(1, _MOST_STARTS + 1):
        with _SPARK.driver(argv, plan) as driver:
            status = _watch(driver, plan, client, name, progress, bar)
            said = driver.tail()
        if status == 0:
            break
        what = "the driver was killed" if status < 0 else "the query failed with an executor that was killed"
        what += f"; start {start + 1}"
        progress.console.print(f"[dim]{name}: {what}[/]")
    else:
        raise SemelError(
            f"{name} did not come to its end in {_MOST_STARTS} starts. The last one said: {said}", tag="DEMO"
        )
    seconds = time.monotonic() - began
    plan.check_all_struck()
    progress.update(bar, completed=orders, note="counting")
    history = check(sandbox.bootstrap_servers, name, source=TOPIC, id="json:$.order", batch="json:$.lot")
    progress.update(bar, note="done")
    return DemoResult(name, history, len(KILLS), start, seconds)


def _watch(driver: Program, plan: CrashPlan, client: Client, topic: str, progress: Progress, bar: TaskID) -> int:
    """Show the progress of the output until the driver ends. Return its status."""
    while True:
        try:
            return driver.process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            kills = sum(map(plan.struck, KILLS))
            progress.update(bar, completed=_visible(client, topic), note=f"{kills} of {len(KILLS)} kills")


def _visible(client: Client, topic: str) -> int:
    """Return the number of offsets that a read_committed reader has reached. Markers are among them."""
    ends = list_offsets(client, {(topic, index): LATEST for index in range(PARTITIONS)}, read_committed=True)
    return sum(end.offset for end in ends.values())
