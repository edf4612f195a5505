"""``make streams-demo``: a windowed count while its workers are killed with SIGKILL, added and removed.

The same happens to a program that counts, writes and commits its offsets one after the other. Then an independent
reader compares the last count of each page and minute with the truth.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import Producer
from rich import box
from rich.console import Console
from rich.table import Table

from examples.demos.views import PARTITIONS, SOURCE, line, minute_of
from semel.config import ClientConfig
from semel.errors import SemelError
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, Step, StreamsStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.program import Program
from semel.testing.records import read
from semel.wire.api import topics
from semel.wire.api.offsets import committed
from semel.wire.client import Client

__all__ = ["Counted", "show"]

#: The steps at which workers die: each started worker takes the next one, until none is left.
_KILLS: dict[str, list[Step]] = {
    "streams": [
        StreamsStep.PROCESSED,
        StreamsStep.CHANGELOG_SENT,
        OwnerStep.COMMIT_SENT,
        StreamsStep.COMMITTED,
        StreamsStep.STORED,
    ],
    "naive": [
        StreamsStep.PROCESSED,
        StreamsStep.CHANGELOG_SENT,
        StreamsStep.CHANGELOG_SENT,
        StreamsStep.COMMITTED,
        StreamsStep.CHANGELOG_SENT,
    ],
}
_STRIKES_AT = 5
#: Lines come in this many parts, this far apart; the last ones in small crumbs until all kills and changes have
#: happened.
_PARTS, _APART_S, _LAST_PARTS, _CRUMB = 40, 0.4, 10, 100
#: The statuses of a worker that ends on request; the second one if it has just begun.
_ENDED = (0, -signal.SIGTERM)
_PATIENCE_S, _POLL_S = 500.0, 0.1


@dataclass(frozen=True, slots=True)
class Counted:
    """The result of one run: the numbers of counts that are right, too high, and too low or missing."""

    way: str
    lines: int
    right: int
    high: int
    low: int
    kills: int
    seconds: float

    @property
    def exact(self) -> bool:
        """True if every count is right."""
        return not (self.high or self.low)


@dataclass
class _Crew:
    """The workers of one way."""

    way: str
    servers: str
    folder: Path
    console: Console
    kills: list[Step]
    killed: int = 0
    programs: dict[int, Program] = field(default_factory=dict)
    plans: dict[int, CrashPlan] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)

    def start(self, number: int) -> None:
        """Start a worker, which dies at the next step of the list."""
        points = [CrashPoint(self.kills.pop(0), _STRIKES_AT)] if self.kills else []
        plan = self.plans[number] = CrashPlan(self.folder / f"{self.way}-{number}-{len(self.kills)}", *points)
        argv = [sys.executable, "-m", "examples.demos.views", self.way, self.servers]
        argv += [str(self.folder / f"{self.way}-state-{number}"), f"worker-{number}"]
        log = self.folder / f"{self.way}-{number}.log"
        self.programs[number] = Program(argv, {**os.environ, **plan.environment()}, log)

    def look(self) -> None:
        """Restart killed workers."""
        for number, program in list(self.programs.items()):
            status = program.process.poll()
            if status is None:
                continue
            if number in self.leaving and status in (*_ENDED, -signal.SIGKILL):  # its step may come on its way out
                self.killed += status == -signal.SIGKILL
                self.programs.pop(number)
                continue
            if status != -signal.SIGKILL:
                raise SemelError(f"a worker ended with {status}. It says: {program.tail()}", tag="DEMO")
            (point,) = self.plans[number].points
            self.killed += 1
            self.console.print(f"[dim]{self.way}: worker {number} was killed at {point.name}; it starts again[/]")
            self.start(number)

    def remove(self, number: int) -> None:
        """Ask a worker to commit its work, and end."""
        self.leaving.add(number)
        self.plans.pop(number)
        self.programs[number].process.send_signal(signal.SIGTERM)

    def remove_all(self) -> None:
        """Let all workers end well."""
        for number in self.programs.keys() - self.leaving:
            self.remove(number)
        for program in self.programs.values():
            if program.wait(60) not in _ENDED:
                raise SemelError(f"a worker did not end well. It says: {program.tail()}", tag="DEMO")

    @property
    def all_happened(self) -> bool:
        """True if no worker has to die any more."""
        return not self.kills and all(plan.struck(point) for plan in self.plans.values() for point in plan.points)

    def end(self) -> None:
        """End the workers that still run."""
        for program in self.programs.values():
            program.__exit__()


def show(console: Console, lines: int) -> list[Counted]:
    """Start Kafka, run and kill both, and count. Raise :class:`SemelError` if a worker ends by itself."""
    with (
        tempfile.TemporaryDirectory(prefix="semel-streams-demo-") as directory,
        Sandbox.start(settings={"group.min.session.timeout.ms": "1000"}, progress=True) as kafka,
        Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as client,
    ):
        return [_run(console, way, lines, kafka.bootstrap_servers, client, Path(directory)) for way in _KILLS]


def _run(console: Console, way: str, lines: int, servers: str, client: Client, folder: Path) -> Counted:
    for topic in (SOURCE, f"{way}-counts"):
        topics.create(client, topic, partitions=PARTITIONS, replication=1, config={})
    crew = _Crew(way, servers, folder, console, list(_KILLS[way]))
    began, happened, written = time.monotonic(), threading.Event(), [0]
    writer = threading.Thread(target=_write, args=(servers, lines, happened, written), daemon=True)
    changes: list[tuple[float, str, Callable[[], None]]] = [
        (0.2, "worker 1 is added", lambda: crew.start(1)),
        (0.3, "worker 2 is added", lambda: crew.start(2)),
        (0.6, "worker 1 is removed", lambda: crew.remove(1)),
    ]
    try:
        crew.start(0)
        writer.start()
        while (done := _read(client, way)) < lines:
            crew.look()
            if changes and written[0] >= changes[0][0] * lines:
                _, what, change = changes.pop(0)
                console.print(f"[dim]{way}: {done:,} lines are counted; {what}[/]")
                change()
            if not changes and crew.all_happened:
                happened.set()
            if time.monotonic() - began > _PATIENCE_S:
                raise SemelError(f"{way} did not come to its end. {crew.programs[0].tail()}", tag="DEMO")
            time.sleep(_POLL_S)
        crew.remove_all()
    finally:
        crew.end()
    found = _compare(way, lines, servers, crew.killed, time.monotonic() - began)
    if way != list(_KILLS)[-1]:
        topics.delete(client, SOURCE)
    return found


def _write(servers: str, lines: int, happened: threading.Event, written: list[int]) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20})
    part, slowly = lines // _PARTS, lines - _LAST_PARTS * lines // _PARTS
    while written[0] < lines:
        crumbs = written[0] >= slowly and not happened.is_set()
        end = min(written[0] + (_CRUMB if crumbs else part), lines)
        for number in range(written[0], end):
            page, at = line(number)
            producer.produce(SOURCE, f"GET /{page}", key=page, timestamp=at, on_delivery=_check)
        producer.flush()
        written[0] = end
        time.sleep(_POLL_S if crumbs else _APART_S)


def _check(error: object, _: object) -> None:
    if error is not None:
        raise SemelError(f"the lines could not be written: {error}", tag="DEMO")


def _read(client: Client, group: str) -> int:
    places = [(SOURCE, index) for index in range(PARTITIONS)]
    return sum(committed(client, group, places, require_stable=True).values())


def _compare(way: str, lines: int, servers: str, kills: int, seconds: float) -> Counted:
    """Compare the last count of each page and minute with the truth."""
    rows = read(servers, [f"{way}-counts"], {"key": "key", "value": "value"})
    found = dict(zip(rows["key"].to_pylist(), map(int, rows["value"].to_pylist()), strict=True))
    truth = Counter(minute_of(*line(number)) for number in range(lines))
    off = [found.get(key, 0) - truth.get(key, 0) for key in truth.keys() | found.keys()]
    return Counted(way, lines, off.count(0), sum(one > 0 for one in off), sum(one < 0 for one in off), kills, seconds)


def main(lines: Annotated[int, typer.Option(min=4_000, help="How many lines to count.")] = 200_000) -> None:
    """Count views by page and minute under SIGKILL, with semel and without, and compare both with the truth.

    Ends with status 1 if semel has one count wrong, or the naive program has none.
    """
    console = Console()
    found = show(console, lines)
    table = Table(title="the last counts, by page and minute", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("", "lines", "right", "too high", "too low", "workers killed", "seconds"):
        table.add_column(column, justify="right" if column else "left")
    for one in found:
        numbers = (one.lines, one.right, one.high, one.low, one.kills)
        style = "green" if one.exact else "red"
        table.add_row(one.way, *(f"{number:,}" for number in numbers), f"{one.seconds:.0f}", style=style)
    console.print(table)
    ours, control = found
    if not ours.exact or control.exact or not control.high:
        console.print("[red]That is not what should have come out.[/]")
        raise typer.Exit(1)
    console.print(f"semel.streams: every count is right. Naive, killed in the same way: {control.high:,} are too high.")


if __name__ == "__main__":
    typer.run(main)
