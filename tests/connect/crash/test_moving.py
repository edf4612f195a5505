"""Files that move between tasks while their connector is reconfigured under load: each line once, in order."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from semel.sandbox.ports import Ports
from semel.testing.crash import CrashPlan
from semel.testing.records import arrived, read
from semel.testing.spark.spark_cluster import SparkCluster
from tests.connect.support.lines import SEMEL
from tests.connect.support.place import Place
from tests.connect.support.rest import Rest
from tests.support import topics
from tests.support.waiting import wait_for

FILES = 6


@pytest.fixture
def place(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Place:
    return Place(spark, kafka.bootstrap_servers, tmp_path)


def _files(folder: Path, changes: Sequence[int]) -> list[Path]:
    """Half of them move at a change, by the hash of their path; the first task keeps the others."""
    names = [folder / f"file-{number}.txt" for number in range(1_000)]
    tasks = {file: {zlib.crc32(str(file).encode()) % tasks for tasks in changes} for file in names}
    moved, kept = ([file for file in names if (len(tasks[file]) > 1) is moves] for moves in (True, False))
    return [*moved[: FILES // 2], *kept[: FILES // 2]]


@contextmanager
def _growing(files: Sequence[Path]) -> Iterator[None]:
    """Append to all of them meanwhile, and end them with whole lines."""
    ending = threading.Event()

    def append() -> None:
        number = 0
        opened = [file.open("ab", buffering=0) for file in files]
        while not ending.wait(0.01):
            number += 1
            for name, file in zip(files, opened, strict=True):
                file.write(f"{name.stem} {number} first half,".encode())
                file.write(b" second half\n")
        for file in opened:
            file.close()

    thread = threading.Thread(target=append, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@contextmanager
def _in_this_process(place: Place) -> Iterator[Rest]:
    with place.running(**{**place.stored, "listeners": "http://127.0.0.1:0"}) as running:
        yield Rest("moving", running.worker.addresses[0], place.servers, place.worker, place.file.parent)


@contextmanager
def _with_more_slots(place: Place) -> Iterator[Rest]:
    """A worker of its own, whose Spark has room for more tasks than two."""
    ports = Ports(1)
    given = {name.replace("_", "."): value for name, value in place.stored.items()} | place.worker
    given["listeners"] = f"http://127.0.0.1:{ports.numbers[0]}"
    ports.release()
    folder = place.file.parent
    file = folder / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    plan = CrashPlan(folder / "none")
    with SparkCluster("local[8,4]").driver([*SEMEL, "connect", str(file)], plan) as driver:
        rest = Rest("moving", given["listeners"], place.servers, given, folder)
        wait_for(rest.answers, driver.tail, 90)
        yield rest


def _reconfigure(rest: Rest, name: str, config: dict[str, str], tasks: int) -> None:
    """Change the number of tasks, and wait until each of them is at work."""
    assert rest.ask("PUT", f"/connectors/{name}/config", {**config, "tasks.max": str(tasks)})[0] in (200, 201)
    rest.wait_states(name, *["RUNNING"] * (tasks + 1))
    before = arrived(rest.servers, config["topic"])
    wait_for(lambda: arrived(rest.servers, config["topic"]) > before + 3 * FILES, "that they go on", 60)


Worker = Callable[[Place], AbstractContextManager[Rest]]


@pytest.mark.parametrize(
    ("worker", "boundary", "changes"),
    [
        (_in_this_process, "poll", (1, 2, 1)),
        pytest.param(_with_more_slots, "poll", (1, 3, 2), marks=pytest.mark.exhaustive),
        pytest.param(_with_more_slots, "poll", (1, 4, 2, 3, 1, 3) * 2, marks=pytest.mark.exhaustive),
        pytest.param(_with_more_slots, "interval", (1, 4, 2, 3, 1, 3) * 2, marks=pytest.mark.exhaustive),
    ],
)
def test_files_move_between_tasks(place: Place, worker: Worker, boundary: str, changes: Sequence[int]) -> None:
    folder, topic = place.file.parent, topics.create(place.servers, f"{place.topic}-one")
    files = _files(folder, changes)
    config = {
        "connector.class": "FilesSource",
        "files": str(folder / "file-*.txt"),
        "topic": topic,
        "batch.size": "20",
        "directory.poll.interval.ms": "100",
        "transaction.boundary": boundary,
        "transaction.boundary.interval.ms": "300",
    }
    with worker(place) as rest:
        with _growing(files):
            for tasks in changes:
                _reconfigure(rest, place.name, config, tasks)
        expected = {file.stem: file.read_text().splitlines() for file in files}
        lines = sum(map(len, expected.values()))
        wait_for(lambda: arrived(place.servers, topic) >= lines, f"{lines} lines", 60)
    found: dict[str, list[str]] = {file.stem: [] for file in files}
    for value in read(place.servers, [topic], {"value": "value"}).sort_by("offset")["value"].to_pylist():
        found[str(value).partition(" ")[0]].append(str(value))
    assert found == expected
