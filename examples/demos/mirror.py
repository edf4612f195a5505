"""``make mirror-demo``: a topic of one cluster is copied to another while driver and executors are killed with SIGKILL.

Orders are written to the source all the time. The same kills, at named steps, meet the mirror twice: exactly once, and
as a control at least once, with one other line in its file. Then a client that is not semel's reads both clusters.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from rich.console import Console

from semel.cluster import Cluster
from semel.config import ClientConfig
from semel.demo.orders import write_orders
from semel.demo.report import as_promised, table_of
from semel.demo.show import DemoResult
from semel.sandbox import Sandbox
from semel.steps import MirrorStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.history import check
from semel.testing.records import arrived
from semel.testing.spark.spark_cluster import SparkCluster
from semel.wire.api import topics
from semel.wire.client import Client

__all__ = ["KILLS", "main", "show"]

_PARTITIONS = 4
_LOT, _MOST, _PAUSE_S = 200, 2_000_000, 0.05
_QUIET_S = 2.0
#: One executor with two tasks at a time.
_SPARK = SparkCluster("local-cluster[1,2,1024]")
#: Both ways pass these steps. Rows are doubled when a driver is killed after its rows were written, and before their
#: positions were.
KILLS = (
    CrashPoint(MirrorStep.WRITTEN, 3, Action.EXECUTOR),
    CrashPoint(MirrorStep.COPIED, 6, Action.DRIVER),
    CrashPoint(MirrorStep.FETCHED, 20, Action.EXECUTOR),
    CrashPoint(MirrorStep.COMMITTED, 11, Action.DRIVER),
)
#: The value of ``exactly.once.source.support`` in the file, by the name of the run and of its topic.
RUNS = {"semel": "enabled", "control": "disabled"}
_FILE = """clusters = A, B
A.bootstrap.servers = {source}
B.bootstrap.servers = {target}
A->B.enabled = true
A->B.topics = {topic}
B.exactly.once.source.support = {support}
driver.copy.max.offsets = 0
replication.factor = 1
checkpoints.topic.replication.factor = 1
emit.heartbeats.enabled = false
"""


class _Writer:
    """A writer of orders to the source, until it is stopped. ``orders`` are committed."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic, self._stop = cluster, topic, threading.Event()
        self._thread = threading.Thread(target=self._write, name=f"writes {topic}", daemon=True)
        self.orders = 0

    def __enter__(self) -> _Writer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        for committed in write_orders(self._cluster, _MOST, _LOT, self._topic):
            self.orders = committed
            if self._stop.wait(_PAUSE_S):
                return


def show(console: Console) -> list[DemoResult]:
    """Start two clusters, mirror and kill in both ways, and count."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semel-mirror-demo-")))
        a, b = (stack.enter_context(Sandbox.start(progress=True)) for _ in range(2))
        cluster = stack.enter_context(Cluster({"bootstrap.servers": a.bootstrap_servers}))
        client = stack.enter_context(Client(ClientConfig.parse({"bootstrap.servers": a.bootstrap_servers})))
        found = []
        for name in RUNS:
            topics.create(client, name, partitions=_PARTITIONS, config={})
            with console.status(f"{name}: mirroring under SIGKILL while orders are written ..."):
                found.append(_run(name, cluster, a, b, directory))
        return found


def _run(name: str, cluster: Cluster, a: Sandbox, b: Sandbox, directory: Path) -> DemoResult:
    file, plan = directory / f"{name}.properties", CrashPlan(directory / name, *KILLS)
    servers = {"source": a.bootstrap_servers, "target": b.bootstrap_servers}
    file.write_text(_FILE.format(topic=name, support=RUNS[name], **servers))
    argv = [sys.executable, "-c", "from semel.cli import main; main()", "mirror", str(file)]
    began, target = time.monotonic(), f"A.{name}"
    with _Writer(cluster, name) as writer:

        def all_copied() -> bool:
            """Return True once all kills have struck and all orders are copied. Then no more are written; doubled ones
            come before the last order.
            """
            if not all(map(plan.struck, KILLS)):
                return False
            writer.stop()
            return arrived(b.bootstrap_servers, target) >= writer.orders and _quiet(b, target)

        starts = _SPARK.run_until(argv, plan, all_copied, len(KILLS)) + 1
    seconds = time.monotonic() - began
    there = a.bootstrap_servers
    history = check(
        b.bootstrap_servers, target, source=name, source_cluster=there, id="json:$.order", batch="json:$.lot"
    )
    return DemoResult(name, history, len(KILLS), starts, seconds)


def _quiet(sandbox: Sandbox, topic: str) -> bool:
    """Return True if no more records come: doubled ones make the count come true too early."""
    before = arrived(sandbox.bootstrap_servers, topic)
    time.sleep(_QUIET_S)
    return arrived(sandbox.bootstrap_servers, topic) == before


def main() -> None:
    """Show it, and end with status 1 unless it came out as promised."""
    console = Console()
    outcomes = show(console)
    console.print(table_of(outcomes))
    if not as_promised(outcomes):
        console.print("[red]That is not what should have come out.[/]")
        sys.exit(1)
    doubled = outcomes[-1].history.duplicated
    console.print(
        "semel: each order is on B once, in its order. At least once, killed in the same way:"
        f" {doubled:,} orders doubled."
    )


if __name__ == "__main__":
    main()
