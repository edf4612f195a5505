"""A broker that takes two-phase commit, a PostgreSQL, and an outbox's place on each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.testing.postgres import Postgres
from tests.database.support.outbox_place import Place, make_place


@pytest.fixture(scope="module")
def brokers() -> Iterator[Sandbox]:
    soon = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with Sandbox.start(settings={**TWO_PHASE_COMMIT, **soon}) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, brokers: Sandbox, tmp_path: Path) -> Iterator[Place]:
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/orders.db" if sqlite else request.getfixturevalue("postgres").url
    yield from make_place(brokers, url)
