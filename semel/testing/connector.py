"""A test of Connect connectors: its tasks are killed at each step, and the output is compared with the source.

The source is read first, in this process, from the beginning. So it must end, and give the same records each time. Then
a worker reads it into its own Kafka, and a task is killed by SIGKILL at each step of its start and of a transaction.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semel.config import ClientConfig
from semel.connect.api import Setting, SourceTask, TaskContext, TransactionContext
from semel.connect.plugins import connector_class
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.tasks.rows import rows_of
from semel.errors import ConfigError
from semel.sandbox import Sandbox
from semel.steps import ConnectStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.program import Program
from semel.testing.records import arrived, read
from semel.testing.spark.spark_cluster import SparkCluster
from semel.wire.api import topics
from semel.wire.client import Client

__all__ = ["Findings", "check_connector"]

Record = tuple[str, str | None, str | None]

_QUIET_S = 3.0
#: A task that is killed again and again waits 30 s before it starts again. Then it starts, on a busy machine.
_LOST_AFTER_S = 90.0
_REFERENCE_S = 120.0
_PATIENCE_S = 300.0
_POLL_S = 0.2
_OFFSETS = "connect-test-offsets"
_JSON = {
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}
#: The first kill comes after some polls; each leads to a start, in which the next one comes.
_WRITING = (ConnectStep.POLLED, ConnectStep.RECORDS_WRITTEN, ConnectStep.OFFSETS_SENT, ConnectStep.COMMITTED)


@dataclass(frozen=True, slots=True)
class Findings:
    """The comparison of the output with the source. ``unreached`` are steps for which the source was too short."""

    expected: int
    lost: Counter[Record]
    doubled: Counter[Record]
    struck: tuple[ConnectStep, ...]
    unreached: tuple[ConnectStep, ...]

    @property
    def exact(self) -> bool:
        """True if each record arrived once."""
        return not self.lost and not self.doubled


def check_connector(properties: Mapping[str, str], say: Callable[[str], None] = lambda _: None) -> Findings:
    """Read a source with kills. Raise :class:`ConfigError` for wrong properties, or a source without end."""
    connector = {"name": "connect-test", **properties}
    worker = _worker(connector)
    config = ConnectorConfig.parse(connector, WorkerConfig.parse(worker))
    wanted = _reference(config)
    say(f"its source has {sum(wanted.values()):,} records; starting a Kafka")
    with tempfile.TemporaryDirectory(prefix="semel-connect-test-") as folder, Sandbox.start() as kafka:
        worker["bootstrap.servers"] = kafka.bootstrap_servers
        names = sorted({topic for topic, _, _ in wanted})
        with Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as client:
            for name in names:
                topics.create(client, name, partitions=3, replication=1, config={})
        plan = _plan(Path(folder) / "plan")
        files = {"worker": worker, "connector": connector}
        for name, one in files.items():
            text = "".join(f"{key}={_escaped(value)}\n" for key, value in one.items())
            (Path(folder) / f"{name}.properties").write_text(text)
        argv = [sys.executable, "-c", "from semel.cli import main; main()", "connect"]
        argv += [str(Path(folder) / f"{name}.properties") for name in files]
        say("killing its tasks at each step")
        with SparkCluster("local[16,4]", workers=sys.executable).driver(argv, plan) as driver:
            _wait(kafka.bootstrap_servers, names, sum(wanted.values()), plan, driver)
            driver.process.send_signal(signal.SIGINT)
            driver.wait(60)
        written = _written(kafka.bootstrap_servers, names)
        met = {point.step for point in plan.points if plan.struck(point)}
    struck = tuple(step for step in ConnectStep if step in met)
    unreached = tuple(step for step in ConnectStep if step not in struck)
    return Findings(sum(wanted.values()), wanted - written, written - wanted, struck, unreached)


def _worker(connector: Mapping[str, str]) -> dict[str, str]:
    """Return its worker's properties. They allow the program that the connector names: it is the caller's own."""
    settings = connector_class(connector.get("connector.class", "")).config
    programs = [name for name, one in settings.items() if isinstance(one, Setting) and one.program]
    return {
        "bootstrap.servers": "localhost:9092",
        "group.id": "connect-test",
        "offset.storage.topic": _OFFSETS,
        "offset.storage.replication.factor": "1",
        "exactly.once.source.support": "enabled",
        "semel.programs.allowed": ",".join(connector[name] for name in programs if name in connector),
        **_JSON,
    }


def _reference(config: ConnectorConfig) -> Counter[Record]:
    """Return the records of the source, read by new tasks in turn until none of them has any for a while."""
    shares = config.connector.tasks(config.own, config.max_tasks)
    tasks: list[SourceTask] = [config.source.task() for _ in shares]
    records: Counter[Record] = Counter()
    end, quiet = time.monotonic() + _REFERENCE_S, time.monotonic() + _QUIET_S
    try:
        for task, share in zip(tasks, shares, strict=True):
            task.start(share, TaskContext(lambda _: None, TransactionContext()))
        while time.monotonic() < quiet:
            if time.monotonic() > end:
                raise ConfigError(
                    f"the source of {config.name!r} did not come to an end within {_REFERENCE_S:.0f} s. Nothing was"
                    " tested. Give it a limit, or a smaller source.",
                    tag="SOURCE_WITHOUT_END",
                )
            if sum(_take(task, config, records) for task in tasks):
                quiet = time.monotonic() + _QUIET_S
            else:
                time.sleep(_POLL_S)
    finally:
        for task in tasks:
            task.stop()
    if not records:
        raise ConfigError(
            f"the source of {config.name!r} has no records. Nothing was tested. Give it some to read.", tag="NO_RECORDS"
        )
    return records


def _take(task: SourceTask, config: ConnectorConfig, records: Counter[Record]) -> int:
    rows = rows_of(task.poll(), config, 0)
    if rows is None:
        return 0
    for topic, table in rows.tables:
        keys = table["key"].to_pylist() if "key" in table.schema.names else [None] * table.num_rows
        values = table["value"].to_pylist()
        records.update((topic, _text(key), _text(value)) for key, value in zip(keys, values, strict=True))
    return rows.count


def _plan(folder: Path) -> CrashPlan:
    starting = [CrashPoint(step, 2, Action.KILL) for step in ConnectStep if step not in _WRITING]
    return CrashPlan(folder, *starting, *(CrashPoint(step, 3, Action.KILL) for step in _WRITING))


def _wait(servers: str, names: list[str], wanted: int, plan: CrashPlan, driver: Program) -> None:
    """Wait until all records have arrived, and no more come for a while."""
    end, last, quiet = time.monotonic() + _PATIENCE_S, -1, time.monotonic()
    while time.monotonic() < end and driver.process.poll() is None:
        now = arrived(servers, *names)
        if now != last:
            last, quiet = now, time.monotonic()
        if now >= wanted and time.monotonic() - quiet > 2 * _QUIET_S:
            return
        if all(plan.struck(point) for point in plan.points) and time.monotonic() - quiet > _LOST_AFTER_S:
            return  # the rest is lost
        time.sleep(_POLL_S)
    if driver.process.poll() is not None:
        raise ConfigError(f"the worker ended. Nothing was found out. It says:\n{driver.tail()}", tag="WORKER_ENDED")


def _written(servers: str, names: list[str]) -> Counter[Record]:
    rows = read(servers, names, {"key": "key", "value": "value"}, missing="").to_pylist()
    return Counter((row["topic"], row["key"] or None, row["value"] or None) for row in rows)


def _text(value: Any) -> str | None:
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
    return text or None


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
