"""``exactly.once.source.support`` changed over rolling restarts of a group, while a connector runs and is killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.processes.supervisor import State
from semel.sandbox import Sandbox
from semel.testing.records import read
from tests.connect.support.place import Place
from tests.connect.support.running import Running
from tests.support.waiting import wait_for

LINES = 300


@pytest.fixture
def place(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Place:
    return Place(spark, kafka.bootstrap_servers, tmp_path)


class Group:
    """Two workers, and a connector that reads what is appended to a file."""

    def __init__(self, place: Place, stack: ExitStack) -> None:
        self.place, self._stack = place, stack
        self.workers = [self._worker("disabled") for _ in range(2)]
        self.workers[0].worker.herder.put(place.name, place.lines(place.name, **{"batch.size": "10"}))

    def _worker(self, support: str) -> Running:
        given = {**self.place.stored, "exactly_once_source_support": support}
        return self._stack.enter_context(self.place.running(**given))

    def roll(self, support: str) -> None:
        """Start one after the other again; lines come all the time, and a task is killed each time."""
        for number in range(2):
            self.workers[number].worker.stop()
            other = self.workers[1 - number]
            if not other.worker.ready:
                other.lead()
            self.workers[number] = self._worker(support)
            self.write(f"to {support} {number}")

    def write(self, kind: str) -> None:
        """Append lines, kill the task that reads them, and wait until the last one is there."""
        (leader,) = (one for one in self.workers if one.worker.ready)
        task = f"{self.place.name}-0"
        leader.wait_started(task)
        with self.place.file.open("a") as file:
            file.writelines(f"{kind} {number}\n" for number in range(LINES))
        self._wait_for(f"{kind} 0")
        os.kill(int(leader.wait_state(task, State.RUNNING).where.rpartition(":")[2]), signal.SIGKILL)
        with self.place.file.open("a") as file:
            file.write(f"{kind} last\n")
        self._wait_for(f"{kind} last")

    def _wait_for(self, line: str) -> None:
        wait_for(lambda: line in self.place.values(), line, 90)


@contextmanager
def _group(place: Place) -> Iterator[Group]:
    place.file.write_text("")
    with ExitStack() as stack:
        yield Group(place, stack)


@pytest.mark.exhaustive  # its sample is tests/connect/unit/test_group.py: which workers may be in one group
def test_from_disabled_to_enabled_and_back(place: Place) -> None:
    with _group(place) as group:
        group.write("disabled")
        group.roll("preparing")
        group.roll("enabled")
        for number in range(3):
            group.write(f"enabled {number}")
        group.roll("preparing")
        group.roll("disabled")
        group.write("disabled again")
        expected = place.file.read_text().splitlines()
    found = read(place.servers, [place.topic], {"value": "value"})["value"].to_pylist()
    counts = Counter(map(str, found))
    assert counts.keys() == set(expected), "none is lost"
    enabled = [line for line in expected if line.startswith(("enabled", "to enabled 1"))]
    assert len(enabled) == 4 * LINES + 4
    assert {counts[line] for line in enabled} == {1}
