"""A task that captures changes is killed with SIGKILL at each step, and so is PostgreSQL: the topic replayed gives the
table, each change once.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from semel.sandbox import Sandbox
from semel.steps import CaptureStep, ConnectStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.postgres import Postgres
from semel.testing.program import Program
from semel.testing.records import arrived
from semel.testing.spark.spark_cluster import SparkCluster
from tests.connect.oracle.debezium import records
from tests.connect.support.capturing import properties
from tests.connect.support.lines import SEMEL
from tests.connect.support.reading import connected
from tests.connect.support.replay import replayed
from tests.support import topics
from tests.support.waiting import wait_for

LOCAL = SparkCluster("local[8,4]")
READ, ROUNDS, SIZE = 20_000, 32, 1_000
#: Of a start, each at its own start; then of transactions, of rows and of changes.
STARTING = [
    *(CrashPoint(step) for step in list(CaptureStep)[:3]),
    CrashPoint(CaptureStep.ROWS_READ),
    CrashPoint(CaptureStep.LOG_OPENED),
    CrashPoint(CaptureStep.LOG_CONFIRMED, 3),
]
WRITING = [ConnectStep.POLLED, ConnectStep.RECORDS_WRITTEN, ConnectStep.OFFSETS_SENT, ConnectStep.COMMITTED]
IN_ROWS = [CrashPoint(step, 3) for step in WRITING]
IN_CHANGES = [CrashPoint(step, 30) for step in WRITING]


def test_every_step_is_struck() -> None:
    assert {point.step for point in STARTING} == set(CaptureStep)


class Capture:
    """A worker with one connector, a database with one table, and the topic of its changes."""

    def __init__(self, kafka: Sandbox, postgres: Postgres, folder: Path, **worker: str) -> None:
        self.servers, self.postgres, self.name = (
            kafka.bootstrap_servers,
            postgres,
            folder.name.lower().replace("-", "_"),
        )
        self.topic = topics.create(self.servers, f"{self.name}.public.counters")
        given = {
            "bootstrap.servers": self.servers,
            "group.id": self.name,
            "offset.storage.topic": f"{self.name}-offsets",
            "offset.storage.partitions": "5",
            "offset.storage.replication.factor": "1",
            "exactly.once.source.support": "enabled",
            **{key.replace("_", "."): value for key, value in worker.items()},
        }
        connector = properties(postgres, self.name) | {"max.batch.size": "1500", "tasks.max": "1"}
        given |= {key: connector[key] for key in ("key.converter", "value.converter")}
        self.argv = [*SEMEL, "connect", str(_written(folder / "worker", given)), str(_written(folder / "c", connector))]
        with connected(postgres) as connection:
            connection.execute("CREATE TABLE counters (id int PRIMARY KEY, version int NOT NULL)")
            connection.execute(f"INSERT INTO counters SELECT n, 0 FROM generate_series(1, {READ}) n".encode())

    def change(self, number: int, size: int = SIZE) -> None:
        """Make a round of changes: a transaction of updates, one of new rows and deletes, one that is rolled back."""
        first = number * 2 * SIZE % READ
        with connected(self.postgres, autocommit=False) as connection:
            connection.execute(
                f"UPDATE counters SET version = version + 1 WHERE id > {first} AND id <= {first + size}".encode()
            )
            connection.commit()
            new = 10 * READ + number * SIZE
            connection.execute(
                f"INSERT INTO counters SELECT n, 0 FROM generate_series({new}, {new + size - 1}) n".encode()
            )
            connection.execute(f"DELETE FROM counters WHERE id >= {new} AND id < {new + size // 2}".encode())
            connection.commit()
            connection.execute(f"UPDATE counters SET version = 1000 WHERE id <= {size}".encode())
            connection.rollback()

    def end(self) -> None:
        """Write the last change."""
        with connected(self.postgres) as connection:
            connection.execute("INSERT INTO counters VALUES (-1, 0)")

    def ended(self) -> bool:
        """Return whether the last change has arrived."""
        return any(one.key() == b'{"id":-1}' for one in records(self.servers, self.topic, 20))

    def check_exact(self) -> None:
        """Compare the topic, replayed, with the table."""
        written = replayed((one.key(), one.value()) for one in records(self.servers, self.topic))
        with connected(self.postgres) as connection:
            rows: dict[Any, Any] = dict(connection.execute("SELECT id, version FROM counters").fetchall())
        assert {row["id"]: row["version"] for row in written.values()} == rows


def _written(path: Path, given: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return path


def _struck(
    plan: CrashPlan, points: list[CrashPoint], driver: Program, meanwhile: Callable[[], None] = lambda: None
) -> None:
    def all_struck() -> bool:
        assert driver.process.poll() is None, driver.tail()
        if all(map(plan.struck, points)):
            return True
        meanwhile()
        return False

    wait_for(all_struck, driver.tail)


@pytest.mark.parametrize(
    ("boundary", "action", "every"),
    [
        ("poll", Action.KILL, 3),  # every third step
        *(
            pytest.param(boundary, action, 1, marks=pytest.mark.exhaustive)
            for boundary, action in (("poll", Action.KILL), ("interval", Action.KILL), ("poll", Action.HANG))
        ),
    ],
)
def test_each_change_once(kafka: Sandbox, tmp_path: Path, boundary: str, action: Action, every: int) -> None:
    """100,000 rows and changes, a third in the sample; PostgreSQL is killed between.

    With HANG, the driver is killed while a task is held.
    """
    with Postgres(wal_level="logical", wal_sender_timeout="5s") as postgres:
        capture = Capture(kafka, postgres, tmp_path, offset_flush_interval_ms="500")
        if boundary != "poll":
            with (tmp_path / "c").open("a") as file:
                file.write(f"transaction.boundary={boundary}\ntransaction.boundary.interval.ms=300\n")
        if action is Action.HANG:
            for point in (*STARTING[:3], *IN_ROWS):
                plan = CrashPlan(tmp_path / f"held-{point.name}", CrashPoint(point.step, 1, action))
                with LOCAL.driver(capture.argv, plan) as driver:
                    _struck(plan, list(plan.points), driver)
                    driver.process.send_signal(signal.SIGKILL)
        starting, in_rows, in_changes = STARTING[::every], IN_ROWS[::every], IN_CHANGES[1::every]
        plan = CrashPlan(tmp_path / "plan", *starting, *in_rows, *in_changes)
        rounds = ROUNDS // every
        with LOCAL.driver(capture.argv, plan) as driver:
            _struck(plan, in_rows, driver)
            for number in range(rounds):
                capture.change(number)
                if number == rounds // 2:
                    wait_for(partial(_more_than, capture, READ + rounds * SIZE // 3), driver.tail)
                    postgres.kill()
                    postgres.start()
            more = count(rounds)
            _struck(plan, [*starting, *in_changes], driver, lambda: capture.change(next(more), 20))
            capture.end()
            wait_for(capture.ended, driver.tail)
            driver.process.send_signal(signal.SIGINT)
            assert driver.wait(60) == 0, driver.tail()
        capture.check_exact()


def _more_than(capture: Capture, count: int) -> bool:
    return arrived(capture.servers, capture.topic) > count


def test_at_least_once_doubles(kafka: Sandbox, tmp_path: Path) -> None:
    """The control: the same kill, and offsets only now and then."""
    with Postgres(wal_level="logical", wal_sender_timeout="5s") as postgres:
        capture = Capture(kafka, postgres, tmp_path, exactly_once_source_support="disabled")
        plan = CrashPlan(tmp_path / "plan", CrashPoint(ConnectStep.RECORDS_WRITTEN, 3))
        with LOCAL.driver(capture.argv, plan) as driver:
            _struck(plan, list(plan.points), driver)
            # the last change is to come from the log, not among the rows of a session that has not begun
            wait_for(partial(_more_than, capture, READ), driver.tail)
            capture.end()
            wait_for(capture.ended, driver.tail)
        with pytest.raises(AssertionError, match="read twice"):
            capture.check_exact()
