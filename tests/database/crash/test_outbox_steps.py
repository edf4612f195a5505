"""A process that writes to a database and to Kafka is killed at each step of the outbox: both have the same units, each
once (DESIGN rule 13, FLIP-319).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.steps import OutboxStep, Step, TwoPhaseStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.postgres import Postgres
from semel.testing.program import Program, run_until_done
from semel.testing.records import read
from semel.wire.api.describe_transactions import list_transactions
from semel.wire.client import Client
from tests.database.support.outbox_program import orders, rows
from tests.support.topics import create

UNITS = 20
RECOVERY: list[Step] = [OutboxStep.OWNER_RAISED, OutboxStep.TEXTS_READ, OutboxStep.RECOVERED]
UNIT: list[Step] = [
    OutboxStep.BEGUN,
    TwoPhaseStep.INITIALISED,
    TwoPhaseStep.SENT,
    TwoPhaseStep.PREPARED,
    OutboxStep.OWNER_LOCKED,
    OutboxStep.TEXT_WRITTEN,
    OutboxStep.DECISION_SENT,
    OutboxStep.DECIDED,
    TwoPhaseStep.COMMIT_SENT,
    TwoPhaseStep.COMMIT_ANSWERED,
    OutboxStep.FORGOTTEN,
]
STEPS: list[Step] = [*RECOVERY, *UNIT]
#: A process passes these once: its units go on with one transactional id.
ONCE: set[Step] = {*RECOVERY, TwoPhaseStep.INITIALISED}
#: Where it holds a lock of the database.
LOCKED: set[Step] = {*UNIT[: UNIT.index(OutboxStep.DECIDED)]}
#: Prepared and undecided, decided or not as the database says, decided and not followed, and a recovery.
SAMPLE: list[Step] = [TwoPhaseStep.PREPARED, OutboxStep.DECIDED, OutboxStep.TEXTS_READ]


@pytest.fixture(scope="module")
def brokers() -> Iterator[Sandbox]:
    with Sandbox.start(settings=TWO_PHASE_COMMIT) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def argv(brokers: Sandbox, topic: str, url: str, order: str = "outbox", units: int = UNITS) -> list[str]:
    program = [sys.executable, "-m", "tests.database.support.outbox_program"]
    return [*program, brokers.bootstrap_servers, topic, url, str(units), order]


def in_topic(brokers: Sandbox, topic: str) -> list[str]:
    values = read(brokers.bootstrap_servers, [topic], {"value": "value"})["value"].to_pylist()
    return sorted(str(value) for value in values)


def in_database(url: str, topic: str) -> list[str]:
    with sa.create_engine(url).connect() as connection:
        return sorted(connection.execute(sa.select(orders.c.value).where(orders.c.topic == topic)).scalars())


def left_over(brokers: Sandbox, url: str, topic: str) -> list[str]:
    with Client(ClientConfig.parse({"bootstrap.servers": brokers.bootstrap_servers})) as client:
        listed = [name for name in list_transactions(client, ["Ongoing"]) if name.startswith(f"{topic}.unit.")]
    with sa.create_engine(url).connect() as connection:
        texts = connection.execute(sa.text("SELECT text FROM semel_outbox_prepared WHERE prefix = :p"), {"p": topic})
        return listed + list(texts.scalars())


def check(brokers: Sandbox, url: str, topic: str, units: int = UNITS) -> None:
    written = sorted(value for unit in range(units) for value in rows(unit))
    assert in_database(url, topic) == written
    assert in_topic(brokers, topic) == written
    assert left_over(brokers, url, topic) == []


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("postgresql", SAMPLE),
        ("sqlite", SAMPLE[1:2]),
        pytest.param("postgresql", STEPS, marks=pytest.mark.exhaustive),
        pytest.param("sqlite", STEPS, marks=pytest.mark.exhaustive),
    ],
)
def test_killed_at_every_step_both_have_the_same_units(
    brokers: Sandbox, request: pytest.FixtureRequest, tmp_path: Path, kind: str, steps: list[Step]
) -> None:
    url = request.getfixturevalue("postgres").url if kind == "postgresql" else f"sqlite:///{tmp_path}/orders.db"
    topic = create(brokers.bootstrap_servers, f"outbox-{kind}-{len(steps)}", 3)
    # a recovery is passed once by each start: its kills come in a row, behind the first one of a unit
    points = [CrashPoint(step, 2) if step in RECOVERY else CrashPoint(step, 2 + at) for at, step in enumerate(steps)]
    plan = CrashPlan(tmp_path / "plan", *points)
    assert run_until_done(argv(brokers, topic, url), plan, len(points), timeout=120) == len(points)
    check(brokers, url, topic)


@pytest.mark.parametrize("steps", [SAMPLE[1:2], pytest.param(STEPS, marks=pytest.mark.exhaustive)])
def test_killed_while_four_units_run(brokers: Sandbox, postgres: Postgres, tmp_path: Path, steps: list[Step]) -> None:
    """At each step of one of them, the others are anywhere."""
    topic = create(brokers.bootstrap_servers, f"outbox-workers-{len(steps)}", 3)
    # each start writes at least two units, so that the kills have units left
    points = [CrashPoint(step, 1 if step in RECOVERY else 2) for step in steps]
    plan = CrashPlan(tmp_path / "plan", *points)
    program = argv(brokers, topic, postgres.url, "workers", UNITS if len(steps) == 1 else 5 * UNITS)
    assert run_until_done(program, plan, len(points), timeout=120) == len(points)
    check(brokers, postgres.url, topic, UNITS if len(steps) == 1 else 5 * UNITS)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "step"),
    [
        *(pytest.param("postgresql", step, id=f"postgresql-{step.value}") for step in STEPS),
        *(pytest.param("sqlite", step, id=f"sqlite-{step.value}") for step in STEPS if step not in LOCKED),
    ],
)
def test_frozen_at_each_step_it_is_replaced(
    brokers: Sandbox, request: pytest.FixtureRequest, tmp_path: Path, kind: str, step: Step
) -> None:
    """Thawed, it finds that another one has come, or that its Kafka transaction or its session has been ended.

    PostgreSQL frees the owner row by the session's timeout. SQLite has none, so there it is frozen where it holds no
    lock.
    """
    url = request.getfixturevalue("postgres").url if kind == "postgresql" else f"sqlite:///{tmp_path}/orders.db"
    topic = create(brokers.bootstrap_servers, f"outbox-frozen-{kind}-{step.value}", 3)
    point = CrashPoint(step, 1 if step in ONCE else 3, Action.STOP)
    plan = CrashPlan(tmp_path / "plan", point)
    first = argv(brokers, topic, url)
    with Program(first, {**os.environ, **plan.environment()}, tmp_path / "frozen.log") as frozen:
        plan.wait(point, 60)
        with Program(first, dict(os.environ), tmp_path / "second.log") as second:
            assert second.wait(120) == 0, second.tail()
        check(brokers, url, topic)
        plan.release(point)
        assert frozen.wait(60) == (0 if step in RECOVERY else 1)  # behind its recovery it has nothing left to write
        assert ("[SEMEL_" in frozen.tail()) is (step not in RECOVERY), frozen.tail()
    check(brokers, url, topic)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_the_broker_is_killed_at_each_step(
    brokers: Sandbox, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """The program meets a broker that is away, which comes back, and goes on."""
    url = request.getfixturevalue("postgres").url if kind == "postgresql" else f"sqlite:///{tmp_path}/orders.db"
    topic = create(brokers.bootstrap_servers, f"outbox-broker-{kind}", 3)
    once_first = sorted(STEPS, key=lambda step: step not in ONCE)
    points = [CrashPoint(step, 1 if step in ONCE else 2 + at, Action.HANG) for at, step in enumerate(once_first)]
    plan = CrashPlan(tmp_path / "plan", *points)
    (node,) = brokers.nodes
    with Program(argv(brokers, topic, url), {**os.environ, **plan.environment()}, tmp_path / "log") as program:
        for point in points:
            plan.wait(point, 60)
            node.kill()
            plan.release(point)  # at once: PostgreSQL ends a session that is silent on the owner row
            node.start()
            node.wait_ready()
        assert program.wait(120) == 0, program.tail()
    check(brokers, url, topic)


def test_control_a_naive_dual_write_tears(brokers: Sandbox, postgres: Postgres, tmp_path: Path) -> None:
    topic = create(brokers.bootstrap_servers, "outbox-naive", 3)
    plan = CrashPlan(tmp_path / "plan", CrashPoint(OutboxStep.DECIDED, 3))
    run_until_done(argv(brokers, topic, postgres.url, "naive", 4), plan, 1, timeout=120)
    missing = set(in_database(postgres.url, topic)) - set(in_topic(brokers, topic))
    assert missing == set(rows(2)), "the unit at hand is in the database alone"
